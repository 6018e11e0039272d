"""Reads the inputs of availability from the lake: transitions, results in a row, downtimes, Helen's absences.

A plan is made once for a report; Spark's tasks work on its parts, each with some of the checks. A part reads the few
columns that matter from files that may hold its checks (old days lie sorted by check, so these are few) and sorts them
once. Arrow and numpy do it: Spark's frames and windows take several times the CPU.

If a check has transitions (Helen evaluated it), they are taken, and of its results only the late ones. If it has none,
its results are taken instead: each counts as confirmed, for three times the usual distance between two results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import Held, batches, between, held, instant, read
from helen.pipeline.lake.local_days import MICROS, Day, date_of
from helen.pipeline.lake.recorded_changes import FLEET_KINDS, TRANSITION
from helen.pipeline.lake.schema import ASKED, CHANGES, HELENS, RESULTS, SUMS
from helen.pipeline.reports.availability_math import CheckInputs, Moment, Run, Span, union
from helen.pipeline.reports.downtimes import away, downtimes, in_common
from helen.pipeline.reports.forgotten_results import oldest_day, sums_as_results
from helen.pipeline.reports.presence import Heard, Presence, absences_for, heard_by
from helen.pipeline.reports.transitions import CONFIRMED, Placed, transition_of
from helen.pipeline.rollup.segment_rows import micros
from helen.pipeline.standing import changes_for

LATEST = timedelta(days=9)  # a result lies in the file of its own day, and may have come 8 days later
LOOK_BACK = timedelta(days=4)  # for the result that says how a day begins, if no transition does
USUAL_TIMES = 3  # distances between results that one is good for
LEAST_GOOD, MOST_GOOD, GOOD_ALONE = 60 * MICROS, 6 * 3600 * MICROS, 900 * MICROS
ROWS_PER_PART = 4_000_000  # of results, if all series are alike: 200 MB in a worker
CHANGES_PER_PART = 500_000  # 200 MB as well, if all of them lie in the days of the report
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
    downtimes: Mapping[int, Sequence[Span]]
    away: Mapping[int, Sequence[Span]]  # the times in which each Helen was away
    several: bool  # Helens in this lake: then it matters which one had an agent
    counted: str = CONFIRMED

    def inputs(self, part: int) -> Iterator[tuple[int, CheckInputs]]:
        """Yield the inputs of each check of this part, empty ones included."""
        series = self.parts[part]
        heard: dict[int, list[Heard]] = {}
        moments = self._moments(series, heard)
        runs = self._runs(series, moments.keys(), heard)
        common = in_common(self.away, (self.begin, self.end))
        for number in series.tolist():
            on = self.downtimes.get(number, ())
            by = heard.get(number)
            absent = common if by is None else absences_for(by, self.away, (self.begin, self.end))
            yield number, CheckInputs(moments.get(number, ()), runs.get(number, ()), on, absent)

    def _moments(self, series: Array, heard: dict[int, list[Heard]]) -> dict[int, list[Moment]]:
        """Return the transitions of each check that count, and the last one before `begin`.

        If none came before, the list begins with what was known before the first transition of any kind: a problem
        that was confirmed later was none yet, and its own `was` is only the soft state in between. `heard` gets the
        Helens that wrote them, for series that have no results.
        """
        wanted = between(int(series[0]), int(series[-1])) & (pc.field("kind") == TRANSITION)
        within: dict[int, list[Placed]] = defaultdict(list)
        before: dict[int, Placed] = {}  # the last one of each; earlier ones, perhaps years of them, are not needed
        first: dict[int, Placed] = {}  # of any kind
        written: list[list[Array]] = []
        for batch in batches(CHANGES, _that_hold(self.changes, series), _OF_CHANGES, wanted):
            ours = batch.filter(pa.array(np.isin(batch["series"].to_numpy(), series, kind="table")))
            if self.several:
                written.append([ours["series"].to_numpy(), micros(ours["received"]), ours["helen"].to_numpy()])
            columns = (ours[name].to_pylist() for name in _OF_CHANGES[:3])
            for number, at, document in zip(*columns, strict=True):
                transition = transition_of(msgspec.json.decode(document))
                if transition is None or transition.moment.at >= self.end:
                    continue
                known = transition.moment.at, at, transition
                if number not in first or known[:2] < first[number][:2]:
                    first[number] = known
                if not transition.counts(self.counted):
                    continue
                if known[0] > self.begin:
                    within[number].append(known)
                elif number not in before or before[number][:2] < known[:2]:
                    before[number] = known
        if written:
            heard |= heard_by(*(np.concatenate(column) for column in zip(*written, strict=True)))
        return {
            number: [
                *([] if number in before else first[number][2].earlier()),
                *(each.moment for _, _, each in sorted([*_some(before.get(number)), *within[number]], key=_in_order)),
            ]
            for number in first
        }

    def _runs(self, series: Array, judged: Collection[int], heard: dict[int, list[Heard]]) -> dict[int, list[Run]]:
        """Return the runs of results: of all if a check has no transitions, else of late ones.

        `heard` gets the Helens that the results came to.
        """
        wanted = between(int(series[0]), int(series[-1])) & (pc.field("origin") != ASKED)
        wanted &= pc.field("time") < instant(self.end)
        columns = ["series", "time", "received", "status", "at", *(["helen"] if self.several else [])]
        rows = read(RESULTS, _that_hold(self.results, series), columns, wanted)
        number, time, at = rows["series"].to_numpy(), micros(rows["time"]), rows["at"].to_numpy()
        chosen = np.isin(number, series, kind="table")
        if self.several:
            heard |= heard_by(number[chosen], micros(rows["received"])[chosen], rows["helen"].to_numpy()[chosen])
        if judged:
            by_helen = np.isin(number, np.array(sorted(judged), np.int32), kind="table")
            chosen &= ~by_helen | (time < micros(rows["received"]))
        kept = np.flatnonzero(chosen)
        columns_of = [number[kept], time[kept], at[kept], rows["status"].to_numpy()[kept]]
        earlier = sums_as_results(_that_hold(self.sums, series), series, judged)
        found = runs_of(*(np.concatenate(column) for column in zip(earlier, columns_of, strict=True)))
        runs: dict[int, list[Run]] = defaultdict(list)
        for of, *run in zip(*(column.tolist() for column in found), strict=True):
            runs[of].append(Run(*run))
        return runs


def _some(known: Any) -> list[Any]:
    return [] if known is None else [known]


def _in_order(known: Placed) -> tuple[int, int]:
    return known[:2]


def runs_of(series: Array, time: Array, at: Array, status: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return results in a row with one status at the usual distance: series, first, last, status, good for.

    Rows in any order; those of one series and time are in the order of `at`.
    """
    if not len(series):
        return series, time, time, status, time
    order = _ordered(series, time, at)
    series, time, status = series[order], time[order], status[order]
    is_first = np.concatenate([[True], series[1:] != series[:-1]])
    gap = np.diff(time, prepend=time[0])
    good = _good_for(gap, is_first)[np.cumsum(is_first) - 1]
    begins = is_first | np.concatenate([[True], status[1:] != status[:-1]]) | (gap > good)
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(series)) - 1
    return series[starts], time[starts], time[ends], status[starts], good[starts]


