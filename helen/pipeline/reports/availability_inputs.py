"""Reads the inputs of availability from the lake: transitions, results in a row, downtimes, Helen's absences.

A plan is made once for a report; Spark's tasks work on its parts, each with some of the checks. A part reads the few
columns that matter from files that may hold its checks (old days lie sorted by check, so these are few) and sorts them
once. Arrow and numpy do it: Spark's frames and windows take several times the CPU.

If a check has transitions (Helen evaluated it), they are taken, and of its results only the late ones. If it has none,
its results are taken instead: each counts as confirmed, for three times the usual distance between two results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.kept_days import oldest_day
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import Held, batches, between, held, instant, read
from helen.pipeline.lake.local_days import MICROS, Day, date_of
from helen.pipeline.lake.recorded_changes import FLEET_KINDS, TRANSITION
from helen.pipeline.lake.schema import ASKED, CHANGES, HELENS, RESULTS, SUMS
from helen.pipeline.reports.check_columns import KNOWN_REASONS, Checks, Runs, Spans, begins_anew, has_rows
from helen.pipeline.reports.downtimes import Span, away, downtimes
from helen.pipeline.reports.forgotten_results import sums_as_results
from helen.pipeline.reports.presence import Heard, Presence, absences_for
from helen.pipeline.reports.transitions import CONFIRMED, Transitions
from helen.pipeline.rollup.segment_rows import micros
from helen.pipeline.standing import changes_for

LATEST = timedelta(days=9)  # a result lies in the file of its own day, and may have come 8 days later
LOOK_BACK = timedelta(days=4)  # for the result that says how a day begins, if no transition does
USUAL_TIMES = 3  # distances between results that one is good for
LEAST_GOOD, MOST_GOOD, GOOD_ALONE = 60 * MICROS, 6 * 3600 * MICROS, 900 * MICROS
ROWS_PER_PART = 4_000_000  # of results, if all series are alike: 200 MB in a worker
CHANGES_PER_PART = 500_000  # 200 MB as well, if all of them lie in the days of the report
CHECK_DAYS_PER_PART = 20_000  # rows of the report, 2 MB: the driver gets those of several parts at a time
CHECK_DAYS = 100_000  # that are computed at once: 50 MB in a worker
_OF_FLEET = ["helen", "at", "received", "kind", "document"]
_OF_CHANGES = ["series", "at", "document", "helen", "received"]

Array = Any  # of numpy


@frozen(eq=False)
class Plan:
    """Plans a report on the time from `begin` to `end`, microseconds. It goes to workers by pickle.

    `parts` have rising numbers of series.
    """

    begin: int
    end: int
    results: Sequence[Held]
    sums: Sequence[Held]  # of five minutes, of days whose results are forgotten
    changes: Sequence[Held]
    parts: Sequence[Array]
    downtimes: Mapping[int, Sequence[Span]]  # in any order, and overlapping
    away: Mapping[int, Sequence[Span]]  # the times in which each Helen was away
    several: bool  # Helens in this lake: then it matters which one had an agent
    counted: str = CONFIRMED

    def work(self, days: int) -> int:
        """Return how many rows the files have of which something may be read, and how many check-days are to be
        computed."""
        rows = sum(file.rows for files in (self.results, self.sums, self.changes) for file in files)
        return rows + sum(map(len, self.parts)) * days

    def inputs(self, part: int, days: int) -> Iterator[tuple[Array, Checks]]:
        """Yield the checks of this part, those without any input too, some at a time: their series, and what is known.

        `days` is how many days of each are to be computed: at most CHECK_DAYS come at once.
        """
        series = self.parts[part]
        codes: dict[str | None, int] = {reason: code for code, reason in enumerate(KNOWN_REASONS)}
        transitions, wrote = self._transitions(series, codes)
        moments = transitions.moments(self.begin, self.counted)
        runs, heard = self._runs(series, has_rows(transitions.of, len(series)), wrote)
        downtimes = [(of, *span) for of in self._covered(series) for span in self.downtimes[int(series[of])]]
        on = Spans.union(*np.array(downtimes, np.int64).reshape(len(downtimes), 3).T)
        absent = absences_for(heard, len(series), self.away, (self.begin, self.end))
        checks = Checks(len(series), moments, runs, on, absent, list(codes))
        size = max(1, CHECK_DAYS // days)
        for begin in range(0, len(series), size):
            end = min(begin + size, len(series))
            yield series[begin:end], checks.part(begin, end)

    def _covered(self, series: Array) -> list[int]:
        """Return the places of the checks that downtimes cover."""
        covered = np.fromiter(self.downtimes, np.int64, len(self.downtimes))
        return np.flatnonzero(np.isin(series, covered)).tolist()

    def _transitions(self, series: Array, codes: dict[str | None, int]) -> tuple[Transitions, Heard]:
        """Return the transitions of each check before `end`, in order, and the Helens that wrote them."""
        wanted = between(int(series[0]), int(series[-1])) & (pc.field("kind") == TRANSITION)
        found: list[Transitions] = [Transitions()]
        written: list[list[Array]] = []
        for batch in batches(CHANGES, _that_hold(self.changes, series), _OF_CHANGES, wanted):
            ours = _ours(batch, series)
            of = np.searchsorted(series, ours["series"].to_numpy())
            if self.several:
                written.append([of, micros(ours["received"]), ours["helen"].to_numpy()])
            found.append(
                Transitions.of_documents(of, ours["at"].to_numpy(), ours["document"].to_pylist(), codes)
            )  # fmt: skip
        whole = Transitions.joined(found)
        columns = [np.concatenate(column) for column in zip(*written, strict=True)]
        return whole.take(whole.time < self.end).in_order(), Heard.of_results(*columns) if columns else Heard()

    def _runs(self, series: Array, is_judged: Array, wrote: Heard) -> tuple[Runs, Heard]:
        """Return the runs of results: of all if a check has no transitions, else of late ones.

        With the Helens that the results came to; for checks without results those that `wrote` of them.
        """
        wanted = between(int(series[0]), int(series[-1])) & (pc.field("origin") != ASKED)
        wanted &= pc.field("time") < instant(self.end)
        columns = ["series", "time", "received", "status", "at", *(["helen"] if self.several else [])]
        rows = read(RESULTS, _that_hold(self.results, series), columns, wanted)
        rows = _ours(rows, series)
        of, time = np.searchsorted(series, rows["series"].to_numpy()), micros(rows["time"])
        received = micros(rows["received"])
        heard = Heard.of_results(of, received, rows["helen"].to_numpy()) if self.several else Heard()
        others = wrote.take(~np.isin(wrote.of, heard.of))
        chosen = ~is_judged[of] | (time < received)
        columns_of = [of[chosen], time[chosen], *(rows[name].to_numpy()[chosen] for name in ("at", "status"))]
        earlier = sums_as_results(_that_hold(self.sums, series), series, is_judged)
        found = runs_of(*(np.concatenate(column) for column in zip(earlier, columns_of, strict=True)))
        return Runs(*found), Heard.joined([heard, others])


def _ours(rows: Any, series: Array) -> Any:
    """Return the rows of these series, of a batch or table with rows from the first to the last of them."""
    if int(series[-1]) - int(series[0]) + 1 == len(series):
        return rows
    return rows.filter(pa.array(np.isin(rows["series"].to_numpy(), series, kind="table")))


def runs_of(series: Array, time: Array, at: Array, status: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return results in a row with one status at the usual distance: series, first, last, status, good for.

    Rows in any order; those of one series and time are in the order of `at`.
    """
    if not len(series):
        return series, time, time, status, time
    order = _ordered(series, time, at)
    series, time, status = series[order], time[order], status[order]
    is_first = begins_anew(series)
    gap = np.diff(time, prepend=time[0])
    good = _good_for(gap, is_first)[np.cumsum(is_first) - 1]
    begins = begins_anew(series, status) | (gap > good)
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(series)) - 1
    return series[starts], time[starts], time[ends], status[starts], good[starts]


