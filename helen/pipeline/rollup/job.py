"""Makes rows of rollups in Spark's workers: longer buckets from a finer table, and days put together.

A dirty (series, bucket) is computed anew from everything that the source has of it. So a result that comes seven days
late costs one hour and one day of one series, and doing it twice changes nothing. Rows of such a bucket in an older
file are taken out of it in the same entry of the log: each row of a file that counts counts.

A task has a range of series, reads the rows that the lake holds of them, and writes files. arrow.py has the arithmetic,
following.py says which buckets are dirty.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, NEVER, Held, between, held, instant, read
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.schema import WRITTEN, Table
from helen.pipeline.rollup.adding import NOWHERE, Adding, only_added
from helen.pipeline.rollup.arrow import merge, newest
from helen.pipeline.rollup.live_rows import Buckets, count_gone, write_rest
from helen.pipeline.rollup.segment_rows import micros
from helen.pipeline.rollup.splitting import split

ROWS_PER_PART = 1_000_000  # of the finer table: 500 MB in a worker while they are sorted
LITTLE_ROWS = 400_000  # that are put together in the driver: 200 MB
SAMPLED = 64  # of so many rows one is looked at
FEW_BUCKETS = 32  # that are named one by one where they are read
KEPT = "kept"  # in place of a table's name: what stays of a file that is replaced

Array = Any  # of numpy


@frozen
class Task:
    """Turns numbers of parts into files of `target`. `bounds`: the lowest and the highest series of each part.

    Where `target` is the source itself its rows are put together. `fresh`: only buckets that these files touch, with
    this `version`; what the files `old` have of them goes. An old file without any of them is left alone, unless there
    are several parts: then each rewrites its series of `every` one. Where rows are only added (`adding`), those of the
    new files are all that is read. A source of an older format `has_old_rows`, which don't count.
    """

    source: Table
    target: Table
    files: Sequence[Held]
    bounds: Sequence[tuple[int, int]]
    staged: str
    fresh: Sequence[Held] | None = None
    version: int | None = None
    old: Sequence[Held] = ()
    adding: Adding = NOWHERE
    has_old_rows: bool = False

    @property
    def level(self) -> Level:
        """Return the level that the job writes."""
        return level_of(self.target)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for part in batch.column(0).to_pylist() for row in self._part(part)]
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)

    def _part(self, part: int) -> Iterator[dict[str, Any]]:
        lowest, highest = self.bounds[part]
        files, dirty = [file for file in self.files if file.may_hold(lowest, highest)], None
        if self.fresh is None:
            rows = self._read(files, between(lowest, highest))
        else:
            dirty, rows = self._dirty(lowest, highest), self._added(lowest, highest)
            if dirty is not None:
                rows = pa.concat_tables([rows, self._touched(dirty)])
        made = self._made(rows)
        target = Path(self.staged) / uuid.uuid4().hex
        for path in write_days(self.target, made, target, is_final=self.fresh is None):
            yield _row(self.target.name, str(path))
        for old in self.old:
            if old.may_hold(lowest, highest):
                yield from self._rest(old, dirty, between(lowest, highest))

    def _made(self, rows: pa.Table) -> pa.Table:
        """Return these rows of the source as rows of the target."""
        is_same = self.version is None
        made = newest(rows) if is_same and self.has_old_rows else merge(rows, self.level)
        if "day" not in made.schema.names:
            made = made.append_column("day", pc.cast(made["bucket"], pa.date32(), safe=False))
        if is_same:
            return made
        made = made.drop_columns(["version"]) if "version" in made.schema.names else made
        return made.append_column("version", pa.repeat(pa.scalar(self.version, pa.int64()), made.num_rows))

    def _dirty(self, lowest: int, highest: int) -> Buckets | None:
        """Return the buckets to make anew: those in which the new files have anything of these series; None: none."""
        assert self.fresh is not None
        fresh = [file.path for file in self.fresh if file.may_hold(lowest, highest)]
        new = read(self.source, fresh, ["series", "bucket"], between(lowest, highest))
        if self.adding.spans:
            new = new.filter(pa.array(~self.adding.hold(micros(new["bucket"]))))
        return Buckets.of(new, self.level) if new.num_rows else None

    def _added(self, lowest: int, highest: int) -> pa.Table:
        """Return the rows of the new files that are only added."""
        if self.fresh is None or not self.adding.spans:
            return self.source.columns.empty_table()
        fresh = [file for file in self.fresh if file.may_hold(lowest, highest) and self.adding.touches(file)]
        return self._read(fresh, between(lowest, highest) & self.adding.wanted())

    def _touched(self, dirty: Buckets) -> pa.Table:
        """Return everything that the source has of these buckets."""
        wanted = between(dirty.lowest, dirty.highest) & _within(dirty.places, self.level)
        near = [file for file in self.files if file.begin < dirty.end and file.end >= dirty.begin]
        rows = self._read([file for file in near if file.may_hold(dirty.lowest, dirty.highest)], wanted)
        rows = newest(rows) if self.has_old_rows else rows
        return rows.filter(pa.array(dirty.hold(rows)))

    def _rest(self, old: Held, dirty: Buckets | None, wanted: Any) -> Iterator[dict[str, Any]]:
        """Yield the file with what stays of an old one, or a row without a path where nothing does."""
        every = len(self.bounds) > 1
        if not every and (dirty is None or old.begin >= dirty.end or old.end < dirty.begin):
            return
        gone = nothing if dirty is None else dirty.hold
        rows, dropped = count_gone(self.target, old.path, ["series", "bucket"], wanted, gone)
        if not dropped and not every:
            return
        path = Path(self.staged) / uuid.uuid4().hex / Path(old.path).parent.name / "part.parquet"
        if rows > dropped:
            write_rest(self.target, old.path, wanted, gone, path)
        yield _row(KEPT, str(path) if rows > dropped else None, old.path)

    def _read(self, files: Sequence[Held], wanted: Any) -> pa.Table:
        return read(self.source, [file.path for file in files], self.source.columns.names, wanted)


def _row(table: str, path: str | None, of: str = "") -> dict[str, Any]:
    return {"table": table, "path": path, "helen": 0, "segment": 0, "folder": of}


def nothing(rows: pa.RecordBatch) -> Array:
    """Return False for each row: it stays."""
    return np.zeros(rows.num_rows, bool)


def level_of(table: Table) -> Level:
    """Return the level of a rollup's table."""
    assert table.level is not None, f"{table.name} is no rollup"
    return table.level


