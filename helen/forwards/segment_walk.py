"""Walks through the history from a place on: results and changes in the order of the journal, a batch at a time.

It blocks, and is for a thread. Only what is sealed is read: each record has been durable for seconds, and a crash takes
nothing back that was sent.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from heapq import merge
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from helen.forwards import segment_rows
from helen.forwards.place import Place
from helen.forwards.records import Record
from helen.forwards.segment_files import SegmentFiles
from helen.forwards.segment_rows import Wanted
from helen.journal import lazy_parquet as pq
from helen.journal.values import Sealed

MOST_FIGURES = 2_000  # metrics of one batch, unless a single result has more: 300 KB on the wire before compression
NAMES_AT_ONCE = 2_000  # rows of the file of series: a millisecond


class SeriesNames:
    """Knows the names of series for all forwards, and reads the file again for a number that it has not."""

    def __init__(self, history: Path) -> None:
        self._path = history / "series.parquet"
        self._names: dict[int, tuple[str, str]] = {}
        self._read_at: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def of(self, series: int) -> tuple[str, str] | None:
        """Return agent and check of a series; None if the file has no such number."""
        found = self._names.get(series)
        return found if found is not None else self._read(series)

    def _read(self, series: int) -> tuple[str, str] | None:
        with self._lock:
            try:
                status = self._path.stat()
            except OSError:
                return None
            if self._read_at != (status.st_mtime_ns, status.st_ino):
                self._names, self._read_at = _read_names(self._path), (status.st_mtime_ns, status.st_ino)
            return self._names.get(series)


def _read_names(path: Path) -> dict[int, tuple[str, str]]:
    """Return agent and check of each series; nothing for a file that can't be read.

    A few rows at a time: Arrow lets no other thread run while it makes Python's values of a whole column.
    """
    found: dict[int, tuple[str, str]] = {}
    try:
        for batch in pq.ParquetFile(path).iter_batches(NAMES_AT_ONCE, columns=["series_id", "agent", "check_id"]):
            numbers, agents, checks = (column.to_pylist() for column in batch.columns)
            found.update(zip(numbers, zip(agents, checks, strict=True), strict=True))
    except (OSError, pa.ArrowException):
        return {}
    return found


@frozen
class Step:
    """Holds the wanted records of a part of the history, and the numbers of the place behind it."""

    records: Sequence[Record]
    place: Place
    lost: int = 0  # segments on the way that were gone, or could not be read
    fault: str | None = None  # about the newest of them


class SegmentWalk:
    """Walks from a place on, for one forward. `most`: metrics of one step, unless a single result has more."""

    def __init__(self, history: Path, place: Place, names: SeriesNames, most: int = MOST_FIGURES) -> None:
        folder = history / "segments"
        self._names, self._at, self._most = names, place.at, most
        self._results = SegmentFiles(folder, "seg", segment_rows.RESULTS, place.segment, place.at)
        self._changes = SegmentFiles(folder, "chg", segment_rows.CHANGES, place.changes, place.at)

    def step(self, sealed: Sealed, wanted: Wanted) -> Step:
        """Return the next part, of a few hundred rows at most. `sealed`: how far the history goes."""
        before = self._results.lost + self._changes.lost
        parts = [
            (self._results, self._first(self._results.peek(sealed.segment)), segment_rows.results),
            (self._changes, self._changes.peek(sealed.change), segment_rows.changes),
        ]
        until = min([sealed.at, *(rows.column(0)[-1].as_py() for _, rows, _ in parts if rows is not None)])
        found: list[list[Record]] = []
        for files, rows, read in parts:
            if rows is not None:
                taken = bisect_right(rows.column(0).to_pylist(), until)
                found.append(list(read(rows.slice(0, taken), self._names.of, wanted)))
                files.take(taken)
        lost = self._results.lost + self._changes.lost - before
        place = Place(max(until, self._at), self._results.number, self._changes.number)
        self._at = place.at
        fault = self._results.fault or self._changes.fault if lost else None
        return Step(list(merge(*found, key=_position)), place, lost, fault)

    def _first(self, rows: pa.RecordBatch | None) -> pa.RecordBatch | None:
        return None if rows is None else rows.slice(0, segment_rows.rows_of(rows, self._most))


def _position(record: Record) -> int:
    return record.at
