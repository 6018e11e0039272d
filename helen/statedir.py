"""The state directory: one Helen at a time in it, files that only she reads, each replaced whole or not at all.

It knows nothing of what the files mean. Every call blocks: at start, or in the store's thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

PRIVATE = 0o600
PUBLIC = 0o644
FOLDER = 0o700
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateError(Exception):
    """What keeps Helen from starting on this state directory; each is one sentence that says what to do."""


class StateLocked(StateError):
    """Another process has the state directory."""


class KeyExposed(StateError):
    """A private key that other users of the machine can read."""


class Lock:
    """A flock on STATE/lock, let go of by `release` or by the end of the process, however it comes.

    The pid in the file is for people; the lock is what counts, so a file that a crash left behind stops nobody.
    Take it after the process has become a daemon, or the pid is the parent's.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StateLocked(
                f"The state directory {folder} is in use by process {pid}: stop that one, or give another --state."
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


def make_folder(folder: Path) -> None:
    """With its parents; nobody else's to look into when it is new."""
    folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)


def read_private(path: Path) -> bytes:
    """A file with a secret in it; refused when its mode lets anybody but its owner near."""
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if about.st_mode & OTHERS:
            raise KeyExposed(f"{path} holds a private key and others can read it: chmod 600 {path}")
        if about.st_uid not in (os.geteuid(), 0):
            raise KeyExposed(f"{path} holds a private key and belongs to another user: chown {os.geteuid()} {path}")
        return file.read()


def write_whole(path: Path, content: bytes, mode: int = PRIVATE) -> None:
    """Either the old file or the new one is there after a power cut, never a part."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()  # of a process with our pid that was killed half-way
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the umask says
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    new.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that came or went durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
