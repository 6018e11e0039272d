"""What is due when. Pure: the caller brings both clocks and keeps one timer for `next_at`.

Theory of operation. An entry's phase is aligned to the wall clock once, when it arrives: its runs lie at `offset` past
the multiples of `every` since 1970, so all agents with one entry run it together or, by their offsets, apart. From
there the monotonic clock counts; a wall clock that jumps moves nothing. An entry that comes again with the same timing
keeps its phase and its counters. After a stall each entry runs once, and the runs that never happened are counted as
missed: there is no burst, and nothing goes unaccounted for. What was never here before may be introduced: one early
run, so that nobody waits an hour for the first word of an hourly check, and then its phase.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable
from enum import Enum

from attrs import define, field, frozen

LATE = 1.0  # seconds behind the plan from which a run counts as late: far beyond a busy reactor turn
DEBUT = 5.0  # seconds within which an entry that is new here runs for the first time, before its phase takes over
QUEUED = 1  # runs that wait under `queue`: with more, an entry that is always too slow would only grow older


class Overlap(Enum):
    """What happens when a run is due and the one before is still going."""

    SKIP = "skip"
    QUEUE = "queue"
    KILL = "kill"


class Action(Enum):
    """What the caller must do about a Due."""

    RUN = "run"
    KILL_AND_RUN = "kill and run"
    WAIT = "wait"  # `finished` will say when
    SKIP = "skip"  # counted; nothing but to tell


@frozen
class Entry:
    """One line of the schedule; times in seconds, args a JSON object or empty."""

    id: str
    check: str
    every: float
    offset: float = 0.0
    timeout: float | None = None
    args: bytes = b""
    overlap: Overlap = Overlap.SKIP


@define
class Counters:
    """What has become of one entry's runs since it arrived."""

    runs: int = 0
    late: int = 0
    skipped: int = 0  # the one before was still running
    missed: int = 0  # the agent was stalled, or not ready
    killed: int = 0


@frozen
class Due:
    """One run that is due; `missed` are those before it that never happened."""

    entry: Entry
    planned: float  # monotonic
    action: Action
    missed: int = 0
    late: bool = False


@define
class _Place:
    entry: Entry
    next: float
    turn: int  # of the heap entry that counts; older ones are stale
    counters: Counters = field(factory=Counters)
    running: bool = False
    waiting: int = 0
    resume: float | None = None  # where its phase goes on after an early run


class Schedule:
    """The whole desired state and where each entry stands in it."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._turns = itertools.count()

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(place.entry for place in self._places.values())

    def counters(self) -> dict[str, Counters]:
        """By entry; the live objects, to be read."""
        return {name: place.counters for name, place in self._places.items()}

    def replace(self, entries: Iterable[Entry], now: float, wall: float) -> None:
        """Make this the schedule. What isn't in it any longer stops; a run of it that is going ends by itself."""
        old, self._places, self._heap = self._places, {}, []
        for entry in entries:
            place = old.get(entry.id)
            if place is None or (place.entry.every, place.entry.offset) != (entry.every, entry.offset):
                running = place.running if place else False
                place = _Place(entry, first_run(entry, now, wall), 0, running=running)
            place.entry = entry
            self._places[entry.id] = place
            self._push(place)

    def introduce(self, entry_id: str, now: float) -> None:
        """Run this entry once within DEBUT, spread by its offset, unless its own time comes within it."""
        place = self._places.get(entry_id)
        if place is None or place.resume is not None or place.next - now <= DEBUT:
            return
        early = now + place.entry.offset % place.entry.every / place.entry.every * DEBUT
        place.next, place.resume = early, place.next
        self._push(place)

    def next_at(self) -> float | None:
        """When to call `due` again, by the monotonic clock."""
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Due]:
        """Everything that is due, in the order of its plan, and nothing twice."""
        found = []
        while (at := self.next_at()) is not None and at <= now:
            place = self._places[heapq.heappop(self._heap)[2]]
            found.append(self._fire(place, now))
            self._push(place)
        return found

    def not_run(self, entry_id: str) -> None:
        """The caller could not start a run that was due: that is a missed one."""
        if place := self._places.get(entry_id):
            place.running = False
            place.counters.runs -= 1
            place.counters.missed += 1

    def finished(self, entry_id: str) -> Entry | None:
        """A run has ended; the entry, if another has waited for it and must start now."""
        place = self._places.get(entry_id)
        if place is None:
            return None
        place.running = bool(place.waiting)
        if not place.waiting:
            return None
        place.waiting -= 1
        place.counters.runs += 1
        return place.entry

    def _fire(self, place: _Place, now: float) -> Due:
        planned, counters = place.next, place.counters
        if place.resume is not None:
            place.next, place.resume = place.resume, None
            if place.next > now:
                return Due(place.entry, planned, self._act(place))
            planned = place.next  # a stall has swallowed the early run: it is one with the regular one
        behind = now - planned
        missed = math.floor(behind / place.entry.every)
        place.next = planned + (missed + 1) * place.entry.every
        if place.next <= now:  # rounding, far from zero
            place.next += place.entry.every
        counters.missed += missed
        late = behind >= LATE
        counters.late += late
        return Due(place.entry, planned, self._act(place), missed, late)

    def _act(self, place: _Place) -> Action:
        counters, overlap = place.counters, place.entry.overlap
        if not place.running:
            place.running = True
            counters.runs += 1
            return Action.RUN
        if overlap is Overlap.KILL:
            counters.killed += 1
            counters.runs += 1
            return Action.KILL_AND_RUN
        if overlap is Overlap.QUEUE and place.waiting < QUEUED:
            place.waiting += 1
            return Action.WAIT
        counters.skipped += 1
        return Action.SKIP

    def _push(self, place: _Place) -> None:
        place.turn = next(self._turns)
        heapq.heappush(self._heap, (place.next, place.turn, place.entry.id))

    def _is_stale(self, item: tuple[float, int, str]) -> bool:
        place = self._places.get(item[2])
        return place is None or place.turn != item[1]


def first_run(entry: Entry, now: float, wall: float) -> float:
    """The first moment after `now` whose wall clock time is `offset` past a multiple of `every`."""
    past = (wall - entry.offset) % entry.every
    return now + entry.every - past
