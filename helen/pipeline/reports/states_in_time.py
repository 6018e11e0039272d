"""Puts the states of many checks on one line of time, by the rule of a profile. Pure.

Each check has a piece of the line of its own, as long as the report, so that a sorted array of places holds all of
them, and what is done to the states of one check is done to all at once. Times outside of the report are moved to the
ends of the piece: only what was last there matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from groundwork.counts import count
from helen.pipeline.lake.local_days import Day
from helen.pipeline.reports.check_columns import (
    HELEN_DOWN,
    KNOWN_REASONS,
    NONE,
    PENDING,
    STALE,
    UNKNOWN,
    Checks,
    Runs,
    Spans,
    has_rows,
    spread,
)

MOST = 2**60  # places of a line: they are numbered in 64 bits, with some to spare for an order among equal ones
_PENDING, _STALE, _DOWN = (KNOWN_REASONS.index(reason) for reason in (PENDING, STALE, HELEN_DOWN))

Array = Any  # of numpy


@frozen
class Line:
    """Maps times of checks to places. A piece has a place before `begin`, so that what was before is known."""

    begin: int
    width: int

    @classmethod
    def of(cls, days: Sequence[Day]) -> Line:
        """Return the line for these days, which may overlap."""
        begin = min(day.begin for day in days) - 1
        return cls(begin, max(day.end for day in days) - begin + 2)

    def place(self, of: Array, time: Array) -> Array:
        """Return the places of times, microseconds since 1970."""
        return of * self.width + np.clip(time - self.begin, 0, self.width - 1)

    def spans(self, spans: Spans) -> tuple[Array, Array]:
        """Return the places where spans begin and end, without those that lie outside."""
        begin, end = self.place(spans.of, spans.begin), self.place(spans.of, spans.end)
        kept = begin < end
        return begin[kept], end[kept]


@frozen(eq=False)
class Stretches:
    """Holds states and the places where they begin; each lasts until the next one, or the end of its piece."""

    at: Array
    status: Array
    reason: Array

    def take(self, rows: Array) -> Stretches:
        """Return these rows, in their order."""
        return Stretches(self.at[rows], self.status[rows], self.reason[rows])


def stretches(checks: Checks, line: Line, is_strict: bool) -> Stretches:
    """Return the states of all checks. Each piece begins with a state."""
    if checks.count * line.width > MOST:
        raise AssertionError(f"one line of time can't hold {count(checks.count, 'check')} for {line.width} us each")
    return _strict(checks, line) if is_strict else _icinga(checks, line)


def _icinga(checks: Checks, line: Line) -> Stretches:
    """Return the moments; where there are none each run, until the next one."""
    known = checks.moments
    alone = checks.runs.take(~checks.has_moments[checks.runs.of])
    begins = _pending(checks, line)
    judged, first = np.unique(known.of, return_index=True)
    begins.status[judged], begins.reason[judged] = known.was_status[first], known.was_reason[first]
    return _in_order(
        begins,
        Stretches(line.place(known.of, known.at), known.status, known.reason),
        Stretches(line.place(alone.of, alone.first), alone.status, np.full(len(alone), NONE)),
    )


def _strict(checks: Checks, line: Line) -> Stretches:
    """Return the same with the times when Helen did not run, and late results in times without data."""
    judged, known = checks.has_moments, checks.moments
    base = _in_order(
        _pending(checks, line),
        Stretches(line.place(known.of, known.at), known.status, known.reason),
        _of_runs(checks.runs.take(~judged[checks.runs.of]), line),
    )
    begin, end = line.spans(checks.absences)
    away = _with_absences(base, begin, end, line.width)
    return _filled(away, checks, line, judged | has_rows(begin // line.width, checks.count))


def _pending(checks: Checks, line: Line) -> Stretches:
    begins = np.arange(checks.count) * line.width
    return Stretches(begins, np.full(checks.count, UNKNOWN), np.full(checks.count, _PENDING))


def _in_order(*parts: Stretches) -> Stretches:
    """Return all stretches in the order of their places; of those at one place the first part comes first."""
    whole = Stretches(*(np.concatenate([getattr(each, name) for each in parts]) for name in ("at", "status", "reason")))
    return whole.take(np.argsort(whole.at, kind="stable"))


def _ends(runs: Runs) -> tuple[Array, Array]:
    """Return until when each run counts: the next one, or until it is too old. And whether it grows too old."""
    end = runs.last + runs.good_for
    if not len(runs):
        return end, end > 0
    has_next = np.append(runs.of[1:] == runs.of[:-1], False)
    following = np.where(has_next, np.append(runs.first[1:], 0), np.iinfo(np.int64).max)
    return np.minimum(end, following), end < following


def _of_runs(runs: Runs, line: Line) -> Stretches:
    """Return each run until the next, or until it is too old."""
    until, is_stale = _ends(runs)
    is_there = np.stack([np.ones(len(runs), bool), is_stale], axis=1).ravel()
    both = [
        (line.place(runs.of, runs.first), line.place(runs.of, until)),
        (runs.status, np.full(len(runs), UNKNOWN)),
        (np.full(len(runs), NONE), np.full(len(runs), _STALE)),
    ]
    return Stretches(*(np.stack(columns, axis=1).ravel()[is_there] for columns in both))


def _with_absences(base: Stretches, begin: Array, end: Array, width: int) -> Stretches:
    """Return the stretches, unknown while Helen did not run; afterwards the state of that time goes on."""
    if not len(begin):
        return base
    at = np.concatenate([base.at, begin, end])
    change = np.repeat([0, 1, -1], [len(base.at), len(begin), len(end)])
    order = np.argsort(at * 4 + change + 1, kind="stable")  # an absence ends before, and begins after, a state at once
    at, change = at[order], change[order]
    held = np.maximum.accumulate(np.where(change == 0, order, -1))
    turned = np.maximum.accumulate(np.where(change != 0, np.arange(len(at)), -1))
    is_away = (turned >= 0) & (change[turned] == 1) & (at[turned] // width == at // width)
    return Stretches(at, np.where(is_away, UNKNOWN, base.status[held]), np.where(is_away, _DOWN, base.reason[held]))


def _filled(given: Stretches, checks: Checks, line: Line, wanted: Array) -> Stretches:
    """Return the stretches; where a check that is `wanted` has no data, results that came later say the state."""
    of = given.at // line.width
    ends = np.append(given.at[1:], checks.count * line.width)
    kept = ~wanted[of] | (given.at < ends)
    given, of, ends = given.take(kept), of[kept], ends[kept]
    if not len(checks.runs):
        return given
    until, _ = _ends(checks.runs)
    first, until = line.place(checks.runs.of, checks.runs.first), line.place(checks.runs.of, until)
    lowest = np.searchsorted(until, given.at, side="right")
    behind = np.searchsorted(first, ends, side="left")
    fills = np.where(wanted[of] & checks.no_data[given.reason], np.maximum(0, behind - lowest), 0)
    row, copy = spread(1 + 2 * fills)  # each stretch, and for each run in it the run, and what goes on behind it
    run = np.where(copy > 0, lowest[row] + (copy - 1) // 2, 0)
    is_run, goes_on = copy % 2 == 1, (copy > 0) & (copy % 2 == 0)
    at = np.where(is_run, np.maximum(given.at[row], first[run]), np.where(goes_on, until[run], given.at[row]))
    status = np.where(is_run, checks.runs.status[run], given.status[row])
    reason = np.where(is_run, NONE, given.reason[row])
    return Stretches(at, status, reason).take(~goes_on | (until[run] < ends[row]))
