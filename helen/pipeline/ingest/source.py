"""Provides Spark's data source `helen`: segments of results of one or many Helens, for batches and for streams.

    spark.dataSource.register(HelenSource)
    spark.read.format("helen").load(HISTORY)                          every segment that is there
    spark.readStream.format("helen").option(...).load(HISTORY)        from `start` on

With `rows` = `segments` there is one row per segment (helen, segment, folder), and no file is opened: the pipeline's
tasks read them in Arrow, since turning a million wide rows into JVM rows and back costs ten times as much as the work
on them. With `rows` = `results`, the default, there is one row per result, for questions in SQL.

Options: `histories` (JSON list of folders, instead of the path), `helens` (JSON list of their numbers in the lake),
`start` and, for batches, `end` (JSON objects: number of a Helen -> the last segments that are done, and those that come
last), `maxSegments` in a micro-batch, `perTask` segments of a task, `cores` (then there are as many tasks, of `perTask`
segments or more), `commit` (true: tell Helen how far the lake is, so that it may delete segments).

offsets.py decides which segments come when. Arrow batches go to the JVM as they are: rows as tuples cost eleven times
as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from helen.pipeline.ingest.histories import CHANGES, RESULTS, History
from helen.pipeline.ingest.offsets import EVERYTHING, Offset, Options, Part, initial, latest, ranges, read
from helen.pipeline.lake.schema import SEGMENTS, SOURCE
from helen.pipeline.worker_memory import MODULES


class Segments(InputPartition):  # type: ignore[misc]
    """Wraps the part of a task for Spark."""

    def __init__(self, part: Part) -> None:
        self.part = part


class HelenSource(DataSource):  # type: ignore[misc]
    """Makes readers from the options of a query."""

    @classmethod
    def name(cls) -> str:
        return "helen"

    def schema(self) -> str:
        return (SEGMENTS if Options(self.options).segments else SOURCE).ddl

    def reader(self, schema: Any) -> HelenBatch:
        return HelenBatch(Options(self.options))

    def streamReader(self, schema: Any) -> HelenStream:
        return HelenStream(Options(self.options))


class HelenBatch(DataSourceReader):  # type: ignore[misc]
    """Reads everything that is there, or everything after `start` and up to `end`."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of the tasks."""
        start = initial(self._options)
        end = self._options.end or latest(self._options, start, EVERYTHING)
        return [Segments(part) for part in ranges(self._options, start, end)]

    def read(self, partition: Segments | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Where there are no parts Spark asks for those of None."""
        return iter(()) if partition is None else read_sparing(partition.part, self._options.segments)


class HelenStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads a stream. Offsets are the numbers of segments, so a batch that is done again reads the same rows."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._until: Offset | None = None

    def initialOffset(self) -> Offset:
        return initial(self._options)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self._options.max_segments)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = latest(self._options, initial(self._options), EVERYTHING)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next micro-batch."""
        most = EVERYTHING if isinstance(limit, ReadAllAvailable) else self._options.max_segments
        return latest(self._options, start, most, self._until)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return [Segments(part) for part in ranges(self._options, start, end)]

    def read(self, partition: Segments) -> Iterator[pa.RecordBatch]:
        return read_sparing(partition.part, self._options.segments)

    def commit(self, end: Offset) -> None:
        """Tell each Helen how far the lake is. Spark calls it once the batch up to `end` is done for good."""
        if self._options.commit:
            for helen, folder in self._options.histories.items():
                for kind in (RESULTS, CHANGES):
                    History(Path(folder)).commit(kind, end.get(helen, {}).get(kind, 0))


def read_sparing(part: Part, segments: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, in a worker of its own: it spares its modules the search for garbage as others do."""
    yield from read(part, segments)
    MODULES.spare()
