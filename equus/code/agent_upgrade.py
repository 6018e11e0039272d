"""Decide whether the newer Equus that a manifest offers runs here, and install it beside the running one.

The wheels are fetched as all files of a set are, by their signed hashes. launcher.py starts the new version, and goes
back from it; here the work ends with the event `installed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from equus.code.agent_versions import AgentVersions, UpgradeError, is_newer
from equus.policy.policy import DEFAULT_PATH, PolicyInForce
from equus_protocol import pieces
from equus_protocol.manifest import ManifestRefused
from groundwork.event import Event

MAX_WHEELS = 16 * 1024 * 1024  # bytes of all wheels: kept in memory until they are unpacked

Fetch = Callable[[Mapping[str, int]], Awaitable[dict[str, bytes]]]


class Upgrader:
    """Takes or refuses offers of a newer agent.

    `trouble` has `reason` and `text` if the last offer was refused; it goes into `loaded`. The event `installed` gets
    the version that is ready to be tried.
    """

    log = Logger()

    def __init__(
        self,
        versions: AgentVersions,
        running: str,
        policy: PolicyInForce,
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:
        """Begin with no trouble. `running` is the version of this process."""
        self.trouble: dict[str, str] | None = None
        self.installed: Event[[str]] = Event()
        self._versions = versions
        self._running = running
        self._policy = policy
        self._defer_to_thread = defer_to_thread

    async def consider(self, offer: Mapping[str, Any] | None, fetch: Fetch) -> None:
        """Install the agent that the manifest in use offers, unless it is refused. `fetch` gets sizes by SHA-256."""
        if offer is None or not is_newer(offer["version"], self._running):
            self.trouble = None
            return
        newer = str(offer["version"])
        state = await self._defer_to_thread(self._versions.state)
        policy = self._policy.current
        if state.failed == newer:
            self._refuse("undone", f"Equus {newer} was tried and undone: {state.why}")
        elif not policy.upgrade:
            where = policy.path or DEFAULT_PATH
            self._refuse("denied", f"Equus {newer} is offered; add to {where}, section [upgrade]: allow = true")
        else:
            await self._install(newer, offer["files"], fetch)

    async def _install(self, newer: str, files: Mapping[str, Mapping[str, Any]], fetch: Fetch) -> None:
        sizes = {entry["sha256"]: entry["size"] for entry in files.values()}
        if sum(sizes.values()) > MAX_WHEELS:
            self._refuse("too-large", f"Equus {newer} comes in more than {MAX_WHEELS} bytes")
            return
        try:
            contents = await fetch(sizes)
        except ManifestRefused as refused:
            self._refuse(refused.reason, str(refused))
            return
        try:
            wheels = pieces.join({name: contents[entry["sha256"]] for name, entry in files.items()})
            await self._defer_to_thread(self._versions.install, newer, wheels)
        except (UpgradeError, ValueError, OSError) as error:
            self._refuse("not-installed", f"Equus {newer} can't be installed: {error}")
            return
        self.trouble = None
        self.installed(newer)

    async def confirm_start(self) -> None:
        """Note that the running version has come up, so that its starts are counted from zero again."""
        await self._defer_to_thread(self._versions.reset_starts)

    def _refuse(self, reason: str, text: str) -> None:
        trouble = {"reason": reason, "text": text}
        if trouble != self.trouble:
            self.log.warn("{text}", text=text)
        self.trouble = trouble
