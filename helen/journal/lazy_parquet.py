"""Stands for pyarrow.parquet and imports it when its first function is asked for.

The import costs 70 ms of processor, a twentieth of a start, and a Helen with a new state folder needs it only for its
first segment.
"""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa

NAMES = frozenset({"ParquetFile", "read_metadata", "read_schema", "read_table", "write_table"})


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"helen.journal.lazy_parquet has no {name!r}: its NAMES are {', '.join(sorted(NAMES))}")
    return getattr(importlib.import_module("pyarrow.parquet"), name)


def load() -> None:
    """Import it now, for a process that has the time, and pandas where it is installed.

    Arrow imports pandas when it makes its first array. That would hold the reactor for 0.4 s, and end the journal if
    no descriptor is left then.
    """
    importlib.import_module("pyarrow.parquet")
    pa.array([0])
