"""The history around a moment, from closed segments: what `helen explain` answers with. Blocks, so it is for a thread.

Files are found by halving (their rows are in order of time, near enough), and few are read: an answer takes
milliseconds in a history of months.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from helen import parquet as pq
from helen.journal.values import Origin
from helen.replaying import CHANGE_COLUMNS, RESULT_COLUMNS, Past, read_change, read_result, series_names

MOST_FILES = 400  # of each kind for one question: an hour of results at 10 s a file
OUT_OF_ORDER = 60.0  # seconds by which `received` may go back from one file to the next: a clock that was set


class Lookback:
    """STATE/history, as far as it is in segments."""

    def __init__(self, history: Path) -> None:
        self._folder = history / "segments"
        self._names = series_names(history / "series.parquet")

    def changes(self, begin: float, end: float) -> list[Past]:
        """All changes between two moments, in their order."""
        files, found = self._files("chg"), []
        first = self._first_ending_after(files, begin - OUT_OF_ORDER)
        for path in files[first : first + MOST_FILES]:
            rows = _rows(path, CHANGE_COLUMNS)
            found += [read_change(row, self._named) for row in rows if begin <= row["received"].timestamp() <= end]
            if rows and rows[0]["received"].timestamp() > end + OUT_OF_ORDER:
                break
        return found

    def results(self, agent: str, check_id: str, until: float, count: int) -> list[Past]:
        """The last results of one check up to a moment, the newest first; what somebody asked is none of its own."""
        numbers = [number for number, names in self._names.items() if names == (agent, check_id)]
        if not numbers:
            return []
        files, found = self._files("seg"), list[Past]()
        last = self._first_ending_after(files, until + OUT_OF_ORDER)
        for path in reversed(files[max(0, last + 1 - MOST_FILES) : last + 1]):
            rows = _rows(path, [*RESULT_COLUMNS, "metrics"], [("series_id", "in", numbers)])
            met = [row for row in rows if row["received"].timestamp() <= until and row["origin"] != Origin.ASKED]
            found += [read_result(row, self._named) for row in reversed(met)]
            if len(found) >= count:
                break
        return found[:count]

    def _files(self, prefix: str) -> list[Path]:
        return sorted(self._folder.glob(f"{prefix}-*.parquet"))

    def _first_ending_after(self, files: list[Path], moment: float) -> int:
        low, high = 0, len(files)
        while low < high:
            middle = (low + high) // 2
            if _newest(files[middle]) < moment:
                low = middle + 1
            else:
                high = middle
        return low

    def _named(self, number: int | None) -> tuple[str | None, str | None]:
        return (None, None) if number is None else self._names.get(number, (None, None))


def _newest(path: Path) -> float:
    """The latest `received` of a file, from its footer; of one that can't be read, the distant past."""
    try:
        described = pq.read_metadata(path)
        column = described.schema.names.index("received")
        statistics = described.row_group(described.num_row_groups - 1).column(column).statistics
        return float(statistics.max.timestamp()) if statistics is not None and statistics.has_min_max else 0.0
    except (OSError, pa.ArrowException, ValueError, IndexError):
        return 0.0


def _rows(path: Path, columns: list[str], filters: Any = None) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, columns=columns, filters=filters).to_pylist()
    except (OSError, pa.ArrowException):
        return []  # deleted meanwhile, or damaged: the journal's own check tells of it
    return rows
