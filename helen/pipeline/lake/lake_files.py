"""Reads files of the lake in tasks, each known with the ranges that it may hold, so that few need be opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from attrs import frozen

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import micros_of
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.schema import TIME, Table
from helen.pipeline.lake.stores import filesystem, is_stored

MOST = 2**31 - 1  # the highest number of a series
NEVER = 2**62


@frozen
class Held:
    """Names a file, and the ranges of its series and (of a rollup, in microseconds) its buckets, both ends included."""

    path: str
    rows: int
    lowest: int
    highest: int
    begin: int = -NEVER
    end: int = NEVER

    def may_hold(self, lowest: int, highest: int) -> bool:
        """Return True if rows of any of these series may be in it."""
        return self.lowest <= highest and self.highest >= lowest


def held(lake: Lake, table: str, files: Iterable[File]) -> list[Held]:
    """Return files of a table with their whole paths and their ranges."""
    base, found = lake.path(table), []
    for file in files:
        series = file.lowest.get("series"), file.highest.get("series")
        times = file.lowest.get("bucket"), file.highest.get("bucket")
        ranges = series if None not in series else (0, MOST)  # what the log knows no range of may hold anything
        spans = tuple(micros_of(time) for time in times) if None not in times else (-NEVER, NEVER)
        found.append(Held(str(base / file.path), file.rows, *ranges, *spans))  # type: ignore[misc]
    return found


def may_repeat(files: Sequence[Held]) -> bool:
    """Return True if two of these files may have rows of one bucket: of series and times in both. One has none."""
    open_ones: list[Held] = []
    for file in sorted(files, key=lambda each: each.lowest):
        open_ones = [each for each in open_ones if each.highest >= file.lowest]
        if any(each.begin <= file.end and each.end >= file.begin for each in open_ones):
            return True
        open_ones.append(file)
    return False


def between(lowest: int, highest: int) -> Any:
    """Return the condition for rows of these series."""
    return (pc.field("series") >= lowest) & (pc.field("series") <= highest)


def read(table: Table, paths: Sequence[str], columns: Sequence[str], wanted: Any) -> pa.Table:
    """Return the rows of these files that meet a condition, read on one core: a task has no more. Raises OSError."""
    if not paths:
        return pa.schema([table.columns.field(name) for name in columns]).empty_table()
    return dataset(table, paths).to_table(list(columns), filter=wanted, use_threads=False)


def batches(table: Table, paths: Sequence[str], columns: Sequence[str], wanted: Any) -> Iterator[pa.RecordBatch]:
    """Yield the same rows as `read` piece by piece."""
    if paths:
        yield from dataset(table, paths).to_batches(list(columns), filter=wanted, use_threads=False)


def dataset(table: Table, paths: Sequence[str], words: Sequence[str] = ()) -> Any:
    """Return these files of a table as one Arrow dataset. All are Parquet, or all are Arrow's own (`.arrow`).

    Columns of `words` come as dictionaries, which takes half the work of reading texts.
    """
    codes = pa.dictionary(pa.int32(), pa.string())
    columns = [column.with_type(codes) if column.name in words else column for column in table.columns]
    reading: Any = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=list(words)))
    if paths and paths[0].endswith(".arrow"):
        reading = ds.IpcFileFormat()
    names, place = list(paths), None
    if paths and is_stored(paths[0]):
        names, place = [filesystem(path)[1] for path in paths], filesystem(paths[0])[0]
    return ds.dataset(names, schema=pa.schema(columns), format=reading, filesystem=place)


def instant(micros: int) -> pa.Scalar:
    """Return a time, in microseconds since 1970, as a literal for conditions."""
    return pa.scalar(micros, pa.int64()).cast(TIME)
