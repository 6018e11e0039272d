"""The system calls whose failures and interruptions matter, in one place, so that tests can inject both.

A test passes a subclass: one that raises, or one whose `reached` kills the process at a named step.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

# Space may come back; everything else is a fault of the disk. EFBIG is what RLIMIT_FSIZE gives.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Disk:
    """The real one."""

    def create(self, path: Path) -> int:
        """A new, empty file to write to. An empty one of an earlier, failed try is taken over."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)

    def write(self, descriptor: int, data: bytes | memoryview, offset: int) -> None:
        """All of `data` at `offset`: a failed write can be done again at the same place."""
        view = memoryview(data)
        while view:
            written = os.pwrite(descriptor, view, offset)
            view = view[written:]
            offset += written

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut away what a failed write left."""
        os.ftruncate(descriptor, size)

    def datasync(self, descriptor: int) -> None:
        """Make the content durable. After one failure the kernel may have dropped the pages: never call it again."""
        os.fdatasync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Make created, renamed and deleted names durable."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_file(self, path: Path) -> None:
        """Make a file durable that somebody else wrote and closed."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Rename, durably."""
        os.replace(source, target)
        self.sync_folder(target.parent)

    def remove(self, path: Path) -> None:
        """Delete; a file that is gone already is what was wanted."""
        path.unlink(missing_ok=True)

    def reached(self, step: str) -> None:
        """Called after each step that a crash may separate from the next one."""
