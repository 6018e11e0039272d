"""Scheduled checks of version 1 agents, which have no clock of their own: Helen's clock asks them.

One heap for the whole fleet and no timer per check. Phases are those of the schedule (offset within the interval), so
neither a restart of Helen nor a mass reconnect makes a burst. A run whose predecessor is still unanswered is skipped
and counted. Pure: `now` is unix time at the edge; `ask(link, entry)` returns the message id, or None if it could not.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from helen.policy import ScheduleEntry


def next_due(entry: ScheduleEntry, now: float) -> float:
    """The first moment after `now` that has the entry's phase."""
    return now + entry.every - (now - entry.offset) % entry.every


@define(eq=False)
class Charge:
    """One version 1 agent: its entries, and which of them are unanswered (message id -> entry)."""

    link: Any
    entries: dict[str, ScheduleEntry] = field(factory=dict)
    asked: dict[int, ScheduleEntry] = field(factory=dict)


class Dispatch:
    """Who is due when."""

    def __init__(self, ask: Callable[[Any, ScheduleEntry], int | None]) -> None:
        self._ask = ask
        self._charges: dict[Any, Charge] = {}
        self._heap: list[tuple[float, int, Charge, ScheduleEntry]] = []
        self._order = itertools.count()
        self.skipped = 0
        self.asked = 0

    def take(self, link: Any, entries: Iterable[ScheduleEntry], now: float) -> None:
        """An agent's whole schedule, new or changed; what did not change keeps its place."""
        charge = self._charges.setdefault(link, Charge(link))
        wanted = {entry.id: entry for entry in entries}
        changed = [entry for entry in wanted.values() if charge.entries.get(entry.id) != entry]
        charge.entries = wanted
        for entry in changed:
            self._push(next_due(entry, now), charge, entry)

    def drop(self, link: Any) -> None:
        """An agent has gone; what it left in the heap is passed over later."""
        charge = self._charges.pop(link, None)
        if charge is not None:
            charge.entries = {}

    def answered(self, link: Any, message_id: int) -> ScheduleEntry | None:
        """The entry that this result belongs to, if it was asked from here."""
        charge = self._charges.get(link)
        return charge.asked.pop(message_id, None) if charge is not None else None

    def due(self) -> float | None:
        """When to call `run` next, or None while nobody has a schedule."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Ask for all that is due. What was missed while the process stood still is run once, not caught up with."""
        while self._heap and self._heap[0][0] <= now:
            _, _, charge, entry = heapq.heappop(self._heap)
            if charge.entries.get(entry.id) is not entry:
                continue
            self._push(next_due(entry, now), charge, entry)
            self._run(charge, entry)

    def _run(self, charge: Charge, entry: ScheduleEntry) -> None:
        message_id = None
        if all(asked.id != entry.id for asked in charge.asked.values()):
            message_id = self._ask(charge.link, entry)
        if message_id is None:
            self.skipped += 1
            return
        self.asked += 1
        charge.asked[message_id] = entry

    def _push(self, due: float, charge: Charge, entry: ScheduleEntry) -> None:
        heapq.heappush(self._heap, (due, next(self._order), charge, entry))
