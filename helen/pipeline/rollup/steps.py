"""Defines the gain of a counter from one row of sums to the next: a step, which is a row of its own.

Steps longer than CARRIED give nothing: whoever comes back after days may have counted anew, and a writer that starts
need look no further back.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.local_days import MICROS, date_of
from helen.pipeline.lake.schema import COUNTER, SUMS

CARRIED = 2 * 86_400 * MICROS  # a check that runs once a day is carried, however late it is
DAYS = timedelta(days=2)
COLUMNS = ("series", "metric", "unit", "bucket", "first", "first_at", "last", "last_at")
Key = tuple[int, str, str]  # series, metric, unit
_NO_SUMS = ("n", "ok", "warning", "critical", "unknown", "values", "cpu_runs")


@frozen(order=True)
class Stretch:
    """Holds the first and last value of a counter in a row of sums. Times in microseconds since 1970."""

    first_at: int
    last_at: int
    first: float
    last: float

    @property
    def bucket(self) -> int:
        """Return the beginning of the bucket that the row belongs to."""
        start: int = M5.start(self.first_at)
        return start


@frozen
class Step:
    """Holds the gain of a counter from one row to the next: it belongs to the bucket of the second one."""

    bucket: int
    gain: float
    seconds: float


Steps = dict[Key, list[Step]]


def gained(before: float, value: float) -> float:
    """Return the gain of a counter between two values; a value below the one before began again at 0."""
    found = value - before if value >= before else value
    return found if math.isfinite(found) else 0.0


def step_to(before: Stretch | None, row: Stretch) -> Step | None:
    """Return the step from the row before; None if there is none, or it is too long ago.

    A row that begins before the other one ends takes back what both have.
    """
    if before is None or row.first_at - before.last_at > CARRIED:
        return None
    if row.first_at < before.last_at:
        return _taken_back(before, row)
    return Step(row.bucket, gained(before.last, row.first), (row.first_at - before.last_at) / MICROS)


def _taken_back(before: Stretch, row: Stretch) -> Step:
    """Return the step that leaves of a row what it gains behind the end of another one, in whose time it begins.

    The other row has the step over the gap that this one fills. That is right unless the counter began again within
    the gap: only the values between would say so.
    """
    gain, seconds = -gained(row.first, row.last), (row.first_at - row.last_at) / MICROS
    if row.last_at > before.last_at:
        gain += gained(before.last, row.last)
        seconds += (row.last_at - before.last_at) / MICROS
    return Step(row.bucket, gain, seconds)


def last_of(rows: Sequence[Stretch]) -> Stretch:
    """Return the row that ends last; of several, as they were published, the one that came last."""
    return max(reversed(rows), key=lambda row: row.last_at)


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
    rows = [(*key, each) for key in sorted(steps) for each in sorted(steps[key], key=lambda step: step.bucket)]
    count, buckets = len(rows), [step.bucket for *_, step in rows]
    days = {bucket: date_of(bucket) for bucket in set(buckets)}
    known: dict[str, Any] = {
        "series": [series for series, *_ in rows], "metric": [metric for _, metric, _, _ in rows],
        "unit": [unit for _, _, unit, _ in rows], "kind": [COUNTER] * count, "bucket": buckets,
        "increase": [step.gain for *_, step in rows], "increase_s": [step.seconds for *_, step in rows],
        "day": [days[bucket] for bucket in buckets], **dict.fromkeys(_NO_SUMS, [0] * count),
    }  # fmt: skip
    columns = [
        pa.array(known[field.name], field.type) if field.name in known else pa.nulls(count, field.type)
        for field in SUMS.arrow
    ]
    return pa.table(columns, schema=SUMS.arrow)
