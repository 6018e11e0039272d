"""What is known of checks, from the files of the lake: transitions, results in a row, downtimes, Helen's absences.

A plan is made once for a report; its parts are worked on by Spark's tasks, each with some of the checks. A part reads
the few columns that matter of those files that may hold its checks (old days lie sorted by check, so these are few) and
sorts them once. Arrow and numpy: by frames and windows the same cost several times as much.

Where a check has transitions (Helen judged it), those are taken and only late results besides; where it has none, its
results are: each as if it had been confirmed, good for three times the usual distance between two.
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

from equus_protocol.results import STATUS_WORDS
from helen.pipeline.days import MICROS, Day, date_of
from helen.pipeline.digest import micros
from helen.pipeline.files import Held, batches, between, held, instant, read
from helen.pipeline.lake import Lake
from helen.pipeline.planned import absences, downtimes
from helen.pipeline.schema import ASKED
from helen.pipeline.spent import UNKNOWN, Facts, Moment, Run, Span, union

LATEST = timedelta(days=9)  # a result lies in the file of its own day, and may have come 8 days later
LOOK_BACK = timedelta(days=4)  # for the result that says how a day begins, where no transition does
USUAL_TIMES = 3  # distances between results that one is good for
LEAST_GOOD, MOST_GOOD, GOOD_ALONE = 60 * MICROS, 6 * 3600 * MICROS, 900 * MICROS
ROWS_PER_PART = 4_000_000  # of results, if all series are alike: 200 MB in a worker
CHANGES_PER_PART = 500_000  # if all of them were in the days that are asked for: as much
NUMBERS = {word: number for number, word in enumerate(STATUS_WORDS)}
_TELLING = ("downtime", "rule", "helen_start", "helen_stop")  # kinds of changes that are about many checks

Array = Any  # of numpy


@frozen(eq=False)
class Plan:
    """Of the time from `begin` to `end`, microseconds. `parts`: rising numbers of series. Goes to workers by pickle."""

    begin: int
    end: int
    results: Sequence[Held]
    changes: Sequence[Held]
    parts: Sequence[Array]
    downtimes: Mapping[int, Sequence[Span]]
    absences: Sequence[Span]

    def facts(self, part: int) -> Iterator[tuple[int, Facts]]:
        """Of each check of this part, whether anything is known of it or not."""
        series = self.parts[part]
        moments = self._moments(series)
        runs = self._runs(series, moments.keys())
        for number in series.tolist():
            planned = self.downtimes.get(number, ())
            yield number, Facts(moments.get(number, ()), runs.get(number, ()), planned, self.absences)

    def _moments(self, series: Array) -> dict[int, list[Moment]]:
        """Confirmed transitions, and the last one before `begin`."""
        wanted = between(int(series[0]), int(series[-1])) & (pc.field("kind") == "transition")
        told: dict[int, list[tuple[int, int, Moment]]] = defaultdict(list)
        before: dict[int, tuple[int, int, Moment]] = {}  # the last one of each: the others of years are no matter
        for batch in batches("changes", _that_hold(self.changes, series), ["series", "at", "document"], wanted):
            ours = batch.filter(pa.array(np.isin(batch["series"].to_numpy(), series, kind="table")))
            for number, at, document in zip(*(column.to_pylist() for column in ours.columns), strict=True):
                moment = moment_of(msgspec.json.decode(document))
                if moment is None or moment.at >= self.end:
                    continue
                known = moment.at, at, moment
                if moment.at > self.begin:
                    told[number].append(known)
                elif number not in before or before[number][:2] < known[:2]:
                    before[number] = known
        return {
            number: [moment for _, _, moment in sorted([*_some(before.get(number)), *told[number]], key=_in_order)]
            for number in {*before, *told}
        }

    def _runs(self, series: Array, judged: Collection[int]) -> dict[int, list[Run]]:
        """Of all results where there are no transitions; else of late ones."""
        wanted = between(int(series[0]), int(series[-1])) & (pc.field("origin") != ASKED)
        wanted &= pc.field("time") < instant(self.end)
        columns = ["series", "time", "received", "status", "at"]
        rows = read("results", _that_hold(self.results, series), columns, wanted)
        number, time, at = rows["series"].to_numpy(), micros(rows["time"]), rows["at"].to_numpy()
        chosen = np.isin(number, series, kind="table")
        if judged:
            by_helen = np.isin(number, np.array(sorted(judged), np.int32), kind="table")
            chosen &= ~by_helen | (time < micros(rows["received"]))
        kept = np.flatnonzero(chosen)
        found = runs_of(number[kept], time[kept], at[kept], rows["status"].to_numpy()[kept])
        runs: dict[int, list[Run]] = defaultdict(list)
        for of, *run in zip(*(column.tolist() for column in found), strict=True):
            runs[of].append(Run(*run))
        return runs


def _some(known: Any) -> list[Any]:
    return [] if known is None else [known]


def _in_order(known: tuple[int, int, Moment]) -> tuple[int, int]:
    return known[:2]


def moment_of(document: Mapping[str, Any]) -> Moment | None:
    """A recorded transition; None for one that isn't confirmed."""
    now, was = document.get("now") or {}, document.get("was") or {}
    at = document.get("at")
    if now.get("attempt") != 0 or not isinstance(at, int | float):
        return None
    status, before = (NUMBERS.get(each.get("status"), UNKNOWN) for each in (now, was))
    return Moment(round(at * MICROS), status, now.get("reason"), before, was.get("reason"))


