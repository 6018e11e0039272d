"""Makes the journal's system calls, in one place, so that tests can inject failures and end the process at a step.

A test passes a subclass that raises, or one in which `reached` kills the process at a named step.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from groundwork import atomic_write, disk_faults

# What may pass while Helen runs: there is room again, the filesystem is mounted for writing again, or a descriptor is
# free again. Nothing was written then; all other errors leave it open what the disk holds.
NO_DESCRIPTOR = disk_faults.NO_DESCRIPTOR
PASSING = disk_faults.NO_SPACE | NO_DESCRIPTOR | {errno.EROFS}
MODE = 0o640  # of the journal's files: Helen's group may read them


def report_passing(error: OSError, what: str, meanwhile: str) -> str:
    """Return the sentences on a passing error: what can't be written, what happens meanwhile, and what to do."""
    if error.errno in disk_faults.NO_SPACE:
        return f"No space for {what} ({error.strerror}): {meanwhile}. Free some space; it is tried again each second."
    if error.errno in NO_DESCRIPTOR:
        return (
            f"{what} can't be opened ({error.strerror}): {meanwhile}. Raise LimitNOFILE of Helen's unit (ulimit -n), or"
            " look who holds so many connections; it is tried again each second."
        )
    return (
        f"{what} can't be written ({error.strerror}): {meanwhile}. Mount its filesystem for writing again; it is tried"
        " again each second."
    )


class Disk(atomic_write.Disk):
    """Makes the system calls of a durable write, and those of a write-ahead log."""

    def create_log(self, path: Path) -> int:
        """Return a descriptor of a new, empty log. An empty file of a failed try is used again. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut away the bytes that a failed write left behind `size`. Raises OSError."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Make the content of an open file durable; its time of change may be lost, which saves a write.

        Raises OSError. Don't call it again after a failure: the kernel may have dropped the pages, and would say yes.
        """
        os.fdatasync(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        """Rename durably. Raises OSError."""
        self.rename(source, target)
        self.sync_folder(target.parent)

    def reached(self, step: str) -> None:
        """Do nothing. It is called after each step that a crash may separate from the next one, with its name."""
