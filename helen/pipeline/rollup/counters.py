"""Carries the last value of a counter over the edge of its bucket, so that sums of `increase` are what it gained.

A row of sums knows what a counter gained between its own first and last value. What it gained from the value before is
a row of its own, with `increase` and `increase_s` alone: rows of one bucket add up. A value that comes late has a value
before and one after it in the lake already, so the step between those two is taken back and given anew in two.

Steps longer than CARRIED give nothing: whoever comes back after days may have counted anew, and a writer that starts
need look no further back.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import between, held, instant, read
from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.local_days import MICROS, date_of
from helen.pipeline.lake.schema import COUNTER, SUMS

CARRIED = 2 * 86_400 * MICROS  # a check that runs once a day is carried, however late it is
DAYS = timedelta(days=2)
COLUMNS = ("series", "metric", "unit", "bucket", "first", "first_at", "last", "last_at")
Key = tuple[int, str, str]  # series, metric, unit
_NO_SUMS = dict.fromkeys(("n", "ok", "warning", "critical", "unknown", "values", "cpu_runs"), 0)


@frozen(order=True)
class Stretch:
    """Holds the first and last value of a counter in a row of sums. Times in microseconds since 1970."""

    first_at: int
    last_at: int
    first: float
    last: float

    @property
    def bucket(self) -> int:
        """Where the bucket begins that the row belongs to."""
        start: int = M5.start(self.first_at)
        return start


@frozen
class Step:
    """Holds what a counter gained from one row to the next: it belongs to the bucket of the second one."""

    bucket: int
    gain: float
    seconds: float


Steps = dict[Key, list[Step]]


def gained(before: float, value: float) -> float:
    """Return what a counter gained between two values; one below that before it began again at 0."""
    found = value - before if value >= before else value
    return found if math.isfinite(found) else 0.0


def step_to(before: Stretch | None, row: Stretch) -> Step | None:
    """Return the step from the row before; None if there is none, or it is too long ago."""
    if before is None or not 0 <= row.first_at - before.last_at <= CARRIED:
        return None
    return Step(row.bucket, gained(before.last, row.first), (row.first_at - before.last_at) / MICROS)


def steps_between(rows: Iterable[Stretch]) -> dict[Stretch, Step | None]:
    """Return the step to each of these rows of one counter, in the order of time."""
    found: dict[Stretch, Step | None] = {}
    before: Stretch | None = None
    for row in sorted(rows):
        found[row] = step_to(before, row)
        if before is None or row.last_at >= before.last_at:
            before = row
    return found


def changed_steps(before: Iterable[Stretch], after: Iterable[Stretch], added: Iterable[Stretch]) -> list[Step]:
    """Return the steps that make the sums right once these rows become those: whole ones for rows that are added.

    A row that stays gets the difference, and none if the row before it is the same.
    """
    was, now, new = steps_between(before), steps_between(after), set(added)
    found = []
    for row, step in now.items():
        old = None if row in new else was.get(row)
        if step == old:
            continue
        (gain, seconds), (taken, taken_s) = _figures(step), _figures(old)
        found.append(Step(row.bucket, gain - taken, seconds - taken_s))
    return found


def _figures(step: Step | None) -> tuple[float, float]:
    return (0.0, 0.0) if step is None else (step.gain, step.seconds)


def stretches(rows: pa.Table) -> defaultdict[Key, list[Stretch]]:
    """Return the rows of counters with a value, by counter. Rows that carry a step alone have no value."""
    chosen = rows.filter(pc.and_(pc.equal(rows["kind"], COUNTER), pc.is_valid(rows["first_at"])))
    found: dict[Key, list[Stretch]] = defaultdict(list)
    numbers = (chosen[name].cast(pa.int64()).to_pylist() for name in ("first_at", "last_at"))
    values = (chosen[name].to_pylist() for name in ("series", "metric", "unit", "first", "last"))
    for series, metric, unit, first, last, first_at, last_at in zip(*values, *numbers, strict=True):
        found[series, metric, unit].append(Stretch(first_at, last_at, first, last))
    return found


def as_rows(steps: Mapping[Key, Sequence[Step]]) -> pa.Table:
    """Return steps as rows of m5, `day` included, in the order of series, metric and bucket."""
    rows = [
        {"series": key[0], "metric": key[1], "unit": key[2], "kind": COUNTER, "bucket": step.bucket,
         "increase": step.gain, "increase_s": step.seconds, "day": date_of(step.bucket), **_NO_SUMS}
        for key in sorted(steps) for step in sorted(steps[key], key=lambda step: step.bucket)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SUMS.arrow)


class Counters:
    """Keeps the last value of each counter, for the writer of m5.

    Call `settle` once the rows are published, and `forget` if that is not known: then it reads the lake again.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._last: dict[Key, Stretch] | None = None
        self._next: dict[Key, Stretch] = {}
        self._known_from = 0  # a counter without a last value has none from here on; before, the lake is asked

    def carried(self, sums: Sequence[pa.Table]) -> pa.Table:
        """Return rows of m5 with the steps to and between these new rows of sums."""
        found: dict[Key, list[Stretch]] = defaultdict(list)
        for rows in sums:
            for key, stretch in stretches(rows).items():
                found[key] += stretch
        self._next = {}
        if not found:
            return SUMS.arrow.empty_table()
        last = self._load()
        steps: Steps = {}
        late: dict[Key, list[Stretch]] = {}
        for key, rows in found.items():
            known, begin = last.get(key), min(rows).first_at
            if begin <= known.last_at if known is not None else begin < self._known_from:
                late[key] = rows
                continue
            all_of = rows if known is None else [known, *rows]
            steps[key] = changed_steps([] if known is None else [known], all_of, rows)
            self._next[key] = max(all_of, key=lambda row: row.last_at)
        steps |= self._late(late)
        return as_rows(steps)

    def settle(self) -> None:
        """Keep the last values of the rows that were carried last: they are published."""
        if self._last is not None:
            self._last |= self._next
        self._next = {}

    def forget(self) -> None:
        """Forget all: the lake says what is published."""
        self._last, self._next = None, {}

    def _load(self) -> dict[Key, Stretch]:
        if self._last is None:
            files = [file for file in self._lake.files(SUMS.name) if file.day is not None]
            newest = max((file.day for file in files if file.day is not None), default=date.min + DAYS)
            self._last = {}
            for file in held(self._lake, SUMS.name, [f for f in files if f.day is not None and f.day >= newest - DAYS]):
                for key, rows in stretches(_read([file.path], None)).items():
                    known = self._last.get(key)
                    self._last[key] = max([*rows, *([known] if known is not None else [])], key=lambda row: row.last_at)
            if files:
                self._known_from = (newest - DAYS - date(1970, 1, 1)).days * 86_400 * MICROS + CARRIED
        return self._last

    def _late(self, late: Mapping[Key, list[Stretch]]) -> Steps:
        """Return the steps of counters of which the lake has later values, or values that aren't kept in memory."""
        if not late:
            return {}
        everything = [row for rows in late.values() for row in rows]
        begin, end = min(everything).first_at - CARRIED, max(row.last_at for row in everything) + CARRIED
        near = rows_near(self._lake, sorted({key[0] for key in late}), begin, end)
        steps: Steps = {}
        for key, rows in late.items():
            there = near.get(key, [])
            steps[key] = changed_steps(there, [*there, *rows], rows)
            known = (self._last or {}).get(key)
            self._next[key] = max([*there, *rows, *([known] if known else [])], key=lambda row: row.last_at)
        return steps


def rows_near(lake: Lake, series: Sequence[int], begin: int, end: int) -> dict[Key, list[Stretch]]:
    """Return the rows of counters of these series that have values between two times, microseconds."""
    files = held(lake, SUMS.name, lake.files(SUMS.name, (date_of(begin), date_of(end))))
    paths = [file.path for file in files if file.may_hold(series[0], series[-1])]
    wanted = between(series[0], series[-1]) & pc.field("series").isin(series)
    wanted &= (pc.field("bucket") >= instant(M5.start(begin))) & (pc.field("bucket") <= instant(end))
    return stretches(pa.concat_tables([_read([], None), *(_read([path], wanted) for path in paths)]))


def _read(paths: Sequence[str], wanted: Any) -> pa.Table:
    """Return rows of counters. A damaged file has none: new results come in, and its day is made anew some time."""
    counters = pc.field("kind") == COUNTER
    columns = [*COLUMNS, "kind"]
    try:
        return read(SUMS, paths, columns, counters if wanted is None else counters & wanted)
    except (OSError, pa.ArrowException):
        return read(SUMS, [], columns, None)
