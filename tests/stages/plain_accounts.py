"""Divides the days of one check into accounts, one state after the other: the oracle of availability_math.py.

Two profiles:

- `icinga`, the rule of Icinga DB's `get_sla_ok_percent`: the last confirmed state counts until the next one, critical
  and unknown are problems, a warning is none, problems in a downtime don't count but stay in the denominator, and only
  the time before the first result leaves it.
- `strict`: only ok is ok; all time in a downtime is planned and leaves the
  denominator; while nothing could be known (the agent away, no result when one was due, Helen not running) there is no
  data, and that counts against the check as long as no late result fills it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from attrs import field, frozen

from helen.pipeline.lake.local_days import Day
from helen.pipeline.reports import availability_math, check_columns
from helen.pipeline.reports.check_columns import KNOWN_REASONS, Checks, Moments, Runs, Spans

OK, WARNING, CRITICAL, UNKNOWN = range(4)
PENDING, STALE, HELEN_DOWN, SAID, RETIRED = "pending", "stale", "helen-down", "said-unknown", "retired"
NO_DATA = frozenset((PENDING, STALE, HELEN_DOWN, "agent-away", RETIRED))
Span = tuple[int, int]
Kind = tuple[str, str | None]  # the account, and the reason to note beside it


@frozen
class Moment:
    """Says that the confirmed state is this one from `at` on. `was` is the one before, for the first moment of all."""

    at: int
    status: int
    reason: str | None = None
    was: int = UNKNOWN
    was_reason: str | None = PENDING


@frozen
class Run:
    """Holds results in a row with one status: the first and the last of them, and how long each is good for."""

    first: int
    last: int
    status: int
    good_for: int

    @property
    def end(self) -> int:
        return self.last + self.good_for


@frozen
class CheckInputs:
    """Holds the inputs of the arithmetic for one check."""

    moments: Sequence[Moment] = ()
    runs: Sequence[Run] = ()  # of all results where there are no moments; else of late ones
    downtimes: Sequence[Span] = ()
    absences: Sequence[Span] = ()  # in which Helen did not run


@frozen
class DayAccount:
    """Accounts for one day, in microseconds. `why` has the time without data and the unknown time, by reason."""

    day: Day
    ok: int = 0
    bad: int = 0
    planned: int = 0
    unknown: int = 0
    no_data: int = 0
    outages: int = 0  # that began on this day
    percent: float | None = None
    why: dict[str, int] = field(factory=dict)

    @property
    def total(self) -> int:
        """Return the sum of all accounts."""
        return self.ok + self.bad + self.planned + self.unknown + self.no_data

    def counted(self, profile: str) -> tuple[int, int]:
        """Return the good time, and the time that counts."""
        return _counted(profile == "strict", self.ok, self.bad, self.planned, self.unknown, self.no_data)


@frozen
class Stretch:
    """Holds a state and where it begins; it lasts until the next one."""

    at: int
    status: int
    reason: str | None


def accounts_of(inputs: CheckInputs, days: Sequence[Day], profile: str) -> list[DayAccount]:
    """Return the accounts of each of these days. Days may overlap: each is computed alone."""
    strict = profile == "strict"
    stretches = _strict(inputs) if strict else _icinga(inputs)
    begins, kinds = [each.at for each in stretches], [_kind(each, strict) for each in stretches]
    downtimes = union(inputs.downtimes)
    return [_day(day, begins, kinds, downtimes, strict) for day in days]


def first_known(inputs: CheckInputs) -> int | None:
    """Return when the first result of a check came, microseconds; None if none ever did."""
    firsts = [run.first for run in inputs.runs[:1]]
    firsts += [moment.at for moment in inputs.moments if moment.reason not in NO_DATA][:1]
    for moment in inputs.moments[:1]:
        if moment.was_reason not in NO_DATA:
            firsts.append(moment.at)
    return min(firsts, default=None)


def without_result(account: DayAccount, inputs: CheckInputs, since: int | None) -> int:
    """Return the time of a day without data in which there was no check, microseconds: before `since`, and retired.

    `since` is that of `first_known`; time in a downtime is not in it, since it is planned.
    """
    end = account.day.end if since is None else min(account.day.end, max(account.day.begin, since))
    planned = sum(max(0, min(end, to) - max(account.day.begin, of)) for of, to in union(inputs.downtimes))
    return end - account.day.begin - planned + (account.why.get(RETIRED, 0) if end < account.day.end else 0)


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the spans with overlapping ones joined and without empty ones."""
    merged: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


