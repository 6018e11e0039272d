"""pyarrow.parquet, imported by whoever first asks for something of it.

It costs 70 ms of processor, a twentieth of a start, and a Helen with a new state directory has no use for it before her
first segment.
"""

from __future__ import annotations

import importlib
from typing import Any

NAMES = frozenset({"read_metadata", "read_schema", "read_table", "write_table"})


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"helen.parquet has no {name!r}: its NAMES are {', '.join(sorted(NAMES))}")
    return getattr(importlib.import_module("pyarrow.parquet"), name)


def load() -> None:
    """Now, for who has the time."""
    importlib.import_module("pyarrow.parquet")
