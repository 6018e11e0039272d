"""Reads the rows of counters near late ones: of each day from the finest level that has kept it.

Where retention has taken a day out of m5, an hour or a day says the first and the last value of a counter, too. Rows
that came for such a day since, and that no longer level has seen, are read beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from helen.pipeline.lake.damaged_files import pass_over
from helen.pipeline.lake.kept_days import kept_from
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import between, held, instant, read
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.local_days import date_of
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.read_errors import READ_ERRORS
from helen.pipeline.lake.schema import COUNTER, SUMS
from helen.pipeline.rollup.steps import COLUMNS, Key, Stretch, stretches
from helen.pipeline.rollup.unseen import is_unseen

_COLUMNS = [*COLUMNS, "kind"]


def rows_near(lake: Lake, series: Sequence[int], begin: int, end: int) -> dict[Key, list[Stretch]]:
    """Return the rows of counters of these series that have values between two times, microseconds.

    Raises OSError and LakeFileUnread as `counters_in` does.
    """
    found = [read(SUMS, [], _COLUMNS, None)]
    for level, files in _finest(lake, date_of(begin), date_of(end)):
        paths = [file.path for file in held(lake, level.name, files) if file.may_hold(series[0], series[-1])]
        wanted = between(series[0], series[-1]) & pc.field("series").isin(series)
        wanted &= (pc.field("bucket") >= instant(level.start(begin))) & (pc.field("bucket") <= instant(end))
        found += [counters_in(lake, level.name, path, wanted) for path in paths]
    return stretches(pa.concat_tables(found))


def _finest(lake: Lake, first: date, last: date) -> Iterator[tuple[Level, list[File]]]:
    """Yield levels from the finest one on, until one keeps all of these days, with the files to read."""
    level: Level | None = lake.levels[SUMS.name]
    while level is not None and first <= last:
        since = kept_from(lake, level.name)
        longer = next((each for each in lake.levels.values() if each.source == level.name), None)
        files = lake.files(level.name, (level.days_near(first)[0], last))
        yield level, [
            file for file in files
            if longer is None or (file.day or date.max) >= since or is_unseen(lake, level, file)
        ]  # fmt: skip
        if first >= since:
            return
        level, last = longer, min(last, since - timedelta(days=1))


def counters_in(lake: Lake, table: str, path: str, wanted: Any) -> pa.Table:
    """Return rows of counters. A damaged file has none: new results come in, and its day is made anew some time.

    Raises OSError if a file may be sound: without its rows, gains would be wrong for ever. Raises LakeFileUnread for
    one that its disk or its rights don't give, until it was given up.
    """
    counters = pc.field("kind") == COUNTER
    try:
        return read(SUMS, [path], _COLUMNS, counters if wanted is None else counters & wanted)
    except READ_ERRORS as error:
        pass_over(lake, table, path, error)
        return read(SUMS, [], _COLUMNS, None)
