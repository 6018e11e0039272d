"""Whether the Equus that a manifest offers is to be run here: the policy, the version, the wheels, and what is said.

The wheels come as all files of a set do, by their signed hashes. Starting a new version, and going back from it, is
stage0's; here it ends with `begin(version)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from equus.policy import DEFAULT_PATH, Policy
from equus.upgrade import UpgradeError, Upgrades, is_newer
from equus_protocol.manifest import ManifestRefused

MAX_WHEELS = 16 * 1024 * 1024  # bytes of all wheels: kept in memory until they are unpacked

Fetch = Callable[[Mapping[str, int]], Awaitable[dict[str, bytes]]]


class Upgrading:
    """One for the agent. `trouble` says why an offer is not taken, for `loaded`."""

    log = Logger(namespace="equus.upgrading")

    def __init__(
        self,
        upgrades: Upgrades,
        running: str,
        policy: Callable[[], Policy],
        begin: Callable[[str], None],
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self.trouble: dict[str, str] | None = None
        self._upgrades = upgrades
        self._running = running
        self._policy = policy
        self._begin = begin
        self._defer_to_thread = defer_to_thread

    async def consider(self, offer: Mapping[str, Any] | None, fetch: Fetch) -> None:
        """What a manifest that is in use says of the agent's own code. `fetch` gets files by hash and size."""
        if offer is None or not is_newer(offer["version"], self._running):
            self.trouble = None
            return
        newer = str(offer["version"])
        standing = await self._defer_to_thread(self._upgrades.standing)
        if standing.failed == newer:
            self._refuse("undone", f"Equus {newer} was tried and undone: {standing.why}")
        elif not self._policy().upgrade:
            where = self._policy().path or DEFAULT_PATH
            self._refuse("denied", f"Equus {newer} is offered; add to {where}, section [upgrade]: allow = true")
        else:
            await self._take(newer, offer["files"], fetch)

    async def _take(self, newer: str, files: Mapping[str, Mapping[str, Any]], fetch: Fetch) -> None:
        sizes = {entry["sha256"]: entry["size"] for entry in files.values()}
        if sum(sizes.values()) > MAX_WHEELS:
            self._refuse("too-large", f"Equus {newer} comes in more than {MAX_WHEELS} bytes")
            return
        try:
            contents = await fetch(sizes)
        except ManifestRefused as refused:
            self._refuse(refused.reason, str(refused))
            return
        wheels = {name: contents[entry["sha256"]] for name, entry in files.items()}
        try:
            await self._defer_to_thread(self._upgrades.install, newer, wheels)
        except (UpgradeError, OSError) as error:
            self._refuse("not-installed", f"Equus {newer} can't be installed: {error}")
            return
        self.trouble = None
        self._begin(newer)

    def _refuse(self, reason: str, text: str) -> None:
        trouble = {"reason": reason, "text": text}
        if trouble != self.trouble:
            self.log.warn("{text}", text=text)
        self.trouble = trouble
