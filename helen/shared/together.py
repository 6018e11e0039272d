"""What this Helen shares with the others of her network, wired: the parts of helen/shared and those of Helen's own.

together = Together(reactor, helen, identity, key)
Mesh(..., sharer=together.commons.sharer)
together.start(mesh.worker, others)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from helen import certificates
from helen.mesh import Mesh
from helen.settings import address
from helen.shared.agents import NAMES, AgentsPart
from helen.shared.assignments import AssignmentsPart
from helen.shared.authorities import AuthoritiesPart
from helen.shared.checks import ChecksPart
from helen.shared.commons import GATHERED, SOON, Commons
from helen.shared.helens import LOOK_SECONDS, HelensPart, Presence
from helen.shared.network_key import NetworkKey
from helen.shared.shelf import Shelf
from helen.shared.signing_keys import SigningKeysPart
from helen.shared.windows import WindowsPart

if TYPE_CHECKING:
    from helen.tap import Helen

NOT_JOINED = (
    "this Helen has not met her network yet: whoever enrolled now would pin keys that may not be the network's. Is one"
    " of the brokers of --scale0 up?"
)
REFRESH_SECONDS = 3_600.0  # between looks whether the network lacks something that expires or was missed


class Together:
    """`told(others)` gets the other Helens that live, whenever they are others than before."""

    log = Logger()

    def __init__(
        self, reactor: Any, helen: Helen, identity: str, key: NetworkKey, told: Callable[[dict[str, Presence]], None]
    ) -> None:
        self._reactor, self._helen, self.identity = reactor, helen, identity
        self._mesh: Mesh | None = None
        authority, wall = helen.authority, time.time
        self.windows = WindowsPart(
            lambda: helen.judge.timeline.windows, helen.journal.change, wall, lambda: self.changed("windows")
        )
        self.helens = HelensPart(identity, self._presence(), wall, lambda: self.changed("helens"), self._is_there, told)
        self.checks = ChecksPart(
            helen.library,
            identity,
            wall,
            self._fetch,
            lambda: [*self.helens.live, *self.helens.others],
            lambda: self.commons.in_force("keys"),
            reactor.seconds,
            lambda within: self.changed("checks", within),
        )
        parts = (
            SigningKeysPart(helen.keys, key, lambda: authority.has_given, self._keys_taken),
            AuthoritiesPart(authority, wall, lambda: self.changed("authorities")),
            AgentsPart(authority, wall, self._agents_changed, helen.judge.forget),
            self.helens,
            self.checks,
            AssignmentsPart(helen.book, identity),
            self.windows,
        )
        self.commons = Commons(reactor, key, Shelf(helen.state), parts, wall, self._joined)
        self._loops: list[LoopingCall] = []

    def open(self) -> None:
        """Blocking."""
        self.commons.open()
        if not self.commons.has_joined:
            self._helen.authority.closed = NOT_JOINED

    def start(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._helen.book.observers.append(lambda: self.changed("assignments"))
        self._helen.judge.window_observers.append(self.windows.noticed)
        self.commons.start()
        for interval, call in ((LOOK_SECONDS, self.helens.look), (REFRESH_SECONDS, self._refresh)):
            loop = LoopingCall(call)
            loop.clock = self._reactor
            loop.start(interval, now=False).addErrback(lambda failure: self.log.failure("a look around", failure))
            self._loops.append(loop)

    async def stop(self) -> None:
        for loop in self._loops:
            if loop.running:
                loop.stop()
        await self.commons.stop()

    def changed(self, name: str, within: float = SOON) -> None:
        self.commons.changed(name, within)

    def _keys_taken(self) -> None:
        self._helen.take_keys()
        self.changed("checks")  # the set that the network has from us may be signed by the old ones

    def _agents_changed(self, name: str, at_once: bool) -> None:
        self.changed(name, SOON if at_once else GATHERED)
        self.changed("keys", GATHERED)  # with the first agent our roots are pinned

    def _refresh(self) -> None:
        for name in (*NAMES, "helens", "authorities", "windows"):
            self.changed(name)

    def _joined(self) -> None:
        self._helen.authority.closed = ""

    # ---------------------------------------------------------------------------------------------- where we are

    def _presence(self) -> Presence:
        helen = self._helen
        host, _ = address(helen.address, "--listen")
        names = helen.settings.names
        encrypted = not helen.settings.insecure_plaintext
        ca = certificates.pem(helen.authority.material.ca) if encrypted else ""
        return Presence(helen.address, names[0] if names else host, ca)

    def configured(self, group: str) -> None:
        """The group of our broker."""
        own = self.helens.own
        self.helens.become(Presence(own.address, own.name, own.ca, group, own.drained))

    def drained(self, is_drained: bool) -> None:
        """Whether agents shall rather go to others."""
        own = self.helens.own
        self.helens.become(Presence(own.address, own.name, own.ca, own.group, is_drained))

    def _is_there(self, service: str) -> Deferred[bool | None]:
        assert self._mesh is not None
        return self._mesh.is_there(service)

    def _fetch(self, identity: str, sha256: str) -> Deferred[bytes | None]:
        assert self._mesh is not None
        return self._mesh.fetch(identity, sha256)

    def overview(self) -> dict[str, Any]:
        helens = {name: presence.address for name, presence in sorted(self.helens.live.items())}
        return self.commons.overview() | {"helens": helens}
