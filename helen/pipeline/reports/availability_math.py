"""Divides days of checks into ok, bad, planned, unknown and without data, to the microsecond, many at once. Pure.

Two profiles:

- `icinga`, the rule of Icinga DB's `get_sla_ok_percent`: the last confirmed state counts until the next one, critical
  and unknown are problems, a warning is none, problems in a downtime don't count but stay in the denominator, and only
  the time before the first result leaves it.
- `strict`: only ok is ok; all time in a downtime is planned and leaves the
  denominator; while nothing could be known (the agent away, no result when one was due, Helen not running) there is no
  data, and that counts against the check as long as no late result fills it.

states_in_time.py finds the states and when they begin. Nothing here is done for each check or day in Python: 20,000
checks of a day take as long as 20 would, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from helen.pipeline.lake.local_days import Day
from helen.pipeline.reports import check_columns
from helen.pipeline.reports.check_columns import (
    KNOWN_REASONS,
    NONE,
    PENDING,
    RETIRED,
    SAID,
    Checks,
    begins_anew,
    spread,
)
from helen.pipeline.reports.states_in_time import Line, Stretches, stretches

PROFILES = ("icinga", "strict")
NEVER = np.iinfo(np.int64).max  # later than any time
ACCOUNTS = OK, BAD, PLANNED, UNKNOWN, NO_DATA = range(5)
_SAID, _PENDING, _RETIRED = (KNOWN_REASONS.index(reason) for reason in (SAID, PENDING, RETIRED))

Array = Any  # of numpy


@frozen(eq=False)
class Accounts:
    """Holds the accounts of days of checks, in microseconds: a row for each check and day, all days of one together.

    `totals` has a row for each of ACCOUNTS. `why` has the time without data and the unknown time by reason: the numbers
    of rows, the codes of their reasons, and the time; in the order of rows, and of the names of reasons.
    """

    checks: Checks
    days: Sequence[Day]
    is_strict: bool
    totals: Array
    outages: Array  # that began on the day
    why: tuple[Array, Array, Array]
    line: Line

    def counted(self) -> tuple[Array, Array]:
        """Return the good time of each row, and the time that counts."""
        ok, bad, planned, unknown, no_data = self.totals
        if self.is_strict:
            return ok, ok + bad + unknown + no_data
        counted = ok + bad + planned + unknown
        return counted - bad - unknown, counted

    def without_result(self, since: Array) -> Array:
        """Return the time without data of each row in which there was no check: before `since`, and retired.

        `since` is that of `first_known`, for each check; time in a downtime is not in it, since it is planned.
        """
        of, day = spread(np.full(self.checks.count, len(self.days)))
        begin, end = (np.array([getattr(each, name) for each in self.days])[day] for name in ("begin", "end"))
        until = np.clip(since[of], begin, end)
        planned = _in_downtime(self.checks, self.line)
        places = [self.line.place(of, each) for each in (begin, until)]
        rows, reasons, times = self.why
        is_retired = reasons == _RETIRED
        retired = np.zeros(len(of), np.int64)
        retired[rows[is_retired]] = times[is_retired]
        return until - begin - planned(*places) + np.where(until < end, retired, 0)


def accounts_of(checks: Checks, days: Sequence[Day], profile: str) -> Accounts:
    """Return the accounts of each of these days for each check. Days may overlap: each is computed alone.

    Raises AssertionError if a second of a day were in no account, or in two.
    """
    is_strict, line = profile == "strict", Line.of(days)
    states = stretches(checks, line, is_strict)
    kinds, reasons = _kinds(states, checks.no_data, is_strict)
    row, stretch, begin, end, outages = _pieces(states, kinds, checks.count, days, line)
    kind, reason, lasted = kinds[stretch], reasons[stretch], end - begin
    planned = _in_downtime(checks, line)(begin, end)
    if not is_strict:
        planned = np.where((kind == BAD) | (kind == UNKNOWN), planned, 0)
    lasted -= planned
    count = checks.count * len(days)
    totals = _sums(kind * count + row, lasted, len(ACCOUNTS) * count).reshape(len(ACCOUNTS), count)
    totals[PLANNED] += _sums(row, planned, count)
    why = _by_reason(row, reason, lasted, checks.reasons)
    made = Accounts(checks, days, is_strict, totals, outages, why, line)
    check_sums(made)
    return made


def first_known(checks: Checks) -> Array:
    """Return when the first result of each check came, microseconds; NEVER if none ever did.

    It may be earlier than all moments that are there: then the first of these says that there was a state before.
    """
    since, no_data, known = np.full(checks.count, NEVER), checks.no_data, checks.moments
    told = known.take(~no_data[known.reason])
    first = known.take(np.unique(known.of, return_index=True)[1])
    first = first.take(~no_data[first.was_reason])
    for of, time in ((checks.runs.of, checks.runs.first), (told.of, told.at), (first.of, first.at)):
        places, rows = np.unique(of, return_index=True)
        since[places] = np.minimum(since[places], time[rows])
    return since


def percents(good: Array, counted: Array) -> Array:
    """Return the shares of good time to four decimals, as percent_of does; NaN where nothing counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(counted > 0, 100 * good / counted, np.nan)
    scaled = share * 10_000
    found = np.rint(scaled) / 10_000
    is_near_half = np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6  # there the last bit decides, which scaling lost
    for at in np.flatnonzero(is_near_half).tolist():
        found[at] = round(float(share[at]), 4)
    return found