# ------------------------------------------------------------------------------------------------ states in time


def _icinga(inputs: CheckInputs) -> list[Stretch]:
    moments = inputs.moments or _moments(inputs.runs)
    if not moments:
        return [Stretch(0, UNKNOWN, PENDING)]
    first = moments[0]
    begin = Stretch(0, first.was, first.was_reason)
    return [begin, *(Stretch(moment.at, moment.status, moment.reason) for moment in moments)]


def _strict(inputs: CheckInputs) -> list[Stretch]:
    """Return the same as `_icinga`, with the times when Helen did not run; late results fill times without data."""
    if inputs.moments:
        base = [Stretch(0, UNKNOWN, PENDING), *(Stretch(m.at, m.status, m.reason) for m in inputs.moments)]
    else:
        base = [Stretch(0, UNKNOWN, PENDING), *_of_runs(inputs.runs)]
    away = list(_with_absences(base, union(inputs.absences)))
    return list(_filled(away, inputs.runs)) if inputs.moments or inputs.absences else away


def _moments(runs: Sequence[Run]) -> list[Moment]:
    return [Moment(run.first, run.status) for run in runs]


def _of_runs(runs: Sequence[Run]) -> Iterator[Stretch]:
    """Yield each run until the next, or until it is too old."""
    for at, run in enumerate(runs):
        yield Stretch(run.first, run.status, None)
        following = runs[at + 1].first if at + 1 < len(runs) else None
        if following is None or run.end < following:
            yield Stretch(run.end, UNKNOWN, STALE)


def _with_absences(stretches: Sequence[Stretch], absences: Sequence[Span]) -> Iterator[Stretch]:
    """Yield the stretches, unknown while Helen did not run; afterwards the state of that time goes on."""
    points = sorted(
        [(each.at, 0, each) for each in stretches]
        + [(begin, 1, None) for begin, _ in absences]
        + [(end, -1, None) for _, end in absences],
        key=lambda point: (point[0], point[1]),
    )
    held, absent = stretches[0], False
    for at, change, stretch in points:
        if stretch is not None:
            held = stretch
        absent = absent if change == 0 else change == 1
        yield Stretch(at, UNKNOWN, HELEN_DOWN) if absent else Stretch(at, held.status, held.reason)


def _filled(stretches: Sequence[Stretch], runs: Sequence[Run]) -> Iterator[Stretch]:
    """Yield the stretches; where there is no data, results that came later say the state."""
    known = list(_of_runs(runs))
    for at, stretch in enumerate(stretches):
        end = stretches[at + 1].at if at + 1 < len(stretches) else None
        if end is not None and end <= stretch.at:
            continue
        yield stretch
        if stretch.reason not in NO_DATA:
            continue
        for place, run in enumerate(known):
            until = known[place + 1].at if place + 1 < len(known) else None
            if run.reason is not None or (until is not None and until <= stretch.at) or (end or run.at + 1) <= run.at:
                continue
            yield Stretch(max(stretch.at, run.at), run.status, None)
            if until is not None and (end is None or until < end):
                yield Stretch(until, stretch.status, stretch.reason)


# ------------------------------------------------------------------------------------------------ one day


