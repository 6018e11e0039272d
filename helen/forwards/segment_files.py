"""Reads the files of one kind of segment in their order, a few rows at a time. It blocks, and is for a thread.

A file is read as a stream: its rows are never in memory as a whole, however many metrics they have.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from attrs import define

from helen.journal import lazy_parquet as pq
from helen.journal.unread import is_of_content

ROWS = 500  # of one batch: its metrics are counted before anything is made of them
READ_BYTES = 8_388_608  # of one batch, by the average of its file: results may have a megabyte each


@define(eq=False)
class SegmentFiles:
    """Reads `KIND-NNNNNNNN.parquet` from `number` on, 0 for the oldest there is; rows up to `at` are passed over."""

    folder: Path
    kind: str
    columns: list[str]
    number: int
    at: int
    lost: int = 0
    fault: str | None = None  # of the newest file that was lost
    _reader: Iterator[pa.RecordBatch] | None = None
    _rows: pa.RecordBatch | None = None

    def peek(self, newest: int) -> pa.RecordBatch | None:
        """Return rows that were not taken yet, the oldest first; None: all files up to the number `newest` are done."""
        while True:
            if self._rows is not None and self._rows.num_rows:
                return self._rows
            if self._reader is None and not self._open(newest):
                return None
            self._rows = self._next()

    def take(self, rows: int) -> None:
        """Count the first rows of what `peek` returned as taken. A file that ends with them is done at once."""
        if self._rows is not None and rows:
            self.at = self._rows.column(0)[rows - 1].as_py()
            left = self._rows.slice(rows)
            self._rows = left if left.num_rows else self._next()

    def _next(self) -> pa.RecordBatch | None:
        assert self._reader is not None
        try:
            batch = next(self._reader, None)
        except (OSError, pa.ArrowException) as error:
            self._lose_broken(error)
            batch = None
        if batch is None:
            self._reader = None
            self.number += 1
            return None
        return batch.slice(bisect_right(batch.column(0).to_pylist(), self.at))

    def _open(self, newest: int) -> bool:
        """Open the next file. Returns False if there is none yet."""
        while self.number <= newest:
            if self.number == 0 or not self._path().exists():
                oldest = self._oldest(newest)
                if self.number:
                    self._lose(oldest - self.number, f"{self._path().name} was deleted before it was sent")
                self.number = oldest
                continue
            try:
                file = pq.ParquetFile(self._path())
                self._reader = file.iter_batches(_rows_at_once(file.metadata), columns=self.columns)
                return True
            except (OSError, pa.ArrowException) as error:
                self._lose_broken(error)
                self.number += 1
        return False

    def _oldest(self, newest: int) -> int:
        """Return the number of the first file that is there from `number` on; the next one to come if none is."""
        form = re.compile(rf"{self.kind}-([0-9]{{8,}})\.parquet")
        found = [int(match[1]) for name in os.listdir(self.folder) if (match := form.fullmatch(name))]
        return min((each for each in found if each >= max(1, self.number)), default=newest + 1)

    def _lose_broken(self, error: Exception) -> None:
        """Count a file that will never be read. Raises the error if it may pass."""
        if not is_of_content(error):
            raise error
        self._lose(1, f"{self._path().name} can't be read: {error}")

    def _lose(self, files: int, fault: str) -> None:
        self.lost += files
        self.fault = fault

    def _path(self) -> Path:
        return self.folder / f"{self.kind}-{self.number:08}.parquet"


def _rows_at_once(metadata: Any) -> int:
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    rows: int = READ_BYTES * metadata.num_rows // max(1, size)
    return max(1, min(ROWS, rows))
