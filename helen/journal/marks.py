"""Keeps the sequences that the journal has of each spool: its rule of what is a duplicate. Pure.

Per (agent, spool) there is a high-water mark (everything up to it is here) and the ranges above it. An agent sends in
order, so normally there is the mark and nothing else. Sequences begin at 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import islice
from threading import Lock

from helen.journal.values import OWN_SPOOL

# Holes that one spool may have. An agent sends in order: one hole per lost spool file is already strange. Without a
# bound an agent that sends only odd numbers would make Helen remember each of them.
MOST_RANGES = 1000
# Spools remembered per agent. A spool is born with a reinstalled agent or a lost disk; an agent that makes more loses
# the mark that was used longest ago, so that only its own old results could be stored twice.
MOST_SPOOLS = 64
MOST_SEQUENCE = 2**63 - 1  # the column is int64; the wire has int32


Span = tuple[int, int]  # first and last
MarkRow = tuple[str, str, int, int, list[Span], list[Span]]  # agent, spool, high, used, ranges, elsewhere


class Verdict(Enum):
    """Names the answers of `Marks.add`."""

    NEW = "new"
    SEEN = "seen"
    REFUSED = "refused"


_NEW = Verdict.NEW


class Mark:
    """Holds the mark of one spool: `high`, and above it a sorted list of (first, last) with a hole before each."""

    __slots__ = ("elsewhere", "high", "ranges", "used")

    def __init__(
        self, high: int = 0, ranges: Iterable[Span] = (), used: int = 0, elsewhere: Iterable[Span] = ()
    ) -> None:
        self.high = high
        self.ranges = list(ranges)
        self.used = used  # the `at` of the last record that concerned it
        self.elsewhere = list(elsewhere)  # spans that are counted because another Helen acked them

    def add(self, sequence: int) -> Verdict:
        """Count one sequence, unless it is here or can't be counted, and return the verdict."""
        if sequence == self.high + 1 and not self.ranges:
            self.high = sequence
            return Verdict.NEW
        if sequence in self:
            return Verdict.SEEN
        if not 1 <= sequence <= MOST_SEQUENCE:
            return Verdict.REFUSED
        return Verdict.NEW if self.cover(sequence, sequence) else Verdict.REFUSED

    def __contains__(self, sequence: int) -> bool:
        if 1 <= sequence <= self.high:
            return True
        at = bisect_left(self.ranges, (sequence + 1,)) - 1
        return at >= 0 and self.ranges[at][0] <= sequence <= self.ranges[at][1]

    def cover(self, first: int, last: int) -> bool:
        """Count all of first..last as here. False (and nothing counted) if that would be one hole too many."""
        first = max(first, self.high + 1)
        if last < first:
            return True
        low = bisect_left(self.ranges, first - 1, key=lambda span: span[1])
        high = bisect_left(self.ranges, last + 2, key=lambda span: span[0])
        if high > low:
            first, last = min(first, self.ranges[low][0]), max(last, self.ranges[high - 1][1])
        elif first > self.high + 1 and len(self.ranges) >= MOST_RANGES:
            return False
        self.ranges[low:high] = [(first, last)]
        if self.ranges[0][0] == self.high + 1:
            self.high = self.ranges.pop(0)[1]
        return True

    def skip_below(self, first: int) -> None:
        """Count everything below `first` as here: another Helen acked it, or its agent lost it and said so."""
        if first - 1 <= self.high:
            return
        self.elsewhere = [*self.elsewhere[1 - MOST_RANGES :], (self.high + 1, first - 1)]
        self.cover(1, first - 1)

    def highest(self) -> int:
        """Return the highest sequence seen, holes or not."""
        return self.ranges[-1][1] if self.ranges else self.high


class MarksCopy:
    """Copies marks as they were at one moment, some agents at a time: 10,000 in one step would hold the reactor.

    An agent that is still to be copied is copied before its marks change. `rows` is whole when `copy_some` said so.
    """

    def __init__(self, agents: dict[str, dict[str, Mark]]) -> None:
        self.rows: list[MarkRow] = []
        self._left = dict(agents)
        self._lock = Lock()  # who copies an agent and who changes its marks may be two threads

    def copy_some(self, most: int) -> bool:
        """Copy the marks of so many agents; return True once all are copied."""
        for agent in list(islice(self._left, most)):
            self.copy(agent)
        return not self._left

    def copy(self, agent: str) -> None:
        """Copy the marks of one agent, unless they are copied."""
        with self._lock:
            spools = self._left.get(agent)
            if spools is not None:
                self.rows += _rows_of(agent, spools)
                del self._left[agent]