def _day(day: Day, begins: Sequence[int], kinds: Sequence[Kind], downtimes: Sequence[Span], strict: bool) -> DayAccount:
    """Return the accounts of a day. Kinds of time begin at `begins`, and each lasts until the next one begins."""
    totals = {"ok": 0, "bad": 0, "planned": 0, "unknown": 0, "no_data": 0}
    why: dict[str, int] = {}
    first, last = max(0, bisect_right(begins, day.begin) - 1), bisect_left(begins, day.end)
    outages, before = 0, kinds[max(0, first - (begins[first] == day.begin))][0]
    for place in range(first, last):
        begin, end = max(begins[place], day.begin), begins[place + 1] if place + 1 < last else day.end
        if begin >= end:
            continue
        kind, reason = kinds[place]
        outages += kind == "bad" and before != "bad"
        before = kind
        lasted = end - begin
        if strict or kind in ("bad", "unknown"):
            in_downtime = sum(max(0, min(end, to) - max(begin, of)) for of, to in downtimes)
            totals["planned"] += in_downtime
            lasted -= in_downtime
        totals[kind] += lasted
        if reason and lasted:
            why[reason] = why.get(reason, 0) + lasted
    return DayAccount(day, **totals, outages=outages, percent=percent_of(*_counted(strict, **totals)), why=why)


def _counted(strict: bool, ok: int, bad: int, planned: int, unknown: int, no_data: int) -> tuple[int, int]:
    """Return the good time, and the time that counts."""
    if strict:
        return ok, ok + bad + unknown + no_data
    counted = ok + bad + planned + unknown
    return counted - bad - unknown, counted


def _kind(stretch: Stretch, strict: bool) -> Kind:
    """Return the account of a state, and the reason to note beside it."""
    if stretch.reason == PENDING or (strict and stretch.reason in NO_DATA):
        return "no_data", stretch.reason
    if stretch.status == UNKNOWN:
        return "unknown", stretch.reason or SAID
    if stretch.status == OK or (not strict and stretch.status == WARNING):
        return "ok", None
    return "bad", None


def percent_of(good: float, counted: float) -> float | None:
    """Return the share of good time to four decimals; None where nothing counts."""
    return round(100 * good / counted, 4) if counted > 0 else None


def check_sums(accounts: Iterable[DayAccount]) -> None:
    """Raise AssertionError unless each second of a day is in one account: a report that lies is worse than none."""
    for each in accounts:
        if each.total != each.day.end - each.day.begin or sum(each.why.values()) != each.unknown + each.no_data:
            raise AssertionError(
                f"{each.day.date}: {each.total} of {each.day.end - each.day.begin} us are accounted for"
            )


# ------------------------------------------------------------------------------------------------ as columns


def columns_of(inputs: Sequence[CheckInputs]) -> Checks:
    """Return the inputs of checks as the columns that the product computes with."""
    codes: dict[str | None, int] = {reason: code for code, reason in enumerate(KNOWN_REASONS)}
    moments = [
        (of, m.at, m.status, codes.setdefault(m.reason, len(codes)), m.was, codes.setdefault(m.was_reason, len(codes)))
        for of, each in enumerate(inputs) for m in each.moments
    ]  # fmt: skip
    runs = [(of, run.first, run.last, run.status, run.good_for) for of, each in enumerate(inputs) for run in each.runs]
    downtimes, absences = (
        Spans.union(*_arrays([(of, *span) for of, each in enumerate(inputs) for span in getattr(each, name)], 3))
        for name in ("downtimes", "absences")
    )
    return Checks(
        len(inputs), Moments(*_arrays(moments, 6)), Runs(*_arrays(runs, 5)), downtimes, absences, list(codes)
    )  # fmt: skip


def by_columns(inputs: Sequence[CheckInputs], days: Sequence[Day], profile: str) -> list[list[DayAccount]]:
    """Return the accounts of each check as the product computes them, all checks at once."""
    made = availability_math.accounts_of(columns_of(inputs), days, profile)
    why: list[dict[str, int]] = [{} for _ in range(len(inputs) * len(days))]
    for row, code, time in zip(*(column.tolist() for column in made.why), strict=True):
        why[row][str(made.checks.reasons[code])] = time
    shares = availability_math.percents(*made.counted()).tolist()
    rows = zip(*made.totals.tolist(), made.outages.tolist(), shares, why, strict=True)
    found = [
        DayAccount(days[row % len(days)], *figures[:6], None if figures[6] != figures[6] else figures[6], figures[7])
        for row, figures in enumerate(rows)
    ]
    return [found[at : at + len(days)] for at in range(0, len(found), len(days))]


def _arrays(rows: Sequence[Sequence[int]], width: int) -> list[check_columns.Array]:
    return list(np.array(rows, np.int64).reshape(len(rows), width).T)
