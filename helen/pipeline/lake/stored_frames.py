"""Gives Spark the files of a table as a frame, and has it write one, wherever the lake is.

On a file system Spark's own reader and writer do it. pyspark from PyPI has no jars for any object store: there tasks
read and write by Arrow. They read all columns, and no filter is pushed down into them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from attrs import frozen

from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.places import parquet_file
from helen.pipeline.lake.schema import WRITTEN, Table
from helen.pipeline.lake.stores import is_stored
from helen.pipeline.worker_memory import GivingBack

if TYPE_CHECKING:  # a process that only reads needs no Spark
    from pyspark.sql import DataFrame, SparkSession

MOST_TASKS = 64  # a file or more for each: what else a job of small files costs is their number


@frozen
class ReadTask:
    """Turns paths into the rows of these files, with the day that the name of their folder says."""

    table: Table

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                yield from self._rows(Path(path))

    def _rows(self, path: Path) -> Iterator[pa.RecordBatch]:
        schema = self.table.columns
        with parquet_file(path) as opened:
            known = [name for name in schema.names if name in opened.schema_arrow.names]
            for batch in opened.iter_batches(columns=known):
                columns = [
                    batch.column(each.name).cast(each.type)
                    if each.name in known
                    else pa.nulls(batch.num_rows, each.type)
                    for each in schema
                ]
                if self.table.by_day:
                    day = date.fromisoformat(path.parent.name.removeprefix("day="))
                    columns.append(pa.repeat(pa.scalar(day, pa.date32()), batch.num_rows))
                yield pa.RecordBatch.from_arrays(columns, schema=self.table.arrow)


@frozen
class WriteTask:
    """Writes rows of a table under a folder, and hands the files back."""

    table: Table
    target: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = []
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(self.table.arrow.names).cast(self.table.arrow)
            for path in write_days(self.table, table, Path(self.target) / uuid.uuid4().hex) if batch.num_rows else ():
                rows.append({"table": self.table.name, "path": str(path), "helen": 0, "segment": 0, "folder": ""})
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)


def frame_of(spark: SparkSession, table: Table, base: Path, paths: Sequence[Path]) -> DataFrame:
    """Return these files below `base` as a frame."""
    if not paths:
        return spark.createDataFrame([], table.ddl)
    if not is_stored(base):
        reader = spark.read.schema(table.ddl).option("basePath", str(base))
        return reader.parquet(*map(str, paths))
    named = spark.createDataFrame([(str(path),) for path in paths], "path string")
    return named.repartition(min(len(paths), MOST_TASKS)).mapInArrow(GivingBack(ReadTask(table)), table.ddl)


def write_frame(frame: DataFrame, table: Table, target: Path) -> list[Path]:
    """Have Spark write a frame below a folder, and return the files."""
    shaped = frame.select(*table.arrow.names)
    if is_stored(target):
        task = GivingBack(WriteTask(table, str(target)))
        rows = shaped.mapInArrow(task, WRITTEN.ddl).toArrow().to_pylist()
        return sorted(Path(row["path"]) for row in rows)
    writer = shaped.write.partitionBy(*table.partitions) if table.by_day else shaped.write
    writer.parquet(str(target))
    return sorted(target.rglob("*.parquet"))
