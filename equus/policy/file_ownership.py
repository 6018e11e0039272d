"""Find out which users could change a file that the agent is about to trust: a policy, secrets, a plugin."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from attrs import frozen

# Links in a path are followed by hand; more than the kernel itself would follow is a loop.
_MOST_LINKS = 40


@frozen
class Trusted:
    """Lists the ids of users that may own a file which the agent trusts, and of groups that may write it."""

    users: Collection[int]
    groups: Collection[int] = ()

    @classmethod
    def beside_root(cls, names: Collection[str]) -> Trusted:
        """Return root, the agent's user, and users and groups of these names. Names that don't exist are left out."""
        users, groups = set(trusted_owners()), set()
        for name in names:
            with suppress(KeyError):
                users.add(pwd.getpwnam(name).pw_uid)
            with suppress(KeyError):
                groups.add(grp.getgrnam(name).gr_gid)
        return cls(frozenset(users), frozenset(groups))

    def fault(self, path: str, found: os.stat_result) -> str | None:
        """Return a sentence if another user could change this file, or replace a file in this folder, else None."""
        others = found.st_mode & (0o002 if found.st_gid in self.groups else 0o022)
        # In a sticky folder such as /tmp users can replace only their own files.
        if others and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
            return f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):04o}): chmod go-w {path}"
        return self.wrong_owner(path, found)

    def wrong_owner(self, path: str, found: os.stat_result) -> str | None:
        """Return a sentence if the file belongs to another user, else None."""
        if found.st_uid not in self.users:
            allowed = " or ".join(str(owner) for owner in sorted(self.users))
            return f"{path} belongs to user {found.st_uid}, and only user {allowed} is trusted with it: chown {path}"
        return None


def trusted_owners() -> frozenset[int]:
    """Return the ids of root and of this user, because programs of this user could replace the agent anyway."""
    return frozenset({0, os.geteuid()})


def own_group() -> frozenset[int]:
    """Return the id of this user's group if it has no other member, as many hosts give each user one; root has none."""
    with suppress(KeyError):
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(os.getegid())
        if user.pw_uid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}:
            return frozenset({group.gr_gid})
    return frozenset()


def ownership_fault(
    path: Path | str, owners: Collection[int] | None = None, groups: Collection[int] = ()
) -> str | None:
    """Return a sentence if a user outside of `owners`, who is in none of `groups`, could change `path`, else None.

    Each folder above the file counts, because a file can be replaced there. Symbolic links are followed, and the
    folders on their way count too. `owners` are user ids, by default `trusted_owners()`. Raises OSError if a part
    is missing.
    """
    trusted = Trusted(trusted_owners() if owners is None else owners, groups)
    pending = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    here, links = "/", 0
    fault = trusted.fault(here, os.lstat(here))
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
            fault = trusted.wrong_owner(at, found)
            continue
        here, fault = at, trusted.fault(at, found)
    return fault
