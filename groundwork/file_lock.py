"""Lock a file, so that one process at a time uses the folder or the service that the lock stands for.

    lock = FileLock(folder / "lock")      # raises LockHeld, which names the process that has it
    ...
    lock.release()

The lock is a flock. The kernel releases it when the process ends, however it ends, so a file that a crash left behind
blocks no start. The file itself stays for ever: if it were deleted, two processes could lock two files of one name.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from groundwork.disk_faults import DISK_FAULTS

_LONGEST_PID = 20  # digits of a 64-bit number


class LockHeld(Exception):
    """Says that another process, or another FileLock of this one, has the lock.

    `holder` is for sentences: "process 123".
    """

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"{holder} has the lock {path}")
        self.path = path
        self.holder = holder


class FileLock:
    """Holds an exclusive lock on a file, from the construction of this object until `release`.

    The file holds the id of the process that has the lock, for people to read. Take the lock after the process has
    become a daemon, or that is the id of its parent.
    """

    def __init__(self, path: Path, mode: int = 0o600, even_read_only: bool = False) -> None:
        """Take the lock, without waiting for it; make the file if it is missing.

        On a disk that can't be written, `even_read_only` locks the file without a process id, or its folder if there
        is no file. Raises LockHeld if another holder has it, OSError if the file can't be opened or locked.
        """
        self.path = path
        writable = True
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            if not even_read_only or error.errno not in DISK_FAULTS:
                raise
            descriptor, writable = _open_to_read(path), False
        try:
            _lock(descriptor, path, even_read_only, writable)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor: int | None = descriptor

    def is_in_place(self) -> bool:
        """Return False if the lock was released, or its path leads to no file or to another: it protects nothing."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open_to_read(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _lock(descriptor: int, path: Path, even_read_only: bool, writable: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockHeld(path, _holder(descriptor)) from None
    if not writable:
        return
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        if not even_read_only or error.errno not in DISK_FAULTS:
            raise


def _holder(descriptor: int) -> str:
    """Return the holder in words. A process that has only just taken the lock has not written its id yet."""
    try:
        pid = os.pread(descriptor, _LONGEST_PID, 0).decode("ascii", "replace").strip()
    except IsADirectoryError:
        pid = ""
    return f"process {pid}" if pid.isdecimal() else "an unknown process"