def percent_of(good: float, counted: float) -> float | None:
    """Return the share of good time to four decimals; None where nothing counts."""
    return round(100 * good / counted, 4) if counted > 0 else None


# ------------------------------------------------------------------------------------------------ the arithmetic


def _kinds(states: Stretches, no_data: Array, is_strict: bool) -> tuple[Array, Array]:
    """Return the account of each state, and the code of the reason to note beside it."""
    status, reason = states.status, states.reason
    is_ok = (status == check_columns.OK) | ((status == check_columns.WARNING) & (not is_strict))
    kinds = np.where(is_ok, OK, np.where(status == check_columns.UNKNOWN, UNKNOWN, BAD))
    kinds[(reason == _PENDING) | (no_data[reason] & is_strict)] = NO_DATA
    noted = np.where((kinds == OK) | (kinds == BAD), NONE, reason)
    return kinds, np.where((kinds == UNKNOWN) & (noted == NONE), _SAID, noted)


def _pieces(states: Stretches, kinds: Array, count: int, days: Sequence[Day], line: Line) -> tuple[Array, ...]:
    """Return the stretches of each day, cut to it: numbers of rows and of stretches, and the places of both ends.

    The last array is the outages that began in each row: where a state is bad, and the one before was not.
    """
    first_place = np.arange(count)[:, None] * line.width - line.begin
    begins, ends = ((first_place + np.array([getattr(day, name) for day in days])).ravel() for name in ("begin", "end"))
    first = np.searchsorted(states.at, begins, side="right") - 1
    row, copy = spread(np.searchsorted(states.at, ends, side="left") - first)
    stretch = first[row] + copy
    begin, end = np.maximum(states.at[stretch], begins[row]), np.append(states.at, count * line.width)[stretch + 1]
    end = np.minimum(end, ends[row])
    kept = begin < end
    row, stretch, begin, end = row[kept], stretch[kept], begin[kept], end[kept]
    bad = kinds == BAD
    was_bad = np.append(False, bad[stretch][:-1])
    was_bad[begins_anew(row)] = bad[first - (states.at[first] == begins)]
    return row, stretch, begin, end, np.bincount(row[bad[stretch] & ~was_bad], minlength=len(first))


def _in_downtime(checks: Checks, line: Line) -> Callable[[Array, Array], Array]:
    """Return the function from places of both ends to the time in downtimes between them."""
    begins, ends = line.spans(checks.downtimes)
    begins, ends = np.append(0, begins), np.append(0, ends)  # an empty one before all others
    before = np.append(0, np.cumsum(ends - begins))

    def until(place: Array) -> Array:
        at = np.searchsorted(begins, place, side="right") - 1
        return before[at] + np.minimum(place, ends[at]) - begins[at]

    return lambda begin, end: until(end) - until(begin)


def _sums(places: Array, times: Array, count: int) -> Array:
    """Return sums of times by place. They are exact: floats hold all microseconds of 280 years."""
    return np.bincount(places, times, minlength=count).astype(np.int64)


def _by_reason(row: Array, reason: Array, lasted: Array, reasons: Sequence[str | None]) -> tuple[Array, Array, Array]:
    """Return the rows, reasons and times that there are, in the order of rows and names."""
    kept = (reason != NONE) & (lasted > 0)
    by_name = np.array(sorted(range(len(reasons)), key=lambda code: reasons[code] or ""))
    rank = np.empty_like(by_name)
    rank[by_name] = np.arange(len(by_name))
    keys, place = np.unique(row[kept] * len(reasons) + rank[reason[kept]], return_inverse=True)
    return keys // len(reasons), by_name[keys % len(reasons)], _sums(place, lasted[kept], len(keys))


def check_sums(made: Accounts) -> None:
    """Raise AssertionError unless each second of a day is in one account: a report that lies is worse than none."""
    lengths = np.tile([day.end - day.begin for day in made.days], made.checks.count)
    told = made.totals.sum(axis=0)
    explained = _sums(made.why[0], made.why[2], len(told))
    wrong = np.flatnonzero((told != lengths) | (explained != made.totals[UNKNOWN] + made.totals[NO_DATA]))
    if len(wrong):
        day = made.days[int(wrong[0]) % len(made.days)]
        raise AssertionError(
            f"{day.date}: {told[wrong[0]]} of {day.end - day.begin} us are accounted for"
        )  # fmt: skip
