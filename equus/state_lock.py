"""Make and lock the state folder, so that one agent at a time uses it, and no other user writes into it."""

from __future__ import annotations

from pathlib import Path

from equus.policy.file_ownership import own_group, ownership_fault
from groundwork.file_lock import FileLock, LockHeld


class StateInUse(Exception):
    """Says that the state folder can't be used; the text says why, or which process has it, and what to do."""


def prepare(state: Path) -> None:
    """Make the state folder if it is missing. Raises StateInUse if another user could change what lies in it.

    It holds the key, the signing keys that are trusted, the checks that run, and newer versions of the agent: so this
    comes before any of them is used.
    """
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = ownership_fault(state, groups=own_group())
    except OSError as error:
        raise _unusable(state, error) from error
    if fault is not None:
        raise StateInUse(f"--state {state}: {fault} (a user who can write there chooses which code the agent runs)")


def _unusable(state: Path, error: OSError) -> StateInUse:
    return StateInUse(f"--state {state}: cannot be used: {error.strerror}. Name a folder of your own.")


def take(state: Path) -> FileLock:
    """Return the lock of the state folder, which `prepare` makes. Raises StateInUse.

    The lock is held until it is released or the process ends, even if the caller drops the returned object.
    """
    prepare(state)
    try:
        return FileLock(state / "lock", even_read_only=True)  # an agent goes on with results in memory
    except LockHeld as held:
        raise StateInUse(
            f"an agent with the state folder {state} is running already ({held.holder}). "
            "Stop it, or give this one another --state."
        ) from None
    except OSError as error:
        raise _unusable(state, error) from error
