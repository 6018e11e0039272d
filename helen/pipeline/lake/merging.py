"""Defines how rows of one bucket become one row, column by column, once: all that merges rows of rollups follows it.

Arrow's sums (rollup/arrow.py: levels, compaction, exports, pages), Spark's expressions (rollup/frames.py: views) and
what `verify` compares are made from this table, and a test holds them against plain Python. Everything adds up, or is
an extreme, or says where a bucket begins and ends, so rows may come in any number and at any time. Never a mean: means
can't be added. The first sums, those of results, are made in rollup/segment_rows.py alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from helen.pipeline.lake.schema import STATUSES

KEY = ("series", "bucket", "metric", "unit", "kind")


class Merging(Enum):
    """Says how a column of the merged row is made."""

    COUNT = "the sum of integers; null counts as 0"
    SUM = "the sum of the rows that have a value; null where none has"
    LEAST = "the least value"
    MOST = "the greatest value"
    FIRST = "that of the row which begins first, by `first_at`"
    LAST = "that of the row which ends last, by `last_at`"


MERGING: Mapping[str, Merging] = {
    "n": Merging.COUNT,
    **dict.fromkeys(STATUSES, Merging.COUNT),
    "values": Merging.COUNT,
    "sum": Merging.SUM,
    "sumsq": Merging.SUM,
    "min": Merging.LEAST,
    "max": Merging.MOST,
    "first": Merging.FIRST,
    "first_at": Merging.FIRST,
    "last": Merging.LAST,
    "last_at": Merging.LAST,
    "increase": Merging.SUM,
    "increase_s": Merging.SUM,
    "cpu_ms": Merging.SUM,
    "cpu_runs": Merging.COUNT,
    "peak_kib": Merging.MOST,
}


def columns_of(*ways: Merging) -> tuple[str, ...]:
    """Return the columns that are merged in one of these ways, in the order of the table."""
    return tuple(name for name, way in MERGING.items() if way in ways)
