"""Takes rows that don't count any more out of the files that count, so that anybody's sum over a table is right.

A file of which some rows go is written anew without them, piece by piece, in the order in which its rows lie: memory is
bounded by PIECE_ROWS. A file that keeps all of its rows is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from helen.pipeline.lake.day_files import open_writer
from helen.pipeline.lake.lake_files import batches
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.schema import Table
from helen.pipeline.rollup.segment_rows import micros

PIECE_ROWS = 131_072  # that are written at once: 100 MB with their blobs

Array = Any  # of numpy
Gone = Callable[[pa.RecordBatch], Array]


@frozen(eq=False)
class Buckets:
    """Holds buckets of series: which ones are to be made anew. `places` are the numbers of all buckets, rising.

    `lowest` and `highest` are the first and the last series.
    """

    level: Level
    places: Array
    keys: Array
    lowest: int
    highest: int

    @classmethod
    def of(cls, rows: pa.Table, level: Level) -> Buckets:
        """Return the buckets of a level into which these rows (series, bucket) fall."""
        pairs = np.unique(np.stack([rows["series"].to_numpy(), level.place(micros(rows["bucket"]))]), axis=1)
        places = np.unique(pairs[1])
        keys = np.sort(_key(pairs[0], pairs[1], places))
        return cls(level, places, keys, int(pairs[0][0]), int(pairs[0][-1]))

    @property
    def begin(self) -> int:
        """Return the time at which the first of the rows begins, microseconds since 1970."""
        return int(self.level.time(int(self.places[0])))

    @property
    def end(self) -> int:
        """Return the time at which the last of the rows ends, microseconds since 1970."""
        return int(self.level.time(int(self.places[-1]) + 1))

    def hold(self, rows: pa.Table | pa.RecordBatch) -> Array:
        """Return True for each row that falls into one of them."""
        place = self.level.place(micros(rows["bucket"]))
        within = (place >= self.places[0]) & (place <= self.places[-1])
        return within & np.isin(_key(rows["series"].to_numpy(), place, self.places), self.keys)


def _key(series: Array, place: Array, places: Array) -> Array:
    return series.astype(np.int64) * (int(places[-1] - places[0]) + 1) + place - places[0]


def count_gone(table: Table, path: str, columns: Sequence[str], wanted: Any, gone: Gone) -> tuple[int, int]:
    """Return how many rows of a file meet a condition, and how many of these go. Raises OSError."""
    rows = dropped = 0
    for batch in batches(table, [path], columns, wanted):
        rows += batch.num_rows
        dropped += int(np.count_nonzero(gone(batch)))
    return rows, dropped


def write_rest(table: Table, path: str, wanted: Any, gone: Gone, target: Path) -> None:
    """Write the rows of a file that meet a condition and don't go, in their order. Raises OSError."""
    rest: list[pa.RecordBatch] = []
    with open_writer(table, target) as writer:
        for batch in batches(table, [path], table.columns.names, wanted):
            rest.append(batch.filter(pa.array(~gone(batch))))
            if sum(each.num_rows for each in rest) >= min(PIECE_ROWS, table.rows_per_group):
                writer.write_table(pa.Table.from_batches(rest))
                rest = []
        writer.write_table(pa.Table.from_batches(rest, table.columns))
