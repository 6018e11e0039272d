"""Find the file that a log was followed in before its rotation, beside the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from equus.capabilities import files, safe_open
from equus.capabilities.calls import CallFailed, Context, demand_descriptor
from equus.capabilities.log_cursor import CALL, Cursor

# Names that are looked through for the file that was followed before, and how many contents of them are compared.
MOST_NAMES = 10_000
MOST_COMPARED = 50


def followed_before(descriptor: int, seen: Cursor, path: str, policy: Any, context: Context) -> tuple[int, bool] | None:
    """Open the file that was read up to the cursor and now lies beside `path`, or return None.

    The second value is True if a file was rotated between that one and this: its lines were never read.
    """
    folder, base = os.path.split(path)
    inodes = _inodes(folder, policy)
    copies = [name for name in inodes if name.startswith(base) and name != base][:MOST_COMPARED]
    moved = [name for name, inode in inodes.items() if inode == seen.inode and name != base]
    for name in moved + (copies if seen.mark and seen.offset else []):
        candidate = _open_beside(folder, name, policy, context)
        if candidate is None:
            continue
        if (name in copies or seen.is_of(candidate)) and seen.precedes(candidate):
            return candidate, _newer(candidate, descriptor, folder, copies, policy, context)
        os.close(candidate)
    return None


def moved_file(seen: Cursor, path: str, policy: Any, context: Context) -> int | None:
    """Open the file of a cursor under the name that it has now, beside `path`; return None if it is gone."""
    folder, base = os.path.split(path)
    for name, inode in _inodes(folder, policy).items():
        if inode != seen.inode or name == base:
            continue
        found = _open_beside(folder, name, policy, context)
        if found is not None and seen.is_of(found) and seen.precedes(found):
            return found
        if found is not None:
            os.close(found)
    return None


def _inodes(folder: str, policy: Any) -> dict[str, int]:
    """Return the names of the folder with their inode numbers; none if the policy grants a single file of it."""
    try:
        _, place = files.granted_path(CALL, folder, policy)
        opened = safe_open.folder(place)
    except CallFailed:
        return {}
    except OSError as fault:
        demand_descriptor(folder, fault)
        return {}
    try:
        with os.scandir(opened) as entries:
            return {entry.name: entry.inode() for entry, _ in zip(entries, range(MOST_NAMES), strict=False)}
    finally:
        os.close(opened)


def _open_beside(folder: str, name: str, policy: Any, context: Context) -> int | None:
    """Open a regular file of the folder by the rules of all others, or return None."""
    try:
        _, place = files.granted_path(CALL, os.path.join(folder, name), policy)
        return files.open_beneath(place, policy, context)
    except OSError as fault:
        demand_descriptor(os.path.join(folder, name), fault)
        return None
    except (CallFailed, UnicodeError):
        return None


def _newer(old: int, new: int, folder: str, names: list[str], policy: Any, context: Context) -> bool:
    """Return True if another file of these was last written to between the old file and the new one."""
    first, known = os.fstat(old).st_mtime, {os.fstat(old).st_ino, os.fstat(new).st_ino}
    for status in _states(folder, names, policy, context):
        if status.st_mtime > first and status.st_ino not in known:
            return True
    return False


def _states(folder: str, names: list[str], policy: Any, context: Context) -> Iterator[os.stat_result]:
    for name in names:
        descriptor = _open_beside(folder, name, policy, context) if any(map(str.isdigit, name)) else None
        if descriptor is not None:
            yield os.fstat(descriptor)
            os.close(descriptor)