def _within(places: Array, level: Level) -> Any:
    """Return the condition for rows of these buckets; where they are many, of all from the first to the last."""
    spans = [(place, place + 1) for place in places.tolist()]
    if len(spans) > FEW_BUCKETS:
        spans = [(spans[0][0], spans[-1][1])]
    conditions = [
        (pc.field("bucket") >= instant(level.time(begin))) & (pc.field("bucket") < instant(level.time(end)))
        for begin, end in spans
    ]
    wanted = conditions[0]
    for each in conditions[1:]:
        wanted |= each
    return wanted


@frozen
class Made:
    """Holds staged files: new ones, and (file or None, whole path of an old one) for what stays of each old one.

    The rows of `adding` files take the place of no others.
    """

    paths: list[Path]
    kept: list[tuple[Path | None, str]]
    adding: frozenset[Path] = frozenset()


def stage(
    spark: SparkSession, lake: Lake, source: str, target: str, files: Sequence[File],
    fresh: Sequence[File] | None = None, version: int | None = None,
) -> list[Path]:  # fmt: skip
    """Make rows of `target` from these files of `source` (Task says how) and return the staged files."""
    return make(spark, lake, source, target, files, fresh, version).paths


def make(
    spark: SparkSession, lake: Lake, source: str, target: str, files: Sequence[File],
    fresh: Sequence[File] | None = None, version: int | None = None, old: Sequence[File] = (), adding: Adding = NOWHERE,
) -> Made:  # fmt: skip
    """Do the same, and take the buckets that are made anew out of the files `old` of the target.

    Where rows are only `adding`, they take nothing out.
    """
    new = None if fresh is None else held(lake, source, fresh)
    if new == []:
        return Made([], [])
    sources, to = held(lake, source, files), lake.tables[target]
    before = held(lake, target, old)
    if new is not None:
        sources, before = _near(sources, before, new, adding, level_of(to))
    with lake.turn:
        has_old_rows = not lake.is_live(source)
    rows, of = sum(file.rows for file in sources), lake.tables[source]
    bounds = bounds_of(of, sources, -(-rows // ROWS_PER_PART))
    staged, pieces = str(lake.staging(target)), lake.staging(target)
    wanted = None if new is None else _from_first_to_last(new, level_of(to))
    rows += sum(file.rows for file in before)
    with split(spark, of, sources, new, bounds, pieces, wanted) as parts:
        task = Task(of, to, parts.files, bounds, staged, parts.fresh, version, before, adding, has_old_rows)
        written = run_parts(spark, task, len(bounds), rows, LITTLE_ROWS)
    paths = sorted(Path(row["path"]) for row in written if row["table"] == target)
    kept = [(Path(row["path"]) if row["path"] else None, row["folder"]) for row in written if row["table"] == KEPT]
    return Made(paths, kept, frozenset(only_added(paths, adding)))


def _near(
    sources: Sequence[Held], old: Sequence[Held], fresh: Sequence[Held], adding: Adding, level: Level
) -> tuple[list[Held], list[Held]]:
    """Return the files of a source and of the target that share buckets to be made anew with the new files.

    New files of which all rows are added are among the first ones.
    """
    rests = [rest for file in fresh if (rest := adding.rest(file)) is not None]
    paths, near, before = {file.path for file in fresh}, list[Held](), list[Held]()
    if rests:
        begin = level.start(min(first for first, _ in rests))
        end = level.start(max(last for _, last in rests)) + level.step
        near, before = _within_span(sources, begin, end), _within_span(old, begin, end)
    there = {file.path for file in near}
    return [*near, *(file for file in sources if file.path in paths - there)], before


def _from_first_to_last(new: Sequence[Held], level: Level) -> Any:
    """Return the condition for rows of all buckets that these new files may touch; None: any, as a range lacks."""
    begin, end = min(file.begin for file in new), max(file.end for file in new)
    if begin <= -NEVER or end >= NEVER:
        return None
    span = instant(level.start(begin)), instant(level.start(end) + level.step)
    return (pc.field("bucket") >= span[0]) & (pc.field("bucket") < span[1])


def _within_span(files: Sequence[Held], begin: int, end: int) -> list[Held]:
    return [file for file in files if file.begin < end and file.end >= begin]


def bounds_of(of: Table, files: Sequence[Held], count: int) -> list[tuple[int, int]]:
    """Return ranges of series with about as many rows each. Numbers only rise: old ones have next to nothing."""
    if count <= 1:
        return [(0, MOST)]
    sampled = [_series(of, file)[SAMPLED // 2 :: SAMPLED] for file in files]
    sample = np.sort(np.concatenate(sampled))
    edges = np.unique(sample[np.arange(1, count) * len(sample) // count]) if len(sample) else []
    return [(begin, end - 1) for begin, end in pairwise([0, *(int(edge) for edge in edges if edge > 0), MOST + 1])]


def _series(of: Table, file: Held) -> Array:
    return read(of, [file.path], ["series"], None)["series"].drop_null().to_numpy()