class Marks:
    """Holds all marks of a Helen, for one thread: the one in which records come, or the one that recovers."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[str, Mark]] = {}
        self._copy: MarksCopy | None = None  # the newest; those before it are whole
        self.last = Mark()  # the one that was counted in last: a look for it would cost each result two calls

    def add(self, agent: str, spool: str, sequence: int, at: int) -> Verdict:
        """Count one sequence and return the verdict; `at` tells which spools are in use."""
        if self._copy is not None:
            self._keep_copy(agent)
        spools = self._agents.get(agent)
        mark = None if spools is None else spools.get(spool)
        if mark is None:
            mark = self._mark(agent, spool)
        self.last = mark
        mark.used = at
        if sequence == mark.high + 1 and not mark.ranges:  # as `Mark.add` does it: nearly all come in their order
            mark.high = sequence
            return _NEW
        return mark.add(sequence)

    def cover(self, agent: str, spool: str, first: int, last: int, at: int) -> bool:
        """Count first..last as here: a gap record says that they will never come."""
        mark = self._mark(agent, spool)
        mark.used = at
        return mark.cover(max(first, 1), min(last, MOST_SEQUENCE))

    def skip_below(self, agent: str, spool: str, first: int, at: int) -> None:
        """Count everything below `first` as here: `loaded` says that the spool begins there."""
        mark = self._mark(agent, spool)
        mark.used = at
        mark.skip_below(min(first, MOST_SEQUENCE))

    def high(self, agent: str, spool: str) -> int:
        """Return the sequence to ack; 0 where nothing may be acked."""
        mark = self._agents.get(agent, {}).get(spool)
        return 0 if mark is None else mark.high

    def own_sequences(self) -> dict[str, int]:
        """Return the highest number given out in the spool `helen`, by agent: {"web1": 12}."""
        return {agent: spools[OWN_SPOOL].highest() for agent, spools in self._agents.items() if OWN_SPOOL in spools}

    def rows(self) -> list[MarkRow]:
        """Return copies of all marks, for a snapshot that another thread may write."""
        return [row for agent, spools in self._agents.items() for row in _rows_of(agent, spools)]

    def begin_copy(self) -> MarksCopy:
        """Return a copy of the marks as they are now, which its caller completes; an earlier one is completed first."""
        if self._copy is not None:
            self._copy.copy_some(len(self._agents))
        self._copy = MarksCopy(self._agents)
        return self._copy

    def load(self, rows: Iterable[MarkRow]) -> None:
        """Take in marks that `rows` returned."""
        for agent, spool, high, used, ranges, elsewhere in rows:
            self._agents.setdefault(agent, {})[spool] = Mark(high, ranges, used, elsewhere)

    def items(self) -> Iterator[tuple[tuple[str, str], Mark]]:
        """Return ((agent, spool), mark) of all."""
        return (((agent, spool), mark) for agent, spools in self._agents.items() for spool, mark in spools.items())

    def _keep_copy(self, agent: str) -> None:
        """Copy the marks of an agent before they change, if a copy is being made that has them still to come."""
        assert self._copy is not None
        if self._copy.copy_some(0):
            self._copy = None
        else:
            self._copy.copy(agent)

    def _mark(self, agent: str, spool: str) -> Mark:
        if self._copy is not None:
            self._keep_copy(agent)
        spools = self._agents.get(agent)
        if spools is None:
            spools = self._agents[agent] = {}
        mark = spools.get(spool)
        if mark is None:
            if len(spools) >= MOST_SPOOLS:
                del spools[min((name for name in spools if name != OWN_SPOOL), key=lambda name: spools[name].used)]
            mark = spools[spool] = Mark()
        return mark


def _rows_of(agent: str, spools: dict[str, Mark]) -> list[MarkRow]:
    return [(agent, spool, mark.high, mark.used, mark.ranges[:], mark.elsewhere[:]) for spool, mark in spools.items()]
