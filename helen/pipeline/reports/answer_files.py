"""Has Spark's tasks write the rows of a frame into files, and reads them piece by piece: an answer of any size.

    rows = answer(spark, lake, frame)        the tasks have written by then
    for row in rows: ...                     as often as needed, in the order of the frame

A partition is a file, and a piece of it has PIECE_ROWS at most: the driver holds one. The files lie below TMPDIR where
all tasks are on this machine, else in the lake, which every worker sees; they go with their reader.
"""

from __future__ import annotations

import itertools
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from attrs import frozen
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from helen.pipeline.lake.answer_folders import new_folder
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.places import remove_tree
from helen.pipeline.lake.stores import filesystem
from helen.pipeline.reports.day_rows import Row, RowsAnew
from helen.pipeline.worker_memory import GivingBack, Task
from helen.pipeline.workers import HERE

PIECE_ROWS = 10_000
WRITTEN = pa.schema([("part", pa.int32()), ("path", pa.string()), ("rows", pa.int64())])
WRITTEN_DDL = "part int, path string, rows long"


@frozen
class WriteTask:
    """Writes the rows of a partition, or what a task makes of them, into a file below `target`, and names it."""

    target: str
    task: Task | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        path, count = Path(self.target) / f"{uuid.uuid4().hex}.arrow", 0
        made = pieces_of(batches if self.task is None else self.task(batches))
        first = next(made, None)
        if first is None:
            return
        store, name = filesystem(path)
        with store.open_output_stream(name) as file, pa.ipc.new_stream(file, first.schema) as writer:
            for piece in itertools.chain([first], made):
                writer.write_batch(piece)
                count += piece.num_rows
        yield pa.RecordBatch.from_pydict({"part": [part], "path": [str(path)], "rows": [count]}, schema=WRITTEN)


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in pieces of PIECE_ROWS at most, none of them empty."""
    for batch in batches:
        for begin in range(0, batch.num_rows, PIECE_ROWS):
            yield batch.slice(begin, PIECE_ROWS)


class AnswerRows(RowsAnew):
    """Holds an answer in files. `most` of its rows are read; a piece of them is in memory at a time."""

    def __init__(self, schema: pa.Schema, folder: Path, files: Sequence[tuple[str, int]], most: int | None) -> None:
        self.whole = sum(rows for _, rows in files)
        super().__init__(self._rows, self.whole if most is None else min(self.whole, most))
        self.schema = schema
        self._files = files
        weakref.finalize(self, remove_tree, folder)

    def pieces(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow has them. Raises OSError."""
        left = len(self)
        for path, _ in self._files:
            store, name = filesystem(path)
            with store.open_input_stream(name) as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    if left <= 0:
                        return
                    piece = batch.slice(0, left)
                    left -= piece.num_rows
                    yield piece.cast(self.schema)

    def _rows(self) -> Iterator[Row]:
        for piece in self.pieces():
            yield from piece.to_pylist()


def answer(
    spark: SparkSession, lake: Lake, frame: DataFrame, schema: pa.Schema | None = None, task: Task | None = None,
    most: int | None = None,
) -> AnswerRows:  # fmt: skip
    """Have Spark write the rows of a frame, or what a task makes of each partition of it, and return them.

    `schema` is that of the rows; by default the one that Spark gives the frame. `most` rows of them are read.
    """
    columns = frame.limit(0).toArrow().schema if schema is None else schema
    folder = _new_folder(spark, lake)
    try:
        written = frame.mapInArrow(GivingBack(WriteTask(str(folder), task)), WRITTEN_DDL).toArrow().to_pylist()
    except BaseException:
        remove_tree(folder)
        raise
    files = [(row["path"], row["rows"]) for row in sorted(written, key=lambda row: row["part"])]
    return AnswerRows(columns, folder, files, most)


def _new_folder(spark: SparkSession, lake: Lake) -> Path:
    if str(spark.conf.get("spark.master", "")).startswith(HERE):
        return Path(tempfile.mkdtemp(prefix="helen-answer-"))
    return new_folder(lake)
