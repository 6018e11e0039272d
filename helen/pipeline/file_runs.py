"""Chooses the files of a day that is over which are worth putting together. Pure.

The files of one entry that compaction wrote are a run: together they are sorted. A new file is a run of its own. Small
runs are put together, and a large one only with as many rows as it has itself: so the run of a row is at least
twice as large each time that the row is written again. If a day has N rows, and some come late in portions of n, each
row is written again log2(N / n) times at most, however long they go on to come, and the many that were there in
time hardly ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from helen.pipeline.lake.log_entries import File

ENOUGH_FILES = 8  # of one day and table: fewer are not worth a rewrite

Size = tuple[int, int]  # rows and files of a run


def worth_rewriting(files: Sequence[File], rows_per_file: int) -> list[File]:
    """Return the files of one day to put together now, with `rows_per_file` rows in a new one at most; mostly none."""
    runs = sorted(runs_of(files), key=_size)
    chosen = {file.path for run in runs[: together([_size(run) for run in runs], rows_per_file)] for file in run}
    return [file for file in files if file.path in chosen]


def together(sizes: Sequence[Size], rows_per_file: int) -> int:
    """Return how many runs to put together: the first ones of these, whose rows rise; 0: it isn't worth it."""
    rows, files = ([0, *accumulate(each)] for each in zip(*sizes, strict=True)) if sizes else ([0], [0])
    for count in range(len(sizes), 1, -1):
        needed = -(-rows[count] // rows_per_file)
        if sizes[count - 1][0] <= rows[count - 1] and files[count] >= ENOUGH_FILES + needed - 1:
            return count
    return 0


def runs_of(files: Iterable[File]) -> list[list[File]]:
    """Return files as runs, in any order."""
    found: dict[Any, list[File]] = defaultdict(list)
    for file in files:
        found[file.path if file.fresh else file.version].append(file)
    return list(found.values())


def _size(run: Sequence[File]) -> Size:
    return sum(file.rows for file in run), len(run)
