"""Keeps forwards.toml in force: a forwarder for each of its forwards, from the place that the store has of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger

from groundwork.counts import count
from groundwork.durations import words_of
from helen.forwards.config import Forward, Forwards, ForwardsError, read
from helen.forwards.forwarder import Forwarder
from helen.forwards.place import KEY, Place, read_place
from helen.forwards.records import Labels
from helen.forwards.runtime import Runtime
from helen.forwards.segment_walk import SeriesNames
from helen.journal.journal import Journal
from helen.storage import agent_rows
from helen.storage.config_file import ConfigFile
from helen.storage.database import Store, StoreFailed

FILE = "forwards.toml"
NEWS_SECONDS = 3_600.0  # so long a refusal, or a lost segment, is a warning of `readyz`; its count stays


class Forwarding:
    """Owns the forwarders.

    `labels()` returns what agents are labelled with, `newest()` the number of the newest record.
    """

    log = Logger()

    def __init__(
        self, runtime: Runtime, state: Path, store: Store, journal: Journal, labels: Callable[[], Labels],
        newest: Callable[[], int],
    ) -> None:  # fmt: skip
        self.config_file = ConfigFile[Forwards](
            runtime.reactor, state / FILE, store, FILE, read, ForwardsError, self._changed
        )
        self.running: dict[str, Forwarder] = {}
        self._runtime, self._history, self._store, self._journal = runtime, state / "history", store, journal
        self._labels = labels
        self._names = SeriesNames(self._history)
        self._places: dict[str, Place] = {}
        self._newest = newest
        self._has_begun = False

    async def start(self, kept: Mapping[str, str]) -> None:
        """Read the file; nothing is sent before `begin`. `kept`: the store's small values."""
        for key, text in kept.items():
            place = read_place(text) if key.startswith(KEY) else None
            if place is not None:
                self._places[key.removeprefix(KEY)] = place
        await self.config_file.start(kept.get(FILE))

    def begin(self) -> None:
        """Start the forwards of the file, now and at each change."""
        self._has_begun = True
        self._changed()

    def stop(self) -> Deferred[Any]:
        """Break off what is under way, and keep the places."""
        self.config_file.stop()
        self._has_begun = False
        return gatherResults([each.stop() for each in self.running.values()], consumeErrors=True)

    def troubles(self) -> list[str]:
        """Return a sentence for each forward that an operator should look at."""
        return [said for name, each in sorted(self.running.items()) if (said := self._trouble(name, each))]

    def _trouble(self, name: str, each: Forwarder) -> str:
        if each.failure is not None:
            return f"{name}: the history can't be sent: {each.failure}; it is tried again"
        if each.counts.doubt is not None:
            return f"{name}: the receiver takes nothing: {each.counts.doubt}; look at the settings"
        if each.lag() > each.forward.trouble_after:
            return f"{name} is {words_of(round(each.lag()))} behind: {each.counts.error or 'the receiver is slow'}"
        news = self._runtime.wall() - NEWS_SECONDS
        if each.counts.refused_at is not None and each.counts.refused_at > news:
            refused = count(each.counts.refused, "value was", "values were")
            return f"{name}: {refused} refused for good: {each.counts.refusal}"
        return f"{name}: {each.fault}" if each.fault is not None and each.fault_at > news else ""

    def behind(self, each: Forwarder) -> int:
        """Return how many records of the history a forward has not gone through yet."""
        return max(0, self._journal.sealed.at - each.place.at)

    # ---------------------------------------------------------------------------------------------- the file

    def _changed(self) -> None:
        """Start, stop and replace forwarders as the file says."""
        if not self._has_begun or not self.config_file.is_in_force:
            return
        wanted = self.config_file.config or {}
        for name in self.running.keys() - wanted.keys():
            self._end(self.running.pop(name))
            self._forget(name)
        for name in self._places.keys() - wanted.keys():
            del self._places[name]
            self._forget(name)
        for name, forward in wanted.items():
            held = self.running.get(name)
            if held is None or held.forward != forward:
                self._start(forward, held)

    def _start(self, forward: Forward, held: Forwarder | None) -> None:
        if held is not None:
            self._end(held)
            self._places[forward.name] = held.place
        place = self._places.pop(forward.name, None)
        if place is None or place.at > self._newest_at():
            if place is not None:
                self.log.warn("forward {name}: its place is not in this history; it starts anew", name=forward.name)
            place = Place() if forward.is_from_oldest else self._now()
        made = self.running[forward.name] = Forwarder(
            self._runtime, forward, place, self._history, self._names, lambda: self._journal.sealed, self._labels,
            self._keep,
        )  # fmt: skip
        made.begin()

    def _end(self, held: Forwarder) -> None:
        held.stop().addErrback(lambda failure: self.log.failure("forward {name}", failure, name=held.forward.name))

    def _newest_at(self) -> int:
        return max(self._newest(), self._journal.sealed.at)

    def _now(self) -> Place:
        """Return the place behind all that there is; files that are sealed hold nothing newer."""
        sealed = self._journal.sealed
        return Place(max(self._newest(), sealed.at), sealed.segment + 1, sealed.change + 1)

    def _keep(self, name: str, place: Place) -> Deferred[Any]:
        kept = self._store.call(agent_rows.put, KEY + name, place.to_text())
        return kept.addErrback(self._unkept, name)

    def _unkept(self, failure: Any, name: str) -> None:
        """Go on without it: the store's own trouble is told elsewhere, and a kill now would send more than once."""
        failure.trap(StoreFailed)

    def _forget(self, name: str) -> None:
        gone = self._store.call(agent_rows.drop, KEY + name)
        gone.addErrback(lambda failure: self.log.warn("forward {name}: {error}", name=name, error=failure.value))
