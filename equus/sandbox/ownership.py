"""Who could have written a file that we are about to trust: policy files and plugin programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path

# Links in a path are followed by hand; more than the kernel itself would follow is a loop.
_MOST_LINKS = 40


def trusted_owners() -> frozenset[int]:
    """Root, and ourselves: whoever runs as us can replace what we do anyway."""
    return frozenset({0, os.geteuid()})


def ownership_fault(path: Path | str, owners: Collection[int] | None = None) -> str | None:
    """Why somebody else could change what lies at `path`, or None. Looks at the file and every folder above it.

    Every link on the way is followed, and the folders that it leads through are looked at too.
    """
    owners = trusted_owners() if owners is None else owners
    pending = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    here, links = "/", 0
    fault = _fault(here, os.lstat(here), owners)
    while pending and fault is None:
        part = pending.pop()
        if part == "..":
            here = os.path.dirname(here)
            continue
        at = os.path.join(here, part)
        found = os.lstat(at)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                return f"{path} goes through too many links"
            target = Path(os.readlink(at))
            pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            here = "/" if target.is_absolute() else here
            fault = _wrong_owner(at, found, owners)
            continue
        here, fault = at, _fault(at, found, owners)
    return fault


def _fault(path: str, found: os.stat_result, owners: Collection[int]) -> str | None:
    writable = found.st_mode & 0o022
    # In a sticky folder such as /tmp nobody can replace what belongs to others.
    if writable and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        return f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):04o}): chmod go-w {path}"
    return _wrong_owner(path, found, owners)


def _wrong_owner(path: str, found: os.stat_result, owners: Collection[int]) -> str | None:
    if found.st_uid not in owners:
        allowed = " or ".join(str(owner) for owner in sorted(owners))
        return f"{path} belongs to user {found.st_uid}, and only user {allowed} is trusted with it: chown {path}"
    return None
