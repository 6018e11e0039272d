"""One agent per state folder. The kernel lets go of the lock when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class StateInUse(Exception):
    """A sentence: who has it, or why it can't be made."""


def take(state: Path) -> int:
    """Make the folder if it is missing, and lock it; the descriptor must stay open. Raises StateInUse."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateInUse(f"--state {state}: cannot be used: {error.strerror}. Name a folder of your own.") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
        os.close(fd)
        raise StateInUse(
            f"an agent with the state folder {state} is running already (process {holder or 'unknown'}). "
            "Stop it, or give this one another --state."
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd
