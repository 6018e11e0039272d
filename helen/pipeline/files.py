"""Files of the lake as tasks read them: named, with what they may hold, so that most of them needn't be opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from attrs import frozen

from helen.pipeline.days import micros_of
from helen.pipeline.lake import File, Lake
from helen.pipeline.schema import TABLES, TIME

MOST = 2**31 - 1  # the highest number of a series
_NEVER = 2**62


@frozen
class Held:
    """A file, and the ranges of its series and (of a rollup, in microseconds) its buckets, both ends included."""

    path: str
    rows: int
    lowest: int
    highest: int
    begin: int = -_NEVER
    end: int = _NEVER

    def may_hold(self, lowest: int, highest: int) -> bool:
        """Any of these series."""
        return self.lowest <= highest and self.highest >= lowest


def held(lake: Lake, table: str, files: Iterable[File]) -> list[Held]:
    """With their whole paths."""
    base, found = lake.path(table), []
    for file in files:
        series = file.lowest.get("series"), file.highest.get("series")
        times = file.lowest.get("bucket"), file.highest.get("bucket")
        ranges = series if None not in series else (0, MOST)  # what the log knows no range of may hold anything
        spans = tuple(micros_of(time) for time in times) if None not in times else (-_NEVER, _NEVER)
        found.append(Held(str(base / file.path), file.rows, *ranges, *spans))  # type: ignore[misc]
    return found


def between(lowest: int, highest: int) -> Any:
    """Rows of these series."""
    return (pc.field("series") >= lowest) & (pc.field("series") <= highest)


def read(table: str, paths: Sequence[str], columns: Sequence[str], wanted: Any) -> pa.Table:
    """On one core: a task has no more."""
    if not paths:
        return pa.schema([TABLES[table].columns.field(name) for name in columns]).empty_table()
    return dataset(table, paths).to_table(list(columns), filter=wanted, use_threads=False)


def batches(table: str, paths: Sequence[str], columns: Sequence[str], wanted: Any) -> Iterator[pa.RecordBatch]:
    """The same piece by piece."""
    if paths:
        yield from dataset(table, paths).to_batches(list(columns), filter=wanted, use_threads=False)


def dataset(table: str, paths: Sequence[str]) -> Any:
    return ds.dataset(list(paths), schema=TABLES[table].columns, format="parquet")


def instant(micros: int) -> pa.Scalar:
    """A literal."""
    return pa.scalar(micros, pa.int64()).cast(TIME)
