"""Keeps the CA of this server, and those that it trusts beside its own, in step with the folder STATE/ca."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cryptography import x509
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from groundwork.event import Event
from helen.identity import ca_sync
from helen.identity.ca_sync import CAReading
from helen.keys import ca_files
from helen.keys.ca_files import CAUnusable, Material
from helen.keys.certificates import BadRequest
from helen.storage.database import Store
from helen.storage.enrolled_keys import EnrolledKeys

log = Logger()


class TrustedCAs:
    """Holds the `material` in force; `changed()` is called when it is another one.

    `hosts` are the names in Helen's own certificate. `known(name)` is called for names that a file admits.
    """

    def __init__(
        self, folder: Path, store: Store, keys: EnrolledKeys, material: Material, hosts: Sequence[str],
        known: Event[[str]],
    ) -> None:  # fmt: skip
        self.material = material
        self.changed: Event[[]] = Event()
        self._folder = folder
        self._store = store
        self._keys = keys
        self._hosts = tuple(hosts)
        self._known = known

    def answer_to(self, names: Iterable[str], listen: str = "") -> None:
        """Put other names into Helen's own certificate from the next `refresh` on."""
        self._hosts = ca_files.server_hosts(names, listen)

    def import_ca(self, pem: bytes, now: float, by: str = "operator") -> Deferred[bool]:
        """Trust one more CA (PEM) from `now`, unix seconds, on. Its agents must be admitted (ca/admitted) or learned.

        Fires with True if `material` has changed. Fails with BadRequest if it is no CA's certificate, or expired.
        """
        try:
            (certificate,) = x509.load_pem_x509_certificates(pem)
            ca_files.checked_ca(certificate, now)
        except (ValueError, x509.InvalidVersion, CAUnusable) as error:
            return fail(BadRequest(str(error) or "give exactly one CA certificate in PEM form"))
        kept = self._store.call(ca_sync.keep_ca, self._folder, certificate, now, by)
        return kept.addCallback(lambda _: self.refresh(now))

    def refresh(self, now: float) -> Deferred[bool]:
        """Read the CA folder again, renew what is due, forget what has expired; `now`: unix seconds.

        For the start, each hour and SIGHUP. Fires with True if `material` has changed. Fails with StateError if the
        folder can't be used; what was in force stays so.
        """
        read = self._store.call(ca_sync.read_folder, self._folder, self._hosts, now)
        return read.addCallback(self._take, now)

    def _take(self, reading: CAReading, now: float) -> bool:
        for sentence in reading.left_out:
            log.warn("ca/admitted: {sentence}", sentence=sentence)
        self._keys.forget_expired(now)
        known = {one.name for one in reading.known if not self._keys.of(one.name)}
        self._keys.remember(reading.known)
        for name in known:  # admitted by a file
            self._known(name)
        held, self.material = self.material, reading.material
        if (held.bundle, held.server) == (self.material.bundle, self.material.server):
            return False
        self.changed()
        return True
