"""Asks version 1 agents for their scheduled checks, by Helen's clock: they have no clock of their own.

One heap for the whole fleet and no timer per check. Phases are those of the schedule (offset within the interval), so
neither a restart of Helen nor a mass reconnect makes a burst. A run is skipped and counted while the one before it is
unanswered. Pure: `now` is unix seconds; `ask(link, entry)` returns the message id, or None if it could not.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from helen.assignments.schedule import ScheduleEntry

CLOCK_STEP = 1.0  # seconds back between two looks: the clock has been set
STALE_MOST = 1_000  # places in the heap of what is scheduled no more, beside as many as are
LATE_SHARE = 0.5  # of its interval; what is later than that waits for its next moment instead of joining a burst


def next_due(entry: ScheduleEntry, now: float) -> float:
    """Return the first moment after `now` that has the entry's phase, both in unix seconds."""
    return now + entry.every - (now - entry.offset) % entry.every


@define(eq=False)
class ScheduledAgent:
    """Holds the schedule of one agent of version 1: its entries, and which of them are unanswered (message id ->
    entry).
    """

    link: Any
    entries: dict[str, ScheduleEntry] = field(factory=dict)
    asked: dict[int, ScheduleEntry] = field(factory=dict)


class V1Scheduler:
    """Knows when each entry of each version 1 agent is due. `asked` and `skipped` count runs."""

    def __init__(self, ask: Callable[[Any, ScheduleEntry], int | None]) -> None:
        self.skipped = 0
        self.asked = 0
        self._ask = ask
        self._agents: dict[Any, ScheduledAgent] = {}  # by link
        self._heap: list[tuple[float, int, ScheduledAgent, ScheduleEntry]] = []
        self._order = itertools.count()
        self._ran_at = 0.0
        self._live = 0  # entries of all agents: the heap holds each of them once, and some that have gone

    def take(self, link: Any, entries: Iterable[ScheduleEntry], now: float) -> None:
        """Take an agent's whole schedule, new or changed; an entry that did not change keeps its place.

        `now`: unix seconds.
        """
        agent = self._agents.setdefault(link, ScheduledAgent(link))
        held = agent.entries
        wanted = {entry.id: entry for entry in entries}
        changed = [entry for entry in wanted.values() if held.get(entry.id) != entry]
        # The very objects that the heap has: by identity it tells what is still wanted.
        wanted |= {id: held[id] for id, entry in wanted.items() if held.get(id) == entry}
        self._live += len(wanted) - len(agent.entries)
        agent.entries = wanted
        for entry in changed:
            self._push(next_due(entry, now), agent, entry)
        if len(self._heap) > 2 * self._live + STALE_MOST:
            self._remove_stale()

    def drop(self, link: Any) -> None:
        """Forget an agent that has gone; what it left in the heap is passed over later."""
        agent = self._agents.pop(link, None)
        if agent is not None:
            self._live -= len(agent.entries)
            agent.entries = {}

    def run_now(self, link: Any, entry: ScheduleEntry) -> None:
        """Run an entry once, out of its turn; agents with a schedule of their own can be asked, too."""
        self._run(self._agents.setdefault(link, ScheduledAgent(link)), entry)

    def answered(self, link: Any, message_id: int) -> ScheduleEntry | None:
        """Return the entry that this result belongs to, if it was asked from here."""
        agent = self._agents.get(link)
        return agent.asked.pop(message_id, None) if agent is not None else None

    def due(self) -> float | None:
        """Return when to call `run` next, in unix seconds, or None while nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Ask for all that is due. Runs that were missed while the process or the clock stood still are passed over."""
        if now < self._ran_at - CLOCK_STEP:
            self._begin_anew(now)
        self._ran_at = now
        while self._heap and self._heap[0][0] <= now:
            due, _, agent, entry = heapq.heappop(self._heap)
            if agent.entries.get(entry.id) is not entry:
                continue
            self._push(next_due(entry, now), agent, entry)
            if now - due <= entry.every * LATE_SHARE:
                self._run(agent, entry)
            else:
                self.skipped += 1

    def _begin_anew(self, now: float) -> None:
        """Plan everything again: the clock went back, and what waits for the old time would stand still until then."""
        self._heap = []
        for agent in self._agents.values():
            for entry in agent.entries.values():
                self._push(next_due(entry, now), agent, entry)

    def _remove_stale(self) -> None:
        """Clear the places that agents leave behind which come and go: they would stay for up to a day each."""
        self._heap = [place for place in self._heap if place[2].entries.get(place[3].id) is place[3]]
        heapq.heapify(self._heap)

    def _run(self, agent: ScheduledAgent, entry: ScheduleEntry) -> None:
        message_id = None
        if all(asked.id != entry.id for asked in agent.asked.values()):
            message_id = self._ask(agent.link, entry)
        if message_id is None:
            self.skipped += 1
            return
        self.asked += 1
        agent.asked[message_id] = entry

    def _push(self, due: float, agent: ScheduledAgent, entry: ScheduleEntry) -> None:
        heapq.heappush(self._heap, (due, next(self._order), agent, entry))
