"""Writes segments: an Arrow table becomes a Parquet file that appears whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from helen.journal import lazy_parquet as pq
from helen.journal.folder import Folder
from helen.journal.unread import is_of_content

# Level 1: level 3 costs half as much again and saves 2 %; the pipeline rewrites the rows sorted anyway.
ZSTD_LEVEL = 1
_METRIC_PATH = "metrics.list.element"
# Columns with values that repeat. The others would fill a dictionary and fall back.
_DICTIONARY = [
    "series_id", "status", "origin", "reason", "code", "spool", "kind", "summary", "truncated.key_value.key",
    *(f"{_METRIC_PATH}.{name}" for name in ("name", "unit", "kind", "warn", "crit", "min", "max")),
    *(f"{_METRIC_PATH}.labels.key_value.{name}" for name in ("key", "value")),
]  # fmt: skip
# Minimum and maximum per file help to skip files by these, and cost time and room for the rest.
_STATISTICS = ["at", "series_id", "received", "started", "status", "sequence"]
_DELTA = {"at": "DELTA_BINARY_PACKED", "received": "DELTA_BINARY_PACKED", "sequence": "DELTA_BINARY_PACKED"}
_WAL_KEY = b"helen.wal"


def to_parquet(table: pa.Table, wal: int | None = None) -> pa.Buffer:
    """Return the bytes of a file. `wal`, the number of the WAL that became this segment, goes into its metadata."""
    if wal is not None:
        table = table.replace_schema_metadata({_WAL_KEY: str(wal).encode(), b"helen.format": b"1"})
    names = set(table.schema.names)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="zstd", compression_level=ZSTD_LEVEL, row_group_size=max(1, table.num_rows),
        use_dictionary=[path for path in _DICTIONARY if path.split(".")[0] in names],
        write_statistics=[path for path in _STATISTICS if path in names],
        column_encoding={path: encoding for path, encoding in _DELTA.items() if path in names},
    )  # fmt: skip
    return sink.getvalue()


def publish(folder: Folder, path: Path, table: pa.Table, wal: int | None = None) -> None:
    """Write a segment: temporary file, fsync, rename, fsync of the folder. Raises OSError."""
    folder.publish(path, memoryview(to_parquet(table, wal)))


def wal_of(path: Path) -> int | None:
    """Return the number of the WAL that a segment was made of; None: no such file, or none that can be read.

    Raises OSError if it could not be read: that says nothing of what it holds.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
        return int(metadata[_WAL_KEY])
    except OSError as error:
        if not is_of_content(error):
            raise
        return None
    except (KeyError, ValueError, pa.ArrowException):
        return None
