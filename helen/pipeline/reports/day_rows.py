"""Keeps the rows of a report by days in a file, so that a month of all checks takes no more memory than a day.

    rows = DayRows(days, parts, series)
    rows.add(batch)         for each part, in order: all days of its checks, one check after the other
    for row in rows: ...    by name and day, as often as needed

The file is Arrow's, mapped into memory, and has no name: it is gone with the process.
"""

from __future__ import annotations

import itertools
import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helen.pipeline.lake.local_days import Day
from helen.pipeline.lake.schema import AVAILABILITY

ROW = AVAILABILITY.columns
ROWS_AT_ONCE = 10_000
Row = Mapping[str, Any]
Array = Any  # of numpy


class RowsAnew(Sequence[Row]):
    """Makes rows anew each time that they are read, so that they are never all in memory.

    To take one by its place reads those before it.
    """

    def __init__(self, make: Callable[[], Iterator[Row]], count: int) -> None:
        self._make, self._count = make, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        return self._make()

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, slice):
            return list(itertools.islice(self, *place.indices(self._count)))
        at = range(self._count)[place]
        return next(itertools.islice(self, at, None))


class DayRows(RowsAnew):
    """Holds a row of availability_daily for each check and day in a file. `parts` have rising numbers of series.

    `series` is number -> agent, check_id. Rows are added before any is read.
    """

    def __init__(self, days: Sequence[Day], parts: Sequence[Array], series: Mapping[int, tuple[str, str]]) -> None:
        super().__init__(self._rows, sum(map(len, parts)) * len(days))
        self.days = days
        self._numbers = np.concatenate([*parts, np.array([], np.int32)])
        self._begins = np.cumsum([0, *map(len, parts)])
        self._series = series
        self._file = tempfile.TemporaryFile(prefix="helen-report-")  # noqa: SIM115 - it is read as long as this is there
        self._writer: pa.ipc.RecordBatchFileWriter | None = pa.ipc.new_file(self._file, ROW)
        self._reader: pa.ipc.RecordBatchFileReader | None = None
        weakref.finalize(self, self._file.close)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the rows of the next part."""
        assert self._writer is not None
        self._writer.write_batch(rows)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all rows."""
        return sum(batch.nbytes for batch in self._batches())

    def by_day(self) -> Iterator[tuple[date, pa.Table]]:
        """Yield each date with its rows, by the number of their series."""
        count = len(self.days)
        for at, day in enumerate(self.days):
            chosen = (batch.take(pa.array(np.arange(at, batch.num_rows, count))) for batch in self._batches())
            yield day.date, pa.Table.from_batches(chosen, ROW)

    def missing(self, target: float) -> int:
        """Return how many rows have less per cent than this."""
        found = (pc.sum(pc.less(batch["percent"], target)).as_py() for batch in self._batches())
        return sum(each or 0 for each in found)

    def checks(self) -> Iterator[list[dict[str, Any]]]:
        """Yield all days of a check, check by check in the order of their names. ROWS_AT_ONCE are read at a time."""
        count, batches = len(self.days), self._opened()
        numbers = self._numbers.tolist()
        order = np.array(sorted(range(len(numbers)), key=lambda at: self._series[numbers[at]]), np.int64)
        parts = np.searchsorted(self._begins, order, "right") - 1
        ends = np.append(np.flatnonzero(np.diff(parts)) + 1, len(order))
        for begin, end in itertools.pairwise([0, *ends.tolist()]):
            at_once = max(1, ROWS_AT_ONCE // count)
            for first in range(begin, end, at_once):
                places = order[first : min(first + at_once, end)] - self._begins[parts[first]]
                chosen = (places[:, None] * count + np.arange(count)).ravel()
                rows = batches.get_batch(int(parts[first])).take(pa.array(chosen)).to_pylist()
                yield from (rows[at : at + count] for at in range(0, len(rows), count))

    def _rows(self) -> Iterator[Row]:
        return itertools.chain.from_iterable(self.checks())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        opened = self._opened()
        return (opened.get_batch(at) for at in range(opened.num_record_batches))

    def _opened(self) -> pa.ipc.RecordBatchFileReader:
        if self._reader is None:
            assert self._writer is not None
            self._writer.close()
            self._writer = None
            self._file.flush()
            whole = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(whole))
        return self._reader


def by_day(rows: Iterable[Row]) -> Iterator[tuple[date, pa.Table]]:
    """Yield each date of rows of availability_daily with its rows."""
    ordered = sorted(rows, key=lambda row: row["date"])
    for day, some in itertools.groupby(ordered, key=lambda row: row["date"]):
        yield day, pa.Table.from_pylist(list(some), ROW)
