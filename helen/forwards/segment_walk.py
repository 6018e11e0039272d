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

from groundwork.counts import count, is_or_are
from helen.forwards import segment_rows
from helen.forwards.place import Place
from helen.forwards.records import Record
from helen.forwards.segment_files import SegmentFiles
from helen.forwards.segment_rows import Wanted
from helen.journal import lazy_parquet as pq
from helen.journal.values import Sealed

MOST_FIGURES = 2_000  # metrics of one batch, unless a single result has more: 300 KB on the wire before compression
NEWEST_STEPS = 3  # of the newest segments: changes and results of both are among them
MOST_BYTES = 1_048_576  # of one batch, unless a single result has more: labels may be long
NAMES_AT_ONCE = 2_000  # rows of the file of series: a millisecond


class SeriesNames:
    """Knows the names of series for all forwards, and reads the file again for a number that it has not."""

    def __init__(self, history: Path) -> None:
        self._path = history / "series.parquet"
        self._names: dict[int, tuple[str, str]] = {}
        self._read_at: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def of(self, series: int) -> tuple[str, str] | None:
        """Return agent and check of a series; None if the file has no such number.

        Raises OSError or ArrowException if the file can't be read: nothing can be said of the series until it can.
        """
        found = self._names.get(series)
        return found if found is not None else self._read(series)

    def _read(self, series: int) -> tuple[str, str] | None:
        with self._lock:
            status = self._path.stat()
            if self._read_at != (status.st_mtime_ns, status.st_ino):
                self._names = _read_names(self._path)  # what is known stays if this fails
                self._read_at = status.st_mtime_ns, status.st_ino
            return self._names.get(series)


def _read_names(path: Path) -> dict[int, tuple[str, str]]:
    """Return agent and check of each series.

    A few rows at a time: Arrow lets no other thread run while it makes Python's values of a whole column.
    """
    found: dict[int, tuple[str, str]] = {}
    for batch in pq.ParquetFile(path).iter_batches(NAMES_AT_ONCE, columns=["series_id", "agent", "check_id"]):
        numbers, agents, checks = (column.to_pylist() for column in batch.columns)
        found.update(zip(numbers, zip(agents, checks, strict=True), strict=True))
    return found


@frozen
class Step:
    """Holds the wanted records of a part of the history, and the numbers of the place behind it."""

    records: Sequence[Record]
    place: Place
    lost: int = 0  # segments on the way that were gone, or could not be read, or have rows that nobody can name
    fault: str | None = None  # about the newest of them


class SegmentWalk:
    """Walks from a place on, for one forward. `most`: metrics of one step, unless a single result has more."""

    def __init__(self, history: Path, place: Place, names: SeriesNames, most: int = MOST_FIGURES) -> None:
        folder = history / "segments"
        self._names, self._at, self._most = names, place.at, most
        self._nameless = 0  # rows of the step at hand whose series has no name
        self._results = SegmentFiles(folder, "seg", segment_rows.RESULTS, place.segment, place.at)
        self._changes = SegmentFiles(folder, "chg", segment_rows.CHANGES, place.changes, place.at)

    def step(self, sealed: Sealed, wanted: Wanted) -> Step:
        """Return the next part, of a few hundred rows at most. `sealed`: how far the history goes.

        Raises OSError, MemoryError or ArrowException for what may pass; a new walk from the old place tries it again.
        """
        self._nameless = 0
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
                found.append(list(read(rows.slice(0, taken), self._named, wanted)))
                files.take(taken)
        lost = self._results.lost + self._changes.lost - before
        fault = self._results.fault or self._changes.fault if lost else None
        if self._nameless:
            rows = count(self._nameless, "row")
            lost, fault = lost + 1, f"{rows} of the journal {is_or_are(self._nameless)} of no series in series.parquet"
        place = Place(max(until, self._at), self._results.number, self._changes.number)
        self._at = place.at
        return Step(list(merge(*found, key=_position)), place, lost, fault)

    def _first(self, rows: pa.RecordBatch | None) -> pa.RecordBatch | None:
        return None if rows is None else rows.slice(0, segment_rows.rows_of(rows, self._most, MOST_BYTES))

    def _named(self, series: int) -> tuple[str, str] | None:
        found = self._names.of(series)
        self._nameless += found is None
        return found


def _position(record: Record) -> int:
    return record.at


def newest_records(history: Path, names: SeriesNames, sealed: Sealed, wanted: Wanted) -> list[Record]:
    """Return some wanted records of the newest segments. Raises as a step does."""
    walk = SegmentWalk(history, Place(0, sealed.segment, sealed.change), names)
    return [record for _ in range(NEWEST_STEPS) for record in walk.step(sealed, wanted).records]
