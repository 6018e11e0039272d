"""What of rollups runs in Spark's workers: longer buckets for what new rows have touched, and days put together.

A task has a range of series, reads what the lake holds of them, and writes files. How rows become rows is sums.py.
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

from helen.pipeline.digest import SECOND, micros
from helen.pipeline.files import MOST, Held, between, held, instant, read
from helen.pipeline.lake import File, Lake
from helen.pipeline.parquet import write_days
from helen.pipeline.schema import TABLES, WRITTEN
from helen.pipeline.sums import merge, newest

ROWS_PER_PART = 1_000_000  # of the finer table: 500 MB in a worker while they are sorted
LITTLE_ROWS = 400_000  # that are put together in the driver: 200 MB
SAMPLED = 64  # of so many rows one is looked at
FEW_BUCKETS = 32  # that are named one by one where they are read
_FIRST_PART = pa.RecordBatch.from_pydict({"id": [0]})

Array = Any  # of numpy


@frozen
class Task:
    """Numbers of parts -> files of `to`. `bounds`: the lowest and the highest series of each part.

    `seconds`: of the buckets of `to`; None leaves them as they are, and takes the newest rows. `fresh`: only buckets
    that these files touch, with this `version`.
    """

    of: str
    to: str
    seconds: int | None
    files: Sequence[Held]
    bounds: Sequence[tuple[int, int]]
    staged: str
    fresh: Sequence[Held] | None = None
    version: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        paths = [path for batch in batches for part in batch.column(0).to_pylist() for path in self._part(part)]
        rows = [{"table": self.to, "path": str(path), "helen": 0, "segment": 0, "folder": ""} for path in paths]
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)

    def _part(self, part: int) -> list[Path]:
        lowest, highest = self.bounds[part]
        files = [file for file in self.files if file.may_hold(lowest, highest)]
        rows = self._read(files, between(lowest, highest)) if self.fresh is None else self._touched(files, part)
        made = newest(rows) if self.seconds is None else merge(rows, self.seconds)
        if "day" not in made.schema.names:
            made = made.append_column("day", pc.cast(made["bucket"], pa.date32(), safe=False))
        if self.version is not None:
            made = made.append_column("version", pa.repeat(pa.scalar(self.version, pa.int64()), made.num_rows))
        return write_days(self.to, made, Path(self.staged) / uuid.uuid4().hex, is_final=self.fresh is None)

    def _touched(self, files: Sequence[Held], part: int) -> pa.Table:
        """Everything that the finer table has of the buckets in which the new files have anything."""
        assert self.fresh is not None and self.seconds is not None
        lowest, highest = self.bounds[part]
        fresh = [file.path for file in self.fresh if file.may_hold(lowest, highest)]
        new = read(self.of, fresh, ["series", "bucket"], between(lowest, highest))
        if not new.num_rows:
            return TABLES[self.of].columns.empty_table()
        size = self.seconds * SECOND
        dirty = np.unique(np.stack([new["series"].to_numpy(), micros(new["bucket"]) // size]), axis=1)
        places = np.unique(dirty[1])
        wanted = between(lowest, highest) & _within(places, size)
        begin, end = int(places[0]) * size, (int(places[-1]) + 1) * size
        rows = self._read([file for file in files if file.begin < end and file.end >= begin], wanted)
        rows = rows if self.of == "m5" else newest(rows)
        found, base = micros(rows["bucket"]) // size - places[0], int(places[-1] - places[0]) + 1
        keys = rows["series"].to_numpy().astype(np.int64) * base + found
        return rows.filter(pa.array(np.isin(keys, dirty[0] * base + dirty[1] - places[0])))

    def _read(self, files: Sequence[Held], wanted: Any) -> pa.Table:
        return read(self.of, [file.path for file in files], TABLES[self.of].columns.names, wanted)


def _within(places: Array, size: int) -> Any:
    """Buckets of this size; where they are many, all from the first to the last."""
    spans = [(place, place + 1) for place in places.tolist()]
    if len(spans) > FEW_BUCKETS:
        spans = [(spans[0][0], spans[-1][1])]
    conditions = [
        (pc.field("bucket") >= instant(begin * size)) & (pc.field("bucket") < instant(end * size))
        for begin, end in spans
    ]
    wanted = conditions[0]
    for each in conditions[1:]:
        wanted |= each
    return wanted


def stage(
    spark: SparkSession, lake: Lake, of: str, to: str, seconds: int | None, files: Sequence[File],
    fresh: Sequence[File] | None = None, version: int | None = None,
) -> list[Path]:  # fmt: skip
    """Rows of `to` from these files of `of` (Task says how); the staged files.

    Written by Spark's workers, or here where there is little: that costs less than to start a worker.
    """
    new = None if fresh is None else held(lake, of, fresh)
    sources = held(lake, of, files)
    if new is not None and seconds is not None:
        sources = _near(sources, new, seconds * SECOND)
    rows = sum(file.rows for file in sources)
    task = Task(of, to, seconds, sources, _bounds(of, sources, -(-rows // ROWS_PER_PART)), str(lake.staging(to)),
                new, version)  # fmt: skip
    count = len(task.bounds)
    if count == 1 and rows <= LITTLE_ROWS:
        paths = [row["path"] for made in task([_FIRST_PART]) for row in made.to_pylist()]
        pa.default_memory_pool().release_unused()
    else:
        paths = spark.range(0, count, 1, count).mapInArrow(task, WRITTEN.ddl).toArrow()["path"].to_pylist()
    return sorted(Path(path) for path in paths)


def _near(files: Sequence[Held], fresh: Sequence[Held], size: int) -> list[Held]:
    """Those that may hold rows of a bucket that the new ones touch: of a day that goes on, its last hour."""
    begin = min(file.begin for file in fresh) // size * size
    end = (max(file.end for file in fresh) // size + 1) * size
    return [file for file in files if file.begin < end and file.end >= begin]


def _bounds(of: str, files: Sequence[Held], count: int) -> list[tuple[int, int]]:
    """Ranges of series that have about as many rows each. Numbers only rise: of old ones there is next to nothing."""
    if count <= 1:
        return [(0, MOST)]
    sampled = [_series(of, file)[SAMPLED // 2 :: SAMPLED] for file in files]
    sample = np.sort(np.concatenate(sampled))
    edges = np.unique(sample[np.arange(1, count) * len(sample) // count]) if len(sample) else []
    return [(begin, end - 1) for begin, end in pairwise([0, *(int(edge) for edge in edges if edge > 0), MOST + 1])]


def _series(of: str, file: Held) -> Array:
    return read(of, [file.path], ["series"], None)["series"].to_numpy()
