"""Holds the facts on many checks as columns, for arithmetic on all of them at once. Pure.

`of` is the place of the check that a row is about, from 0 on. Rows of a check stand together, in the order of places,
and of time within each. All times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import evolve, fields, frozen

OK, WARNING, CRITICAL, UNKNOWN = range(4)
PENDING, STALE, HELEN_DOWN, SAID, RETIRED = "pending", "stale", "helen-down", "said-unknown", "retired"
NO_DATA = frozenset((PENDING, STALE, HELEN_DOWN, "agent-away", RETIRED))
KNOWN_REASONS: tuple[str | None, ...] = (None, SAID, *sorted(NO_DATA))
NONE = KNOWN_REASONS.index(None)

Array = Any  # of numpy


EMPTY = np.zeros(0, np.int64)
EMPTY.flags.writeable = False


@frozen(eq=False)
class Columns:
    """Holds arrays of one length; the first one is `of`."""

    of: Array = EMPTY

    def __len__(self) -> int:
        return len(self.of)

    def take(self, chosen: Array) -> Any:
        """Return the rows that a mask, a slice or an array of their numbers chooses."""
        return type(self)(*(getattr(self, each.name)[chosen] for each in fields(type(self))))

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> Any:
        """Return the rows of all parts in the order of checks; those of one check stay as they are."""
        whole = cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))
        return whole.take(np.argsort(whole.of, kind="stable"))

    def part(self, begin: int, end: int) -> Any:
        """Return the rows of the checks from one place up to another one, whose places then begin at 0."""
        first, behind = np.searchsorted(self.of, [begin, end])
        rows = self.take(slice(first, behind))
        return evolve(rows, of=rows.of - begin)


@frozen(eq=False)
class Moments(Columns):
    """Says that a confirmed state is this one from `at` on; reasons are codes of Checks.reasons.

    `was_status` and `was_reason` are of the state before. They count for the first moment of a check alone.
    """

    at: Array = EMPTY
    status: Array = EMPTY
    reason: Array = EMPTY
    was_status: Array = EMPTY
    was_reason: Array = EMPTY


@frozen(eq=False)
class Runs(Columns):
    """Holds results in a row with one status: the first and the last of them, and how long each is good for."""

    first: Array = EMPTY
    last: Array = EMPTY
    status: Array = EMPTY
    good_for: Array = EMPTY


@frozen(eq=False)
class Spans(Columns):
    """Holds times from `begin` to `end`, the end not included. Spans of one check don't touch each other."""

    begin: Array = EMPTY
    end: Array = EMPTY

    @classmethod
    def union(cls, of: Array, begin: Array, end: Array) -> Spans:
        """Return spans in any order as columns: overlapping ones joined, empty ones left out."""
        kept = np.flatnonzero(begin < end)
        order = kept[np.lexsort((begin[kept], of[kept]))]
        of, begin, end = of[order], begin[order], end[order]
        if not len(of):
            return cls()
        is_first = begins_anew(of)
        reach = running_most(end, is_first)
        begins = is_first | np.concatenate([[True], begin[1:] > reach[:-1]])
        starts = np.flatnonzero(begins)
        return cls(of[starts], begin[starts], reach[np.append(starts[1:], len(of)) - 1])


@frozen(eq=False)
class Checks:
    """Holds the inputs of the arithmetic for `count` checks.

    `runs` are of all results where a check has no moments, else of late ones; in `absences` the Helen of a check did
    not run.
    """

    count: int
    moments: Moments = Moments()
    runs: Runs = Runs()
    downtimes: Spans = Spans()
    absences: Spans = Spans()
    reasons: Sequence[str | None] = KNOWN_REASONS  # begins with KNOWN_REASONS

    @property
    def has_moments(self) -> Array:
        """Tell for each check whether Helen judged it."""
        return has_rows(self.moments.of, self.count)

    @property
    def no_data(self) -> Array:
        """Tell for each reason whether it says that there was no data."""
        return np.array([reason in NO_DATA for reason in self.reasons])

    def part(self, begin: int, end: int) -> Checks:
        """Return the checks from one place up to another one."""
        rows = {
            name: getattr(self, name).part(begin, end) for name in ("moments", "runs", "downtimes", "absences")
        }  # fmt: skip
        return evolve(self, count=end - begin, **rows)


def has_rows(of: Array, count: int) -> Array:
    """Tell for each check whether a column has rows of it."""
    return np.bincount(of, minlength=count) > 0


def begins_anew(*columns: Array) -> Array:
    """Tell for each row whether it is the first, or differs from the row before in one of the columns."""
    begins = np.ones(len(columns[0]), bool)
    begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return begins


def running_most(values: Array, is_first: Array) -> Array:
    """Return the highest value so far within each group of rows; `is_first` marks where groups begin."""
    group = np.cumsum(is_first) - 1
    least = int(values.min())
    width = int(values.max()) - least + 1
    if width * (int(group[-1]) + 1) < 2**62:  # each group lies above the one before it
        return np.maximum.accumulate(values - least + group * width) - group * width + least
    starts = np.flatnonzero(is_first)
    pieces = np.split(values, starts[1:])
    return np.concatenate([np.maximum.accumulate(piece) for piece in pieces])


def spread(counts: Array) -> tuple[Array, Array]:
    """Return for rows that are repeated so many times each: the number of the row, and which of its copies it is."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
