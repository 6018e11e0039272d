"""Makes the actions of an entry in a table's log: which files count from now on, and which no more."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from attrs import frozen
from deltalake.transaction import AddAction, RemoveAction

# First letter of a file's name: new rows that only add to those of their buckets; new rows, in place of others perhaps;
# rows that were there before.
ADDED, FRESH, COMPACTED = "a", "b", "c"


@frozen
class File:
    """Describes a file that counts. `version` is that of the entry which named it first, or an earlier one.

    `adds` says that its rows only add to those that were there: its entry took no row of their buckets away.
    """

    path: str
    size: int
    rows: int
    day: date | None
    version: int
    fresh: bool
    lowest: dict[str, Any]
    highest: dict[str, Any]
    adds: bool = False


@frozen
class Kept:
    """Names a staged file with what stays of a file that is replaced. `fresh`: a level may not have seen it yet.

    `adds` says that its rows only add to those of their buckets, as those of the whole file did. A level that has seen
    them never asks.
    """

    path: Path
    fresh: bool
    adds: bool = False

    @classmethod
    def of(cls, path: Path, file: File, fresh: bool) -> Kept:
        """Return what stays of a file: what its name said holds for the rest of it, too."""
        return cls(path, fresh, fresh and file.adds)


def add(path: str, size: int, day: date | None, is_new: bool, said: dict[str, Any]) -> AddAction:
    """Return the action for one more file. `is_new` says that its rows were not in the table before."""
    return AddAction(path, size, partition(day), now_ms(), is_new, json.dumps(said))


def removes(files: Sequence[File], fresh: bool) -> list[RemoveAction]:
    """Return the actions for files that count no more; `fresh` says that other rows than these come instead."""
    return [RemoveAction(file.path, fresh, now_ms(), file.size, partition(file.day)) for file in files]


def statistics(metadata: pq.FileMetaData, columns: Sequence[str]) -> dict[str, Any]:
    """Return the statistics of a file for the log: {"numRecords": ..., "minValues": {...}, "maxValues": {...}}."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    for name in columns:
        groups = [metadata.row_group(g).column(places[name]).statistics for g in range(metadata.num_row_groups)]
        ranges = [(group.min, group.max) for group in groups if group is not None and group.has_min_max]
        if len(ranges) == metadata.num_row_groups:
            lowest[name] = _json(min(low for low, _ in ranges))
            highest[name] = _json(max(high for _, high in ranges))
    return {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value


def partition(day: date | None) -> dict[str, str | None]:
    """Return the values of the partition columns as the log has them."""
    return {} if day is None else {"day": day.isoformat()}


def now_ms() -> int:
    """Return the time, milliseconds since 1970, as the log has it."""
    return int(time.time() * 1000)
