"""Reads the bounds of a segment from its footer, and finds segments by bisection. It blocks, and is for a thread.

A file that is gone or damaged has bounds that let a search go on; one that can't be read raises HistoryUnread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from helen.journal import lazy_parquet as pq
from helen.journal.unread import demand_content

DISTANT_PAST = 0.0  # of a file that can't be read, in unix seconds


def newest(path: Path) -> float:
    """Return the latest `received` of a file, unix seconds; the distant past if it can't be read."""
    return _received(path, "max")


def oldest(path: Path) -> float:
    """Return the earliest `received` of a file, unix seconds; the distant past if it can't be read."""
    return _received(path, "min")


def last_at(path: Path) -> int:
    """Return the highest number of a file; a great one if it can't be read, so that it is opened."""
    found = _bounds(path, "at", "max")
    return 2**62 if not found else int(max(found))


def first_at(path: Path) -> int | None:
    """Return the lowest number of a file; None if it can't be read."""
    found = _bounds(path, "at", "min")
    return int(min(found)) if found else None


def first_from(files: Sequence[Path], is_before: Callable[[Path], bool]) -> int:
    """Return the place of the first file that is not before what is looked for; files are in order."""
    low, high = 0, len(files)
    while low < high:
        middle = (low + high) // 2
        if is_before(files[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def _received(path: Path, name: str) -> float:
    found = _bounds(path, "received", name)
    return float((max if name == "max" else min)(found).timestamp()) if found else DISTANT_PAST


def _bounds(path: Path, column: str, name: str) -> list[Any]:
    """Return the bound of each group of rows; none if the file is gone or damaged. Raises HistoryUnread."""
    try:
        described = pq.read_metadata(path)
        place = described.schema.names.index(column)
        groups = [described.row_group(at).column(place).statistics for at in range(described.num_row_groups)]
        return [getattr(group, name) for group in groups] if all(each.has_min_max for each in groups) else []
    except (OSError, pa.ArrowException, ValueError, AttributeError) as error:
        demand_content(path, error)
        return []
