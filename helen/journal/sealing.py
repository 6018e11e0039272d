"""Seals one closed WAL: its segments, the marks, then no WAL. A crash may come after each step; each may be done twice.

    1. series.parquet, where the segment names a new series
    2. seg-K.parquet   K = the last number + 1; skipped where that file exists and says it was made of this WAL
    3. chg-M.parquet   likewise
    4. marks.json      from now on the WAL is superfluous
    5. the WAL is deleted

A crash before 4 leaves the WAL: the next start does it all again and finds the same numbers. A WAL without results (or
changes) takes no number of that kind, so numbers have no holes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from attrs import field, frozen

from groundwork.presence import is_there
from helen.journal import segments, snapshot
from helen.journal.folder import Folder
from helen.journal.marks import MarkRow, MarksCopy
from helen.journal.rows import Rows
from helen.journal.series import FixedSeries, Series
from helen.journal.snapshot import Snapshot
from helen.journal.stored import stored_result
from helen.journal.values import Change, Entry, JournalDamaged, StoredChange
from helen.journal.wal import LeftWal, OpenWal


@frozen
class ClosedWal:
    """Describes a WAL that gets no further records. `rows` is None where they are to be read back from the file."""

    number: int
    at: int
    marks: list[MarkRow] = field(repr=False)
    series: Callable[[], pa.Table] | None = field(repr=False)
    rows: Rows | None = field(repr=False)


@frozen
class ClosingWal:
    """Marks the end of a WAL among the queued records: `following` begins behind it. `at` is the last one used."""

    number: int
    at: int
    marks: MarksCopy = field(repr=False)
    following: OpenWal = field(repr=False)


def read_rows(folder: Folder, number: int, series: Series | FixedSeries) -> Rows:
    """Return the rows of a closed WAL. Damage was reported when it was first read, or there is none. Raises OSError."""
    rows = Rows(series)
    for sound in LeftWal(folder.wal(number), folder, []):
        if isinstance(sound.value, Entry):
            rows.add(stored_result(sound.at, sound.value))
        elif isinstance(sound.value, Change):
            rows.add(StoredChange(sound.at, sound.value))
    return rows


def seal(folder: Folder, before: Snapshot, closed: ClosedWal, rows: Rows) -> Snapshot:
    """Take all five steps and return the snapshot after them.

    Raises OSError if the disk fails; then nothing has to be undone. Raises JournalDamaged if a segment is in the way.
    """
    reached = folder.disk.reached
    if closed.series is not None:
        segments.publish(folder, folder.series, closed.series())
        reached("series-replaced")
    segment, change = before.segment, before.change
    if rows.results:
        segment += 1
        _publish_once(folder, folder.segment(segment), rows.result_table(), closed.number)
        reached("segment-renamed")
    if rows.changes:
        change += 1
        _publish_once(folder, folder.changes(change), rows.change_table(), closed.number)
        reached("changes-renamed")
    after = Snapshot(closed.number, segment, change, closed.at, closed.marks)
    snapshot.save(folder, after)
    reached("marks-renamed")
    folder.disk.remove(folder.wal(closed.number))
    reached("wal-deleted")
    return after


def _publish_once(folder: Folder, path: Path, table: pa.Table, wal: int) -> None:
    """Write a segment unless it is there: a reader may have seen it already."""
    if not is_there(path):
        segments.publish(folder, path, table, wal)
    elif segments.wal_of(path) == wal:
        folder.disk.sync_folder(path.parent)  # an earlier try may have ended before its name was durable
    else:
        raise JournalDamaged(f"{path} exists and was not made of {folder.wal(wal).name}; move it away and start again.")