def runs_of(series: Array, time: Array, at: Array, status: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Results in a row that say the same and come as often as usual: series, first, last, status, good for.

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
    """By series, time and `at`. One integer for the first two is sorted many times faster than three columns are."""
    place, span = series.astype(np.int64) - int(series.min()), int(time.max() - time.min()) + 1
    if (int(place.max()) + 1) * span < 2**63:
        key = place * span + (time - time.min())
        order = np.argsort(key)
        ordered = key[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return order
    return np.lexsort((at, time, series))


def _good_for(gap: Array, is_first: Array) -> Array:
    """For how long a result of each series is good: by the middle one of its gaps, the lower of two."""
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


def plan(lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], at_least: int) -> Plan:
    """For these days and checks (number -> agent, check_id), in so many parts or more."""
    begin, end = days[0].begin, days[-1].end
    until = date_of(end) + timedelta(days=1)
    changes = lake.files("changes", (date.min, until))
    results = lake.files("results", (date_of(begin) - LOOK_BACK, until))
    count = max(at_least, -(-sum(file.rows for file in results) // ROWS_PER_PART))
    count = max(count, -(-sum(file.rows for file in changes) // CHANGES_PER_PART))
    parts = np.array_split(np.array(sorted(series), np.int32), min(count, len(series)))
    # Those of the day after, too: a Helen that was away at midnight says so when she comes back.
    told_in, heard_in = held(lake, "changes", changes), held(lake, "results", results)
    told = _told(told_in)
    planned = _planned(told, series, (begin, end))
    away = _away(lake, told, (begin, end))
    return Plan(begin, end, heard_in, told_in, parts, planned, away)


def _told(files: Sequence[Held]) -> list[dict[str, Any]]:
    columns = ["helen", "at", "received", "kind", "document"]
    found = read("changes", [file.path for file in files], columns, pc.field("kind").isin(_TELLING))
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda row: (row["received"], row["at"]))


def _planned(told: list[dict[str, Any]], series: Mapping[int, tuple[str, str]], span: Span) -> dict[int, list[Span]]:
    planned, found = downtimes(told, span), {}
    for number, name in series.items() if planned else ():
        spans = union(on for each in planned if each.covers(*name) for on in each.spans)
        if spans:
            found[number] = spans
    return found


def _away(lake: Lake, told: list[dict[str, Any]], span: Span) -> list[Span]:
    """When no Helen was there. Who never said when she starts is taken to be there."""
    if not any(row["kind"] == "helen_start" for row in told):
        return absences(told, span, lambda helen, after, before: None)
    days = (date_of(span[0]) - LATEST, date_of(span[1]) + timedelta(days=1))
    paths = {name: [file.path for file in held(lake, name, lake.files(name, days))] for name in ("results", "changes")}

    def last_heard(helen: int, after: int, before: int) -> int | None:
        """When a Helen that was killed got her last result, between two values of `at`; None: none that matters."""
        wanted = (pc.field("helen") == helen) & (pc.field("at") >= after) & (pc.field("at") <= before)
        return max(_last_received(paths["results"], "results", wanted).values(), default=None)

    newest: dict[int, int] = {}
    for name, each in paths.items():
        for helen, last in _last_received(each, name).items():
            newest[helen] = max(newest.get(helen, 0), last)
    return absences(told, span, last_heard, newest)


def _last_received(paths: Sequence[str], table: str, wanted: Any = None) -> dict[int, int]:
    """When each Helen got or wrote the last of these rows. They are looked through piece by piece."""
    last: dict[int, int] = {}
    for batch in batches(table, paths, ["helen", "received"], wanted):
        helens, received = batch["helen"].to_numpy(), batch["received"].cast(pa.int64()).to_numpy()
        for helen in np.unique(helens).tolist():
            last[helen] = max(last.get(helen, 0), int(received[helens == helen].max()))
    return last


def _that_hold(files: Iterable[Held], series: Array) -> list[str]:
    return [file.path for file in files if file.may_hold(int(series[0]), int(series[-1]))]
