"""Makes rollups: longer buckets wherever new rows have touched one, and days put together. Runs in Spark's workers.

`cascade` brings each level up to its source. A dirty (series, bucket) is computed anew from everything that the source
has of it, and appended with a higher `version`: the newest version counts. So a result that comes seven days late costs
one hour and one day of one series, and doing it twice changes nothing.

A task has a range of series, reads the rows that the lake holds of them, and writes files. arrow.py has the arithmetic.
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

from helen.pipeline.lake.damaged_files import Damage, unreadable
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.lake import File, Lake
from helen.pipeline.lake.lake_files import MOST, Held, between, held, instant, read
from helen.pipeline.lake.levels import Level, derived
from helen.pipeline.lake.schema import WRITTEN, Table
from helen.pipeline.rollup.arrow import merge, newest
from helen.pipeline.rollup.segment_rows import micros

ROWS_PER_PART = 1_000_000  # of the finer table: 500 MB in a worker while they are sorted
LITTLE_ROWS = 400_000  # that are put together in the driver: 200 MB
SAMPLED = 64  # of so many rows one is looked at
FEW_BUCKETS = 32  # that are named one by one where they are read
_FIRST_PART = pa.RecordBatch.from_pydict({"id": [0]})

Array = Any  # of numpy


@frozen
class Task:
    """Turns numbers of parts into files of `target`. `bounds`: the lowest and the highest series of each part.

    Where `target` is the source itself its rows are put together. `fresh`: only buckets that these files touch, with
    this `version`.
    """

    source: Table
    target: Table
    files: Sequence[Held]
    bounds: Sequence[tuple[int, int]]
    staged: str
    fresh: Sequence[Held] | None = None
    version: int | None = None

    @property
    def level(self) -> Level:
        """The level of the target."""
        return level_of(self.target)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        paths = [path for batch in batches for part in batch.column(0).to_pylist() for path in self._part(part)]
        rows = [{"table": self.target.name, "path": str(path), "helen": 0, "segment": 0, "folder": ""}
                for path in paths]  # fmt: skip
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)

    def _part(self, part: int) -> list[Path]:
        lowest, highest = self.bounds[part]
        files = [file for file in self.files if file.may_hold(lowest, highest)]
        rows = self._read(files, between(lowest, highest)) if self.fresh is None else self._touched(files, part)
        made = newest(rows) if self.version is None and has_versions(rows) else merge(rows, self.level)
        if "day" not in made.schema.names:
            made = made.append_column("day", pc.cast(made["bucket"], pa.date32(), safe=False))
        if self.version is not None:
            made = made.append_column("version", pa.repeat(pa.scalar(self.version, pa.int64()), made.num_rows))
        return write_days(self.target, made, Path(self.staged) / uuid.uuid4().hex, is_final=self.fresh is None)

    def _touched(self, files: Sequence[Held], part: int) -> pa.Table:
        """Return everything that the source has of the buckets in which the new files have anything."""
        assert self.fresh is not None
        level = self.level
        lowest, highest = self.bounds[part]
        fresh = [file.path for file in self.fresh if file.may_hold(lowest, highest)]
        new = read(self.source, fresh, ["series", "bucket"], between(lowest, highest))
        if not new.num_rows:
            return self.source.columns.empty_table()
        dirty = np.unique(np.stack([new["series"].to_numpy(), level.place(micros(new["bucket"]))]), axis=1)
        places = np.unique(dirty[1])
        wanted = between(lowest, highest) & _within(places, level)
        begin, end = level.time(int(places[0])), level.time(int(places[-1]) + 1)
        rows = self._read([file for file in files if file.begin < end and file.end >= begin], wanted)
        rows = newest(rows) if has_versions(rows) else rows
        found, base = level.place(micros(rows["bucket"])) - places[0], int(places[-1] - places[0]) + 1
        keys = rows["series"].to_numpy().astype(np.int64) * base + found
        return rows.filter(pa.array(np.isin(keys, dirty[0] * base + dirty[1] - places[0])))

    def _read(self, files: Sequence[Held], wanted: Any) -> pa.Table:
        return read(self.source, [file.path for file in files], self.source.columns.names, wanted)


def has_versions(rows: pa.Table) -> bool:
    """Return True for rows of which only the newest of each bucket counts; others add up."""
    return "version" in rows.schema.names


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


def cascade(spark: SparkSession, lake: Lake, levels: Iterable[Level] | None = None) -> dict[str, int]:
    """Bring these levels, by default all, up to their sources. Returns the rows written: {"h1": 60, "d1": 12}.

    Files that can't be read are left out, and named at the end. Raises LakeDamaged.
    """
    chosen, damage = derived(lake.levels) if levels is None else levels, Damage()
    found = {level.name: _follow(spark, lake, level, damage) for level in chosen}
    damage.tell()
    return found


def _follow(spark: SparkSession, lake: Lake, level: Level, damage: Damage) -> int:
    assert level.source is not None
    transaction = f"cascade:{level.source}"
    done, files = lake.done(level.name, transaction), lake.files(level.source)
    fresh = [file for file in files if file.fresh and file.version + 1 > done]
    if not fresh:
        return 0
    version = max(file.version for file in fresh) + 1
    days = {near for file in fresh if file.day is not None for near in level.days_near(file.day)}
    near = [file for file in files if file.day in days]

    def work(sound: Sequence[File]) -> list[Path]:
        """Stage the level's rows from these files of its source."""
        paths = {file.path for file in sound}
        new = [file for file in fresh if file.path in paths]
        return stage(spark, lake, level.source or "", level.name, sound, new, version) if new else []

    staged = damage.without(lake, level.source, near, work)
    if staged is None:
        staged = work([file for file in near if unreadable(lake, level.source, file) is None])
    return lake.publish(level.name, staged, {transaction: version})


def stage(
    spark: SparkSession, lake: Lake, source: str, target: str, files: Sequence[File],
    fresh: Sequence[File] | None = None, version: int | None = None,
) -> list[Path]:  # fmt: skip
    """Make rows of `target` from these files of `source` (Task says how) and return the staged files.

    They are written by Spark's workers, or in this process where there is little: that costs less than to start a
    worker.
    """
    new = None if fresh is None else held(lake, source, fresh)
    sources, to = held(lake, source, files), lake.tables[target]
    if new is not None:
        sources = _near(sources, new, level_of(to))
    rows, of = sum(file.rows for file in sources), lake.tables[source]
    bounds = bounds_of(of, sources, -(-rows // ROWS_PER_PART))
    task = Task(of, to, sources, bounds, str(lake.staging(target)), new, version)
    count = len(task.bounds)
    if count == 1 and rows <= LITTLE_ROWS:
        paths = [row["path"] for made in task([_FIRST_PART]) for row in made.to_pylist()]
        pa.default_memory_pool().release_unused()
    else:
        paths = spark.range(0, count, 1, count).mapInArrow(task, WRITTEN.ddl).toArrow()["path"].to_pylist()
    return sorted(Path(path) for path in paths)


def _near(files: Sequence[Held], fresh: Sequence[Held], level: Level) -> list[Held]:
    """Return those that may hold rows of a bucket that the new ones touch: of a day that goes on, its last hour."""
    begin = level.start(min(file.begin for file in fresh))
    end = level.start(max(file.end for file in fresh)) + level.step
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
