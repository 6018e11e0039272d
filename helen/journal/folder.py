"""Names the files in STATE/journal and STATE/history, replaces them durably, and locks out a second Helen.

STATE/journal/   lock  wal-NNNNNNNN.log  marks.json  marks.previous.json  quarantine/
STATE/history/   series.parquet  committed  committed-changes
STATE/history/segments/   seg-NNNNNNNN.parquet  chg-NNNNNNNN.parquet
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from groundwork.atomic_write import TEMPORARY, remove_leftovers, write_durably
from groundwork.file_lock import FileLock, LockHeld
from helen.journal.disk import MODE, Disk
from helen.journal.values import JournalLocked

_NUMBERED = re.compile(r"(wal|seg|chg)-([0-9]{8,})\.(?:log|parquet)")


class Folder:
    """Knows both folders of one Helen. It makes them, and doesn't look into the files."""

    def __init__(self, journal: Path, history: Path, disk: Disk) -> None:
        self.journal = journal
        self.history = history
        self.disk = disk
        self.quarantine = journal / "quarantine"
        self.segments = history / "segments"
        self.marks = journal / "marks.json"
        self.previous_marks = journal / "marks.previous.json"
        self.series = history / "series.parquet"
        self._lock: FileLock | None = None

    def wal(self, number: int) -> Path:
        """Return the path of this WAL."""
        return self.journal / f"wal-{number:08}.log"

    def segment(self, number: int) -> Path:
        """Return the path of this segment of results."""
        return self.segments / f"seg-{number:08}.parquet"

    def changes(self, number: int) -> Path:
        """Return the path of this segment of changes."""
        return self.segments / f"chg-{number:08}.parquet"

    def wal_numbers(self) -> list[int]:
        """Return the numbers of the WALs, in order."""
        return self._numbers(self.journal, "wal")

    def segment_numbers(self) -> list[int]:
        """Return the numbers of the segments of results, in order."""
        return self._numbers(self.segments, "seg")

    def change_numbers(self) -> list[int]:
        """Return the numbers of the segments of changes, in order."""
        return self._numbers(self.segments, "chg")

    def committed(self, name: str) -> int | None:
        """Return the number in `committed` or `committed-changes`: the last segment that the pipeline published."""
        try:
            text = (self.history / name).read_text("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            return 0  # unreadable: nothing may be deleted because of it
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0

    def lock(self) -> None:
        """Make the folders, and lock them for this process. The kernel releases the lock when the process dies.

        Raises JournalLocked if another process has them, OSError if they can't be made.
        """
        for folder in (self.journal, self.quarantine, self.history, self.segments):
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            self.disk.sync_folder(folder.parent)  # a WAL is as durable as the names on the way to it
        try:
            self._lock = FileLock(self.journal / "lock", MODE)
        except LockHeld as error:
            raise JournalLocked(
                f"Another Helen ({error.holder}) has {self.journal} open. Stop it first, or start this one with another"
                " state folder."
            ) from error

    def unlock(self) -> None:
        """Release the folders; a second call does nothing."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def sweep(self) -> None:
        """Delete temporary files that a crash left: nothing in them was ever promised. Raises OSError."""
        for folder in (self.journal, self.quarantine, self.segments):
            remove_leftovers(folder, self.disk)
        for path in self.history.glob(f".{self.series.name}.*{TEMPORARY}"):  # the pipeline writes there, too
            self.disk.remove(path)

    def publish(self, target: Path, data: bytes | memoryview) -> None:
        """Replace `target` by a file of these bytes: durable before the name changes, and never seen half-written.

        Raises OSError; then the file is as it was, or replaced and perhaps not durable.
        """
        write_durably(target, data, MODE, self.disk)

    def _numbers(self, folder: Path, kind: str) -> list[int]:
        found = (_NUMBERED.fullmatch(name) for name in os.listdir(folder))
        return sorted(int(match[2]) for match in found if match and match[1] == kind)