def _ordered(series: Array, time: Array, at: Array) -> Array:
    """Return the order by series, time and `at`. One integer for the first two sorts many times faster than columns."""
    place, span = series.astype(np.int64) - int(series.min()), int(time.max() - time.min()) + 1
    if (int(place.max()) + 1) * span < 2**63:
        key = place * span + (time - time.min())
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
    results = lake.files(RESULTS.name, (date_of(begin) - LOOK_BACK, until))
    oldest = oldest_day(lake, RESULTS.name) or date.max
    forgotten = (date_of(begin) - LOOK_BACK, min(oldest - timedelta(days=1), until))
    sums = held(lake, SUMS.name, lake.files(SUMS.name, forgotten)) if forgotten[0] <= forgotten[1] else []
    count = max(at_least, -(-sum(file.rows for file in results) // ROWS_PER_PART))
    count = max(count, -(-sum(file.rows for file in changes_in) // CHANGES_PER_PART))
    parts = np.array_split(np.array(sorted(series), np.int32), min(count, len(series)))
    results_in = held(lake, RESULTS.name, results)
    found = _fleet_changes(changes_in)
    on = _downtime_spans(found, series, (begin, end))
    several = sum(file.rows for file in lake.files(HELENS.name)) > 1
    return Plan(begin, end, results_in, sums, changes_in, parts, on, _away(lake, found, (begin, end)), several, counted)


def _fleet_changes(files: Sequence[Held]) -> list[dict[str, Any]]:
    columns = ["helen", "at", "received", "kind", "document"]
    found = read(CHANGES, [file.path for file in files], columns, pc.field("kind").isin(FLEET_KINDS))
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda row: (row["received"], row["at"]))


def _downtime_spans(
    changes: list[dict[str, Any]], series: Mapping[int, tuple[str, str]], span: Span
) -> dict[int, list[Span]]:
    windows, found = downtimes(changes, span), {}
    for number, name in series.items() if windows else ():
        spans = union(on for each in windows if each.covers(*name) for on in each.spans)
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
