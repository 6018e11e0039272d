"""Choose the users of an agent that runs as root: one for the workers of checks, and one for programs of the host.

A user that other programs of the host have, such as nobody, would let these signal, or look at, the workers.
"""

from __future__ import annotations

import os
import pwd

WORKERS, PLUGINS = "equus-worker", "equus-plugins"
# Where there is no such account, the workers get the first of these numbers that no account has. They are in no range
# that distributions, containers or systemd (DynamicUser=, to 65519) give out.
SPARE = range(65_530, 65_519, -1)


def worker_user() -> tuple[int, int]:
    """Return user and group of the workers, where the agent is root. May ask the host's directory of users."""
    found = _account(WORKERS)
    if found is not None and found.pw_uid != 0:
        return found.pw_uid, found.pw_gid
    number = next((number for number in SPARE if not _is_taken(number)), SPARE[0])
    return number, number


def plugin_user(name: str | None) -> int | None:
    """Return the user id for a program whose policy names the user `name`, or None for the agent's own.

    Raises KeyError if there is no user of that name, ValueError if the workers of checks have it.
    """
    found = pwd.getpwnam(name) if name is not None else _account(PLUGINS) if os.geteuid() == 0 else None
    if found is None or found.pw_uid == os.geteuid():
        return None
    if os.geteuid() == 0 and found.pw_uid == worker_user()[0]:
        raise ValueError(f"user {found.pw_name} is that of the workers of checks, which no program may share")
    return found.pw_uid


def run_as_root(users: list[str | None]) -> bool:
    """Return True if a program with one of these users (None: none is named) would run as root."""
    return os.geteuid() == 0 and None in users and _account(PLUGINS) is None


def _account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _is_taken(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True
