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

CLOCK_STEP = 1.0  # seconds back between two looks: somebody has set the clock
STALE_MOST = 1_000  # places in the heap of what is scheduled no more, beside as many as are
LATE_SHARE = 0.5  # of its interval; what is later than that waits for its next moment instead of joining a burst


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
        self._ran_at = 0.0
        self._live = 0  # entries of all charges: the heap holds each of them once, and some that have gone
        self.skipped = 0
        self.asked = 0

    def take(self, link: Any, entries: Iterable[ScheduleEntry], now: float) -> None:
        """An agent's whole schedule, new or changed; what did not change keeps its place."""
        charge = self._charges.setdefault(link, Charge(link))
        held = charge.entries
        wanted = {entry.id: entry for entry in entries}
        changed = [entry for entry in wanted.values() if held.get(entry.id) != entry]
        # The very objects that the heap has: by identity it tells what is still wanted.
        wanted |= {id: held[id] for id, entry in wanted.items() if held.get(id) == entry}
        self._live += len(wanted) - len(charge.entries)
        charge.entries = wanted
        for entry in changed:
            self._push(next_due(entry, now), charge, entry)
        if len(self._heap) > 2 * self._live + STALE_MOST:
            self._sweep_out()

    def drop(self, link: Any) -> None:
        """An agent has gone; what it left in the heap is passed over later."""
        charge = self._charges.pop(link, None)
        if charge is not None:
            self._live -= len(charge.entries)
            charge.entries = {}

    def again(self, link: Any, entry: ScheduleEntry) -> None:
        """Run it once now, out of its turn; agents with a schedule of their own can be asked, too."""
        self._run(self._charges.setdefault(link, Charge(link)), entry)

    def answered(self, link: Any, message_id: int) -> ScheduleEntry | None:
        """The entry that this result belongs to, if it was asked from here."""
        charge = self._charges.get(link)
        return charge.asked.pop(message_id, None) if charge is not None else None

    def due(self) -> float | None:
        """When to call `run` next, or None while nobody has a schedule."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Ask for all that is due. What was missed while the process or the clock stood still is passed over."""
        if now < self._ran_at - CLOCK_STEP:
            self._begin_anew(now)
        self._ran_at = now
        while self._heap and self._heap[0][0] <= now:
            due, _, charge, entry = heapq.heappop(self._heap)
            if charge.entries.get(entry.id) is not entry:
                continue
            self._push(next_due(entry, now), charge, entry)
            if now - due <= entry.every * LATE_SHARE:
                self._run(charge, entry)
            else:
                self.skipped += 1

    def _begin_anew(self, now: float) -> None:
        """The clock went back: everything that waits for the old time would stand still until it comes again."""
        self._heap = []
        for charge in self._charges.values():
            for entry in charge.entries.values():
                self._push(next_due(entry, now), charge, entry)

    def _sweep_out(self) -> None:
        """Agents that come and go leave places behind, for up to a day each if nobody cleared them."""
        self._heap = [place for place in self._heap if place[2].entries.get(place[3].id) is place[3]]
        heapq.heapify(self._heap)

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
