"""Sums up anew what counters gained where rows of one bucket overlap in time: the raw values say it.

A row of sums knows the first and the last value of its counter, not those between. If values came out of order in
several batches, rows of one bucket overlap, and no step from one to the other says what the counter gained, least of
all where it began again in between. So the bucket gets the difference between what its raw values say and what its
rows say. So does the bucket behind it, because the step to that one begins at the last value.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.damaged_files import pass_over
from helen.pipeline.lake.kept_days import kept_from
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import batches, between, held
from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.local_days import date_of, micros_of
from helen.pipeline.lake.read_errors import READ_ERRORS
from helen.pipeline.lake.schema import COUNTER, RESULTS, SUMS, Table
from helen.pipeline.rollup.segment_rows import micros, sums_of
from helen.pipeline.rollup.steps import Key, Step, Stretch, steps_between

OF_RESULTS = ["series", "time", "at", "status", "origin", "took_ms", "cpu_ms", "peak_kib", "metrics"]
OF_SUMS = ["series", "metric", "unit", "kind", "bucket", "values", "increase", "increase_s"]


@frozen
class Overlap:
    """Holds the rows of one counter: those in the lake near the ones that are added."""

    there: Sequence[Stretch]
    added: Sequence[Stretch]

    @property
    def rows(self) -> list[Stretch]:
        return [*self.there, *self.added]

    def buckets(self) -> tuple[set[int], set[int]]:
        """Return the buckets whose gain is to be made exact, and those whose values are needed for that.

        Rows that are added beside an overlap of before are in them, too: its rows don't say which value is its last.
        """
        order = sorted({row.bucket for row in self.rows})
        before = {bucket: order[max(at - 1, 0)] for at, bucket in enumerate(order)}
        behind = {bucket: order[min(at + 1, len(order) - 1)] for at, bucket in enumerate(order)}
        overlaps, added = overlapping(self.rows), {row.bucket for row in self.added}
        exact = {
            each
            for bucket in added
            if overlaps & {before[bucket], bucket, behind[bucket]}
            for each in (bucket, behind[bucket])
        }
        exact |= {each for each in self._followers() if before[each] in added}
        return exact, exact | {before[bucket] for bucket in exact}

    def _followers(self) -> set[int]:
        """Return the buckets that stood behind an overlap in the lake: their step began at its last value."""
        there, overlaps = sorted({row.bucket for row in self.there}), overlapping(self.there)
        return {behind for bucket, behind in pairwise(there) if bucket in overlaps}


@frozen
class Gained:
    """Holds the gain of a counter in a bucket, the number of its values, and (from raw values) its first and last
    one."""

    values: int
    gain: float
    seconds: float
    stretch: Stretch | None = None

    def __add__(self, other: Gained) -> Gained:
        return Gained(self.values + other.values, self.gain + other.gain, self.seconds + other.seconds)


@frozen
class Exact:
    """Holds the steps that make buckets exact, and the last values of the counter, in the order of time."""

    buckets: set[int]
    steps: list[Step]
    rows: list[Stretch]


Buckets = Mapping[Key, Mapping[int, Gained]]


def overlapping(rows: Iterable[Stretch]) -> set[int]:
    """Return the buckets in which rows of one counter overlap, or have values of one moment."""
    found, end = set(), -math.inf
    for row in sorted(rows):
        if row.first_at <= end:
            found.add(row.bucket)
        end = max(end, row.last_at)
    return found


def made_exact(
    lake: Lake, overlaps: Mapping[Key, Overlap], sums: Sequence[pa.Table], results: Sequence[pa.Table]
) -> dict[Key, Exact]:
    """Return how the gains of these counters are made exact.

    `sums` and `results` are the rows that the lake doesn't have yet. A counter of which raw values are forgotten, or
    can't be read, is left out.
    """
    wanted = {key: buckets for key, overlap in overlaps.items() if (buckets := overlap.buckets())[0]}
    since = kept_from(lake, SUMS.name)  # of days before, rows of late results are all that `m5` has
    wanted = {key: buckets for key, buckets in wanted.items() if date_of(min(buckets[1])) >= since}
    if not wanted:
        return {}
    needed = {bucket for _, buckets in wanted.values() for bucket in buckets}
    series = sorted({key[0] for key in wanted})
    raw = _of_results(lake, results, series, needed)
    said = _of_sums(lake, sums, series, needed)
    found = {}
    for key, (exact, buckets) in wanted.items():
        ours, theirs = raw.get(key, {}), said.get(key, {})
        if all(each in ours and each in theirs and ours[each].values == theirs[each].values for each in buckets):
            found[key] = _exact(overlaps[key].rows, exact, {bucket: ours[bucket] for bucket in buckets}, theirs)
    return found


def _exact(rows: Sequence[Stretch], buckets: set[int], raw: Mapping[int, Gained], said: Mapping[int, Gained]) -> Exact:
    whole = {bucket: each.stretch for bucket, each in raw.items() if each.stretch is not None}
    pieces = sorted([*whole.values(), *(row for row in rows if row.bucket not in whole)])
    to = steps_between(pieces)
    steps = []
    for bucket in sorted(buckets):
        step = to[whole[bucket]] or Step(bucket, 0.0, 0.0)
        gain = raw[bucket].gain + step.gain - said[bucket].gain
        seconds = raw[bucket].seconds + step.seconds - said[bucket].seconds
        if gain or seconds:
            steps.append(Step(bucket, gain, seconds))
    return Exact(buckets, steps, pieces)


def _of_results(lake: Lake, more: Sequence[pa.Table], series: Sequence[int], buckets: set[int]) -> Buckets:
    """Return the gains by the raw values, those of published results and `more`."""
    chosen = [_chosen(rows.select(OF_RESULTS), "time", series, buckets) for rows in more]
    chosen += _stored(lake, RESULTS, OF_RESULTS, "time", series, buckets)
    if not chosen:
        return {}
    rows = pa.concat_tables(chosen)
    order = pc.sort_indices(rows, sort_keys=[("time", "ascending"), ("at", "ascending")])
    return _gained(sums_of(rows.take(order)))


def _of_sums(lake: Lake, more: Sequence[pa.Table], series: Sequence[int], buckets: set[int]) -> Buckets:
    """Return the gains by the rows of sums, those in the lake and `more`, steps included."""
    chosen = [_chosen(rows.select(OF_SUMS), "bucket", series, buckets) for rows in more]
    chosen += _stored(lake, SUMS, OF_SUMS, "bucket", series, buckets)
    return _gained(pa.concat_tables(chosen))


def _stored(
    lake: Lake, table: Table, columns: list[str], time: str, series: Sequence[int], buckets: set[int]
) -> Iterator[pa.Table]:
    """Yield rows of a table piece by piece. A damaged file ends them: then counts show that some lack.

    Raises OSError if a file may be sound.
    """
    files = held(lake, table.name, lake.files(table.name, (date_of(min(buckets)), date_of(max(buckets)))))
    paths = [file.path for file in files if file.may_hold(series[0], series[-1])]
    wanted = between(series[0], series[-1]) & pc.field("series").isin(series)
    for path in paths:
        try:
            for batch in batches(table, [path], columns, wanted):
                yield _chosen(pa.Table.from_batches([batch]), time, series, buckets)
        except READ_ERRORS as error:
            pass_over(lake, table.name, path, error)
            return


def _chosen(rows: pa.Table, time: str, series: Sequence[int], buckets: set[int]) -> pa.Table:
    places = pa.array(M5.start(micros(rows[time])), pa.int64())
    return rows.filter(
        pc.and_(
            pc.is_in(places, pa.array(sorted(buckets), pa.int64())),
            pc.is_in(rows["series"], pa.array(series, pa.int32())),
        )
    )


def _gained(sums: pa.Table) -> Buckets:
    """Return the gains by counter and bucket that rows of sums have."""
    found: defaultdict[Key, dict[int, Gained]] = defaultdict(dict)
    for row in sums.filter(pc.equal(sums["kind"], COUNTER)).to_pylist():
        key, bucket = (row["series"], row["metric"], row["unit"]), micros_of(row["bucket"])
        gained = Gained(row["values"], row["increase"], row["increase_s"], _stretch(row) if "first" in row else None)
        before = found[key].get(bucket)
        found[key][bucket] = gained if before is None else before + gained
    return found


def _stretch(row: Mapping[str, Any]) -> Stretch:
    return Stretch(micros_of(row["first_at"]), micros_of(row["last_at"]), row["first"], row["last"])
