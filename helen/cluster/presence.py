"""Shares which Helens there are, where agents find them, and which of them live. Merged: each writes its own entry.

    {"helens": {IDENTITY: {"address", "name", "ca", "group", "drained", "at"}}}

A Helen lives as long as brokers know its service `helen.IDENTITY`: our broker, or one of its group and fallbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import asdict, frozen
from twisted.internet.defer import Deferred, gatherResults

REFRESHED = 86_400.0  # seconds after which an entry is written anew
FORGOTTEN = 7 * 86_400.0  # seconds after which one that was not is left out
LOOK_SECONDS = 3.0  # between two looks at which of them live
MISSED = 10  # looks in which one was not there until agents are told so: a broker that restarts is no reason
MOST = 64  # Helens that agents are told of

Ask = Callable[[str], "Deferred[bool | None]"]


@frozen
class Presence:
    """Tells where agents find a Helen. `ca` in PEM; empty without TLS."""

    address: str
    name: str = ""
    ca: str = ""
    group: str = ""
    drained: bool = False


class HelensPart:
    """Keeps the entry of this Helen and watches the others.

    `is_there(identity)` asks the brokers, None: there is no broker to ask. `told(others)` is called as they change.
    """

    names = ("helens",)
    in_memory = True

    def __init__(
        self, identity: str, own: Presence, wall: Callable[[], float], changed: Callable[[], None], is_there: Ask,
        told: Callable[[dict[str, Presence]], None],
    ) -> None:  # fmt: skip
        self.own = own
        self.others: dict[str, Presence] = {}
        self.live: dict[str, Presence] = {}  # the others that live and take agents
        self._identity, self._wall, self._changed, self._is_there, self._told = identity, wall, changed, is_there, told
        self._missed: dict[str, int] = {}

    def become(self, own: Presence) -> None:
        """Replace the entry of this Helen."""
        if own != self.own:
            self.own = own
            self._changed()

    def wanted(self, name: str, value: Any) -> Any:
        """Return the document with our entry, if it is missing, changed or old; without entries of Helens long gone."""
        said: dict[str, Any] = value["helens"] if value else {}
        now = self._wall()
        ours, held = asdict(self.own), said.get(self._identity)
        if held is not None and now - held["at"] < REFRESHED and {**held, "at": 0} == {**ours, "at": 0}:
            return None
        kept = {identity: entry for identity, entry in said.items() if now - entry["at"] < FORGOTTEN}
        return {"helens": kept | {self._identity: {**ours, "at": now}}}

    async def adopt(self, name: str, value: Any) -> None:
        """Take the entries of the others, and look at which of them live."""
        self.others = {
            identity: Presence(*(entry[field] for field in ("address", "name", "ca", "group", "drained")))
            for identity, entry in value["helens"].items() if identity != self._identity
        }  # fmt: skip
        self._tell()
        self.look()

    def look(self) -> Deferred[Any]:
        """Ask the brokers after all of them. It is called every LOOK_SECONDS."""
        return gatherResults([self._look_after(identity) for identity in list(self.others)[:MOST]])

    def _look_after(self, identity: str) -> Deferred[Any]:
        def answered(there: bool | None) -> None:
            """Count how often it was missed in a row; an unknown answer counts for nothing."""
            if there is None:
                return
            if there:
                self._missed[identity] = 0
            elif identity in self._missed:
                self._missed[identity] += 1
            self._tell()

        return self._is_there(f"helen.{identity}").addCallback(answered)

    def _tell(self) -> None:
        """Tell which Helens live: one that was seen does until it was missed MISSED times, or says that it is
        drained.
        """
        live = {
            identity: presence for identity, presence in self.others.items()
            if not presence.drained and self._missed.get(identity, MISSED) < MISSED
        }  # fmt: skip
        if live != self.live:
            self.live = live
            self._told(live)
