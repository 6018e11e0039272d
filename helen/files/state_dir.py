"""Locks the state directory for one Helen at a time, tries to write there, and keeps private files from other users.

Every call blocks: it is for the start, or for the store's thread.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from groundwork.disk_faults import DISK_FAULTS, NO_SPACE, REFUSED, UNUSABLE, advice_on
from groundwork.file_lock import FileLock, LockHeld

FOLDER = 0o700
FOLDERS = (".", "ca", "journal", "journal/quarantine", "history", "history/segments")  # each may be a mount of its own
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateError(Exception):
    """Says that Helen can't start on this state directory; the text is one sentence with why, and what to do."""


class StateLocked(StateError):
    """Says that another process uses the state directory."""


class KeyExposed(StateError):
    """Says that other users of the machine can read a private key."""


class StateUnwritable(StateError):
    """Says that the state directory, or a folder in it, can't be written."""


def why_unwritable(state: Path, error: BaseException) -> str | None:
    """Return the sentence on an error of the disk below `state`, or on a folder there of another user; else None."""
    if not isinstance(error, OSError) or error.errno not in DISK_FAULTS | REFUSED:
        return None
    place = Path(os.fsdecode(error.filename or state))
    if not place.is_relative_to(state):
        return None
    if error.errno in NO_SPACE:
        advice = "Free some space, then start Helen again"
    elif error.errno in REFUSED:
        advice = f"chown it to the user that Helen runs as ({os.geteuid()}), or start Helen as its owner"
    else:
        advice = "Look at `dmesg`, mend the disk or mount its filesystem for writing again, then start Helen again"
    return (
        f"the state directory {state} can't be written ({error.strerror}: {place}), so no result could be kept."
        f" {advice}. Agents keep their results until then."
    )


def why_unopened(error: BaseException) -> str | None:
    """Return the sentence on a file that a start could not open, so that it was left as it is; else None."""
    if not isinstance(error, OSError) or not error.errno or not error.filename:
        return None
    advice = advice_on(error.errno, "Helen")
    return (
        f"{os.fsdecode(error.filename)} can't be opened ({error.strerror}), and what it holds is not known."
        f" {advice}, then start Helen again."
    )


def demand_writable(state: Path) -> None:
    """Make and remove a file in each folder that Helen can't do without; one that is missing is passed over. Blocks.

    Raises OSError that names the folder. A disk that is full is no reason: Helen starts, and waits for space.
    """
    for name in FOLDERS:
        folder = state / name
        probe = folder / f".probe.{os.getpid()}.tmp"
        try:
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            probe.unlink()
        except OSError as error:
            if error.errno in UNUSABLE | REFUSED:
                error.filename = str(folder)
                raise


class Lock:
    """Holds the lock STATE/lock until `release` or until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is missing, and lock it.

        Raises StateLocked if another process has it, StateUnwritable if it can't be written.
        """
        try:
            make_folder(folder)
            demand_writable(folder)
            self._lock = FileLock(folder / "lock")
        except OSError as error:
            sentence = why_unwritable(folder, error)
            if sentence is None:
                raise
            raise StateUnwritable(sentence) from error
        except LockHeld as held:
            raise StateLocked(
                f"The state directory {folder} is in use by {held.holder}: stop that one, or give another --state."
            ) from None

    def release(self) -> None:
        self._lock.release()


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; a new one is closed to other users."""
    folder.mkdir(mode=FOLDER, parents=True, exist_ok=True)


def read_private(path: Path) -> bytes:
    """Return the content of a file with a secret. Raises KeyExposed if a user other than its owner can read it."""
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if about.st_mode & OTHERS:
            raise KeyExposed(f"{path} holds a private key and others can read it: chmod 600 {path}")
        if about.st_uid not in (os.geteuid(), 0):
            raise KeyExposed(f"{path} holds a private key and belongs to another user: chown {os.geteuid()} {path}")
        return file.read()
