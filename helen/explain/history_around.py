"""Reads the history around a moment from closed segments, for the answers of `helen explain`. Blocks: for a thread.

Files are found by bisection (their rows are in order of time, near enough), and few are read: an answer takes
milliseconds in a history of months.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from helen.evaluation.replay import (
    CHANGE_COLUMNS,
    RESULT_COLUMNS,
    HistoryRecord,
    read_change,
    read_result,
    series_names,
)
from helen.evaluation.segment_footers import first_from, newest, oldest
from helen.journal import lazy_parquet as pq
from helen.journal.unread import demand_content
from helen.journal.values import Origin

MOST_FILES = 400  # of each kind for one question: an hour of results at 10 s a file
OUT_OF_ORDER = 60.0  # seconds by which `received` may go back from one file to the next: a clock that was set


class HistoryAround:
    """Reads STATE/history, as far as it is in segments."""

    def __init__(self, history: Path) -> None:
        self._folder = history / "segments"
        self._names = series_names(history / "series.parquet")

    def changes(self, begin: float, end: float) -> list[HistoryRecord]:
        """Return all changes between two moments, unix seconds, in their order."""
        files, found = self._files("chg"), []
        first = self._first_ending_after(files, begin - OUT_OF_ORDER)
        for path in files[first : first + MOST_FILES]:
            rows = _rows(path, CHANGE_COLUMNS)
            found += [read_change(row, self._named) for row in rows if begin <= row["received"].timestamp() <= end]
            if rows and rows[0]["received"].timestamp() > end + OUT_OF_ORDER:
                break
        return found

    def results(self, agent: str, check_id: str, until: float, count: int) -> list[HistoryRecord]:
        """Return the last results of one check up to `until`, unix seconds, the newest first; no answers to queries."""
        numbers = [number for number, names in self._names.items() if names == (agent, check_id)]
        if not numbers:
            return []
        files, found = self._files("seg"), list[HistoryRecord]()
        last = self._first_ending_after(files, until + OUT_OF_ORDER)
        for path in reversed(files[max(0, last + 1 - MOST_FILES) : last + 1]):
            rows = _rows(path, [*RESULT_COLUMNS, "metrics"], [("series_id", "in", numbers)])
            met = [row for row in rows if row["received"].timestamp() <= until and row["origin"] != Origin.ASKED]
            found += [read_result(row, self._named) for row in reversed(met)]
            if len(found) >= count:
                break
        return found[:count]

    def runs_of(self, agent: str, begin: float, end: float) -> list[HistoryRecord]:
        """Return results of all checks of an agent that came between two moments, unix seconds, in their order."""
        numbers = [number for number, (name, _) in self._names.items() if name == agent]
        if not numbers:
            return []
        files, found = self._files("seg"), list[HistoryRecord]()
        first = self._first_ending_after(files, begin)
        for path in files[first : first + MOST_FILES]:
            rows = _rows(path, RESULT_COLUMNS, [("series_id", "in", numbers)])
            met = [row for row in rows if begin <= row["received"].timestamp() <= end]
            found += [read_result(row, self._named) for row in met if row["origin"] != Origin.ASKED]
            if oldest(path) > end + OUT_OF_ORDER:
                break
        return found

    def _files(self, prefix: str) -> list[Path]:
        return sorted(self._folder.glob(f"{prefix}-*.parquet"))

    def _first_ending_after(self, files: list[Path], moment: float) -> int:
        return first_from(files, lambda path: newest(path) < moment)

    def _named(self, number: int | None) -> tuple[str | None, str | None]:
        return (None, None) if number is None else self._names.get(number, (None, None))


def _rows(path: Path, columns: list[str], filters: Any = None) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, columns=columns, filters=filters).to_pylist()
    except (OSError, pa.ArrowException) as error:
        demand_content(path, error)
        return []  # deleted meanwhile, or damaged: helen.journal.verify reports it
    return rows