def _ordered(series: Array, time: Array, at: Array) -> Array:
    """Return the order by series, time and `at`. One integer for the first two sorts many times faster than columns."""
    place, span = series.astype(np.int64) - int(series.min()), int(time.max() - time.min()) + 1
    if (int(place.max()) + 1) * span < 2**63:
        key = place * span + (time - time.min())
        if (key[1:] > key[:-1]).all():  # days that are over lie in this order
            return np.arange(len(key))
        order = np.argsort(key)
        ordered = key[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return order
    return np.lexsort((at, time, series))


def _good_for(gap: Array, is_first: Array) -> Array:
    """Return how long a result of each series is good, by the middle one of its gaps, the lower of two."""
    count = np.diff(np.append(np.flatnonzero(is_first), len(gap))) - 1
    gaps, of = gap[~is_first], np.repeat(np.arange(len(count)), count)
    span = int(gaps.max(initial=0)) + 1
    fits = len(count) * span < 2**63
    ordered = np.sort(of * span + gaps) - of * span if fits else gaps[np.lexsort((gaps, of))]
    good = np.full(len(count), GOOD_ALONE)
    some = count > 0
    middle = (np.cumsum(count) - count + (count - 1) // 2)[some]
    good[some] = np.clip(ordered[middle] * USUAL_TIMES, LEAST_GOOD, MOST_GOOD)
    return good


# ------------------------------------------------------------------------------------------------ planning


def plan(
    lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], at_least: int, counted: str = CONFIRMED
) -> Plan:
    """Return the plan for these days and checks (number -> agent, check_id), in so many parts or more."""
    begin, end = days[0].begin, days[-1].end
    until = date_of(end) + timedelta(days=1)
    # Changes of the day after, too: a Helen that was away at midnight says so when it comes back.
    changes_in = changes_for(lake, begin, until)
    oldest = oldest_day(lake, RESULTS.name) or date.max
    results = lake.files(RESULTS.name, (max(date_of(begin) - LOOK_BACK, oldest), until))
    forgotten = (date_of(begin) - LOOK_BACK, min(oldest - timedelta(days=1), until))
    sums = held(lake, SUMS.name, lake.files(SUMS.name, forgotten)) if forgotten[0] <= forgotten[1] else []
    count = max(at_least, -(-sum(file.rows for file in results) // ROWS_PER_PART))
    count = max(count, -(-sum(file.rows for file in changes_in) // CHANGES_PER_PART))
    count = max(count, -(-len(series) * len(days) // CHECK_DAYS_PER_PART))
    parts = np.array_split(np.array(sorted(series), np.int32), min(count, len(series)))
    results_in = held(lake, RESULTS.name, results)
    found = _fleet_changes(changes_in)
    on = _downtime_spans(found, series, (begin, end))
    several = sum(file.rows for file in lake.files(HELENS.name)) > 1
    return Plan(begin, end, results_in, sums, changes_in, parts, on, _away(lake, found, (begin, end)), several, counted)


def _fleet_changes(files: Sequence[Held]) -> list[dict[str, Any]]:
    """Return the downtimes, the starts and stops of Helens, and the last rules of each agent, in order.

    Rules are read piece by piece: they are as many as agents were assigned anew, and only the last labels count.
    """
    found: list[dict[str, Any]] = []
    last: dict[str, dict[str, Any]] = {}
    for batch in batches(CHANGES, [file.path for file in files], _OF_FLEET, pc.field("kind").isin(FLEET_KINDS)):
        for row in batch.to_pylist():
            if row["kind"] != "rule":
                found.append(row)
                continue
            document = json.loads(row["document"])
            agent = document.get("agent")
            if agent is not None and (agent not in last or _place(last[agent]) <= _place(row)):
                kept = {"agent": agent, "labels": document.get("labels", {})}
                last[agent] = {**row, "document": json.dumps(kept)}
    return sorted([*found, *last.values()], key=_place)


def _place(change: Mapping[str, Any]) -> tuple[Any, int]:
    return change["received"], change["at"]


def _downtime_spans(
    changes: list[dict[str, Any]], series: Mapping[int, tuple[str, str]], span: Span
) -> dict[int, list[Span]]:
    windows, found = downtimes(changes, span), {}
    for number, name in series.items() if windows else ():
        spans = [on for each in windows if each.covers(*name) for on in each.spans]
        if spans:
            found[number] = spans
    return found


def _away(lake: Lake, changes: list[dict[str, Any]], span: Span) -> dict[int, list[Span]]:
    """Return the times in which each Helen was away. One that never recorded its start is taken to run."""
    if not any(row["kind"] == "helen_start" for row in changes):
        return away(changes, span, lambda helen, after, before: None)
    presence = Presence.of(lake, (date_of(span[0]) - LATEST, date_of(span[1]) + timedelta(days=1)))
    return away(changes, span, presence.last_heard, presence.newest())


def _that_hold(files: Iterable[Held], series: Array) -> list[str]:
    return [file.path for file in files if file.may_hold(int(series[0]), int(series[-1]))]
