"""Splits files of a rollup by ranges of series, so that tasks which have a range each decode every row once.

A file that a batch wrote has rows of all series, and a reader decodes it whole, whichever rows it wants. Where many
tasks have a range each, every one of them would decode all files: the work would grow with the square of the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.lake_files import MOST, Held, read
from helen.pipeline.lake.places import remove_tree, write_arrow
from helen.pipeline.lake.schema import Source, Table

ROWS_PER_GROUP = 1_000_000  # that are split at once: 300 MB in a worker
LITTLE_ROWS = 400_000  # that are split in the driver
SPLIT_FROM = 6  # parts: to decode files five times costs less than to write and read their rows once more
PIECES = Source(
    pa.schema([]),
    pa.schema([("path", pa.string()), ("rows", pa.int64()), ("part", pa.int32()), ("group", pa.int32())]),
)


@frozen
class SplitTask:
    """Turns numbers of groups of files into pieces: a file for each range of series that the group has rows of."""

    table: Table
    groups: Sequence[Sequence[Held]]
    bounds: Sequence[tuple[int, int]]
    folder: str
    wanted: Any = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = [row for batch in batches for group in batch.column(0).to_pylist() for row in self._pieces(group)]
        yield pa.RecordBatch.from_pylist(rows, schema=PIECES.arrow)

    def _pieces(self, group: int) -> Iterator[dict[str, Any]]:
        """Write the pieces of a group, each with its rows in the order of the files, and yield a row for each."""
        rows = read(self.table, [file.path for file in self.groups[group]], self.table.columns.names, self.wanted)
        series = rows["series"].to_numpy()
        order = np.argsort(series, kind="stable")
        ends = np.searchsorted(series[order], [*(lowest for lowest, _ in self.bounds), MOST + 1])
        for part, (begin, end) in enumerate(pairwise(ends.tolist())):
            if begin < end:
                path = Path(self.folder) / f"{uuid.uuid4().hex}.arrow"
                write_arrow(path, rows.take(order[begin:end]))
                yield {"path": str(path), "rows": end - begin, "part": part, "group": group}


@frozen
class Split:
    """Holds the pieces of files: those of all, and those of the files that are new (None: no file is)."""

    files: Sequence[Held]
    fresh: Sequence[Held] | None


@contextmanager
def split(
    spark: SparkSession | None, table: Table, files: Sequence[Held], fresh: Sequence[Held] | None,
    bounds: Sequence[tuple[int, int]], folder: Path, wanted: Any = None,
    rows_per_group: int = ROWS_PER_GROUP, little_rows: int = LITTLE_ROWS,
) -> Iterator[Split]:  # fmt: skip
    """Give files of a table split by these ranges of series, as long as the block lasts; few ranges: as they are.

    Rows that don't meet the condition `wanted` are left out. Raises OSError.
    """
    if len(bounds) < SPLIT_FROM:
        yield Split(files, fresh)
        return
    groups = groups_of(files, {file.path for file in fresh or ()}, rows_per_group)
    task = SplitTask(table, [group for group, _ in groups], bounds, str(folder), wanted)
    rows = sum(file.rows for file in files)
    try:
        written = sorted(run_parts(spark, task, len(groups), rows, little_rows, PIECES.ddl), key=_place)
        pieces = [_piece(row, groups[row["group"]][0], bounds) for row in written]
        new = [piece for piece, row in zip(pieces, written, strict=True) if groups[row["group"]][1]]
        yield Split(pieces, None if fresh is None else new)
    finally:
        remove_tree(folder)


def groups_of(files: Sequence[Held], fresh: set[str], most: int) -> list[tuple[list[Held], bool]]:
    """Return the files in their order, in groups of `most` rows if no file has more, each with whether it is new."""
    groups: list[tuple[list[Held], bool]] = []
    rows = 0
    for file in files:
        is_new = file.path in fresh
        if not groups or groups[-1][1] != is_new or rows + file.rows > most:
            groups.append(([], is_new))
            rows = 0
        groups[-1][0].append(file)
        rows += file.rows
    return groups


def _place(row: dict[str, Any]) -> tuple[int, int]:
    return row["group"], row["part"]


def _piece(row: dict[str, Any], of: Sequence[Held], bounds: Sequence[tuple[int, int]]) -> Held:
    """Return a piece with the range of its part, and with the times of its group."""
    lowest, highest = bounds[row["part"]]
    begin, end = min(file.begin for file in of), max(file.end for file in of)
    return evolve(of[0], path=row["path"], rows=row["rows"], lowest=lowest, highest=highest, begin=begin, end=end)
