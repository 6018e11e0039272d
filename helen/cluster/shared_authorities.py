"""Shares the CAs that certify agents: every Helen's own, and further ones that it trusts. Merged.

    {"authorities": {SHA-256 OF THE CERTIFICATE: its PEM}}

A CA opens nothing by itself: keys have to be enrolled as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cryptography import x509
from twisted.logger import Logger

from helen.identity.authority import Authority
from helen.keys import certificates
from helen.keys.certificates import BadRequest

MOST = 100  # CAs of a network: one for each of 64 Helens, and those that were before them


class AuthoritiesPart:
    """Imports the CAs of other Helens, and publishes those of this one."""

    log = Logger()
    names = ("authorities",)
    in_memory = False

    def __init__(self, authority: Authority, wall: Callable[[], float], changed: Callable[[], None]) -> None:
        self._authority, self._wall = authority, wall
        authority.on_changed(changed)

    def _ours(self) -> dict[str, str]:
        return {certificates.fingerprint(one): certificates.pem(one) for one in self._authority.material.bundle}

    def wanted(self, name: str, value: Any) -> Any:
        """Return all CAs that have not expired, if the network lacks some of ours."""
        said: dict[str, str] = value["authorities"] if value else {}
        now = self._wall()
        merged = {name: pem for name, pem in (said | self._ours()).items() if is_in_time(pem, now)}
        if merged == said:
            return None
        newest_last = dict(sorted(merged.items())[-MOST:])
        return None if newest_last == said else {"authorities": newest_last}

    async def adopt(self, name: str, value: Any) -> None:
        """Import CAs that are new here. One that can't be used is told in the log and left out."""
        ours = self._ours()
        for fingerprint, pem in list(value["authorities"].items())[:MOST]:
            if fingerprint in ours:
                continue
            try:
                await self._authority.import_ca(pem.encode(), self._wall(), "network")
            except BadRequest as error:
                self.log.error("a CA of the network is left out: {error}", error=error)


def is_in_time(pem: str, now: float) -> bool:
    """Return True if a CA has not expired. `now`: unix seconds."""
    try:
        return certificates.until(x509.load_pem_x509_certificate(pem.encode())) > now
    except ValueError:
        return False
