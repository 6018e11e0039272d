"""Where everything lies in STATE/journal and STATE/history, and the lock that keeps a second Helen out.

STATE/journal/   lock  wal-NNNNNNNN.log  marks.json  marks.previous.json  quarantine/
STATE/history/   series.parquet  committed  committed-changes
STATE/history/segments/   seg-NNNNNNNN.parquet  chg-NNNNNNNN.parquet
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path

from helen.journal.disk import Disk
from helen.journal.values import JournalLocked

TEMPORARY = ".tmp"
_NUMBERED = re.compile(r"(wal|seg|chg)-([0-9]{8,})\.(?:log|parquet)")


class Folder:
    """Both folders of one Helen. Makes them; doesn't know what is in the files."""

    def __init__(self, journal: Path, history: Path, disk: Disk) -> None:
        self.journal = journal
        self.history = history
        self.disk = disk
        self.quarantine = journal / "quarantine"
        self.segments = history / "segments"
        self.marks = journal / "marks.json"
        self.previous_marks = journal / "marks.previous.json"
        self.series = history / "series.parquet"
        self._lock: int | None = None

    def wal(self, number: int) -> Path:
        """The WAL of this number."""
        return self.journal / f"wal-{number:08}.log"

    def segment(self, number: int) -> Path:
        """A segment of results."""
        return self.segments / f"seg-{number:08}.parquet"

    def changes(self, number: int) -> Path:
        """A segment of changes."""
        return self.segments / f"chg-{number:08}.parquet"

    def wal_numbers(self) -> list[int]:
        """Numbers of the WALs, in order."""
        return self._numbers(self.journal, "wal")

    def segment_numbers(self) -> list[int]:
        """Numbers of the segments of results, in order."""
        return self._numbers(self.segments, "seg")

    def change_numbers(self) -> list[int]:
        """Numbers of the segments of changes, in order."""
        return self._numbers(self.segments, "chg")

    def committed(self, name: str) -> int | None:
        """The number in `committed` or `committed-changes`: the last segment that the pipeline published, if any."""
        try:
            text = (self.history / name).read_text("ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            return 0  # unreadable: nothing may be deleted because of it
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else 0

    def lock(self) -> None:
        """Take the folders for this process; the kernel lets go when it dies, so a lock never goes stale."""
        for folder in (self.journal, self.quarantine, self.history, self.segments):
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            self.disk.sync_folder(folder.parent)  # a WAL is as durable as the names on the way to it
        descriptor = os.open(self.journal / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise JournalLocked(
                f"Another Helen (process {holder}) has {self.journal} open. Stop it first, or start this one with"
                " another state folder."
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        """Let go. The file stays: deleting it would let two processes lock two files of one name."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def sweep(self) -> None:
        """Delete temporary files that a crash left: nothing in them was ever promised."""
        for folder in (self.journal, self.history, self.segments):
            for path in folder.glob(f"*{TEMPORARY}"):
                self.disk.remove(path)

    def publish(self, target: Path, data: bytes | memoryview) -> None:
        """Replace `target` by a file of these bytes: durable before the name changes, and never seen half-written."""
        temporary = target.with_name(target.name + TEMPORARY)
        try:
            descriptor = self.disk.create(temporary)
            try:
                self.disk.write(descriptor, data, 0)
                self.disk.datasync(descriptor)
            finally:
                os.close(descriptor)
            self.disk.replace(temporary, target)
        except OSError:
            with contextlib.suppress(OSError):
                self.disk.remove(temporary)  # on a full disk these bytes are needed
            raise

    def _numbers(self, folder: Path, kind: str) -> list[int]:
        found = (_NUMBERED.fullmatch(name) for name in os.listdir(folder))
        return sorted(int(match[2]) for match in found if match and match[1] == kind)
