"""Decide which entries of the schedule are due. Pure: the caller brings both clocks and one timer for `next_at`.

Theory of operation. An entry's phase is aligned to the wall clock once, when it arrives: its runs lie at `offset` past
the multiples of `every` since 1970, so all agents with one entry run it together or, by their offsets, apart. From
there the monotonic clock counts; a wall clock that jumps moves nothing. An entry that comes again with the same timing
keeps its phase and its counters. After a stall each entry runs once, and the runs that never happened are counted as
missed: there is no burst, and each run is accounted for. A new entry may have one early run before its phase, so that
the first result of an hourly check does not take an hour.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable
from enum import Enum

from attrs import define, field, frozen

LATE = 1.0  # seconds behind the plan from which a run counts as late: far beyond a busy reactor turn
EARLY_WITHIN = 5.0  # seconds within which a new entry has its early run
QUEUED = 1  # runs that wait under `queue`: with more, an entry that is always too slow would only grow older


class Overlap(Enum):
    """Lists the ways to treat a run that is due while the one before is still going."""

    SKIP = "skip"
    QUEUE = "queue"
    KILL = "kill"


class Action(Enum):
    """Lists the ways in which the caller must treat a Due."""

    RUN = "run"
    KILL_AND_RUN = "kill and run"
    WAIT = "wait"  # until `finished` returns the entry
    SKIP = "skip"  # already counted


@frozen
class Entry:
    """Describes one line of the schedule; times in seconds, args a JSON object or empty."""

    id: str
    check: str
    every: float
    offset: float = 0.0
    timeout: float | None = None
    args: bytes = b""
    overlap: Overlap = Overlap.SKIP


@define
class Counters:
    """Counts of one entry's runs since it arrived."""

    runs: int = 0
    late: int = 0
    skipped: int = 0  # the one before was still running
    missed: int = 0  # the agent was stalled, or not ready
    killed: int = 0


@frozen
class Due:
    """Describes one run that is due; `missed` are those before it that never happened."""

    entry: Entry
    planned: float  # monotonic seconds
    action: Action
    missed: int = 0
    late: bool = False


@define
class _EntryState:
    entry: Entry
    next: float  # monotonic seconds
    turn: int  # of the heap entry that counts; older ones are stale
    counters: Counters = field(factory=Counters)
    running: bool = False
    waiting: int = 0
    resume: float | None = None  # monotonic seconds: where its phase goes on after an early run


class Schedule:
    """Holds all entries of an agent, each with its next run and its counters."""

    def __init__(self) -> None:
        self._states: dict[str, _EntryState] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._turns = itertools.count()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, in the order of the document."""
        return tuple(state.entry for state in self._states.values())

    def counters(self) -> dict[str, Counters]:
        """Return the counters by the id of the entry. They are the live objects: don't change them."""
        return {name: state.counters for name, state in self._states.items()}

    def replace(self, entries: Iterable[Entry], now: float, wall: float) -> None:
        """Replace all entries. A run that is going goes on, also if its entry is no longer there.

        `now` is monotonic seconds, `wall` unix seconds of the same moment.
        """
        old, self._states, self._heap = self._states, {}, []
        for entry in entries:
            state = old.get(entry.id)
            if state is None or (state.entry.every, state.entry.offset) != (entry.every, entry.offset):
                running = state.running if state else False
                state = _EntryState(entry, first_run(entry, now, wall), 0, running=running)
            state.entry = entry
            self._states[entry.id] = state
            self._push(state)

    def run_early(self, entry_id: str, now: float) -> None:
        """Let an entry run once within EARLY_WITHIN, spread by its offset, unless it is due by then anyway.

        `now` is monotonic seconds.
        """
        state = self._states.get(entry_id)
        if state is None or state.resume is not None or state.next - now <= EARLY_WITHIN:
            return
        early = now + state.entry.offset % state.entry.every / state.entry.every * EARLY_WITHIN
        state.next, state.resume = early, state.next
        self._push(state)

    def next_at(self) -> float | None:
        """Return when to call `due` again, in monotonic seconds; None if the schedule is empty."""
        while self._heap and self._is_stale(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Due]:
        """Return the runs that are due, in the order of their plan, each once. `now` is monotonic seconds."""
        found = []
        while (at := self.next_at()) is not None and at <= now:
            state = self._states[heapq.heappop(self._heap)[2]]
            found.append(self._fire(state, now))
            self._push(state)
        return found

    def not_run(self, entry_id: str) -> None:
        """Count a run that was due as missed, because the caller could not start it."""
        if state := self._states.get(entry_id):
            state.running = False
            state.counters.runs -= 1
            state.counters.missed += 1

    def finished(self, entry_id: str) -> Entry | None:
        """Take note that a run has ended. Return the entry if a run has waited for that and must start now."""
        state = self._states.get(entry_id)
        if state is None:
            return None
        state.running = bool(state.waiting)
        if not state.waiting:
            return None
        state.waiting -= 1
        state.counters.runs += 1
        return state.entry

    def _fire(self, state: _EntryState, now: float) -> Due:
        planned, counters = state.next, state.counters
        if state.resume is not None:
            state.next, state.resume = state.resume, None
            if state.next > now:
                return Due(state.entry, planned, self._act(state))
            planned = state.next  # after a stall the early run and the regular one are the same
        behind = now - planned
        missed = math.floor(behind / state.entry.every)
        state.next = planned + (missed + 1) * state.entry.every
        if state.next <= now:  # rounding, far from zero
            state.next += state.entry.every
        counters.missed += missed
        late = behind >= LATE
        counters.late += late
        return Due(state.entry, planned, self._act(state), missed, late)

    def _act(self, state: _EntryState) -> Action:
        counters, overlap = state.counters, state.entry.overlap
        if not state.running:
            state.running = True
            counters.runs += 1
            return Action.RUN
        if overlap is Overlap.KILL:
            counters.killed += 1
            counters.runs += 1
            return Action.KILL_AND_RUN
        if overlap is Overlap.QUEUE and state.waiting < QUEUED:
            state.waiting += 1
            return Action.WAIT
        counters.skipped += 1
        return Action.SKIP

    def _push(self, state: _EntryState) -> None:
        state.turn = next(self._turns)
        heapq.heappush(self._heap, (state.next, state.turn, state.entry.id))

    def _is_stale(self, item: tuple[float, int, str]) -> bool:
        state = self._states.get(item[2])
        return state is None or state.turn != item[1]


def first_run(entry: Entry, now: float, wall: float) -> float:
    """Return the first moment after `now` at which unix time is `offset` past a multiple of `every`.

    `now` and the result are monotonic seconds, `wall` is unix seconds of the same moment as `now`.
    """
    past = (wall - entry.offset) % entry.every
    return now + entry.every - past
