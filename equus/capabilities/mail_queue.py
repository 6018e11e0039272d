"""Perform `host.mail_queue`: count the messages in the queues of Postfix or Exim by their files, which stay closed."""

import os
from collections.abc import Iterator
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, positional

POSTFIX, EXIM = "/var/spool/postfix", "/var/spool/exim4/input"
_QUEUES = ("incoming", "active", "deferred", "hold")
# Counting stops here: 10,000 waiting messages are a problem already, and more would take long to count.
MOST_COUNTED = 10_000
# Postfix hashes a queue over at most two levels of folders, Exim over one.
DEEPEST = 3


def _files(folder: str, depth: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if depth > 1:
                    yield from _files(entry.path, depth - 1)
            else:
                yield entry.name


def _count(folder: str, ending: str = "") -> int:
    count = 0
    try:
        for name in _files(folder, DEEPEST):
            count += name.endswith(ending)
            if count >= MOST_COUNTED:
                break
    except FileNotFoundError:
        return count
    except OSError as fault:
        raise CallFailed("failed", f"the mail queue cannot be counted: {folder}: {fault.strerror}") from None
    return count


def mail_queue(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Return the messages in each queue of the installed mail system. Raises CallFailed if there is none."""
    positional("host.mail_queue", args)
    if os.path.isdir(context.path(f"{POSTFIX}/deferred")):
        counts = {name: _count(context.path(f"{POSTFIX}/{name}")) for name in _QUEUES}
        program = "postfix"
    elif os.path.isdir(context.path(EXIM)):
        # One message is two files, NAME-H and NAME-D.
        counts = dict.fromkeys(_QUEUES, 0) | {"deferred": _count(context.path(EXIM), "-H")}
        program = "exim"
    else:
        raise CallFailed("unsupported", "this host has no queue of Postfix or Exim")
    capped = any(count >= MOST_COUNTED for count in counts.values())
    return {"program": program, "queued": sum(counts.values()), **counts, "capped": capped}


CALLS: dict[str, Perform] = {"mail_queue": mail_queue}
