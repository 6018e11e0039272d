"""Perform the capability `procs`: count processes of a kind, and list the largest. Never sends a signal."""

import os
import pwd
import time
from collections import Counter
from typing import Any

from attrs import frozen

from equus.capabilities.calls import CallFailed, Context, Fields, Perform, demand_descriptor

# The kernel's limit of pids is 4,194,304, but more processes than this can't be read within a run's time.
MOST_PROCESSES = 100_000
MOST_LISTED = 200
COMMAND_BYTES = 4096
STATES = "RSDZTI"


@frozen
class Process:
    """Holds one line of /proc/PID/stat, in plain units."""

    pid: int
    parent: int
    name: str
    state: str
    threads: int
    resident_bytes: int
    cpu_seconds: float
    started: float  # seconds after boot


def parse_stat(text: str) -> Process:
    """Parse /proc/PID/stat. The name may contain blanks and brackets; the last bracket ends it."""
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    tick = os.sysconf("SC_CLK_TCK")
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        name=name,
        # t is a traced stop, W and P have come and gone, X is never seen for long.
        state={"t": "T"}.get(fields[0], fields[0]),
        threads=int(fields[17]),
        resident_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / tick,
        started=int(fields[19]) / tick,
    )


def all_processes(context: Context) -> list[Process]:
    """Return all processes. Raises CallFailed if /proc can't be listed, or there are too many."""
    try:
        names = [name for name in os.listdir(context.path("/proc")) if name.isdigit()]
    except OSError as fault:
        demand_descriptor("/proc", fault)
        raise CallFailed("unsupported", "/proc cannot be listed on this host") from None
    if len(names) > MOST_PROCESSES:
        raise CallFailed(
            "too-large", f"{len(names)} processes are more than the {MOST_PROCESSES} that one call looks at"
        )
    texts = (context.read_line(f"/proc/{name}/stat") for name in names)
    return [parse_stat(text) for text in texts if text]


def user_of(pid: int, context: Context) -> int:
    """Return the real uid, or -1 if the process has ended. (The owner of /proc/PID is root for some daemons.)"""
    status = context.read_line(f"/proc/{pid}/status") or ""
    _, _, rest = status.partition("\nUid:")
    return int(rest.split(None, 1)[0]) if rest else -1


def user_number(text: str) -> int:
    """Return the uid of a user's name or number. Raises CallFailed("not-found") if there is no such user."""
    if text.isdigit():
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise CallFailed("not-found", f"this host has no user {text}") from None


def user_name(uid: int) -> str:
    """Return the user name of a uid, or the number as text."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def command_line(pid: int, context: Context) -> str:
    """Return the command line with blanks between its words."""
    try:
        with open(context.path(f"/proc/{pid}/cmdline"), "rb") as file:
            return file.read(COMMAND_BYTES).rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError as fault:
        demand_descriptor(f"/proc/{pid}/cmdline", fault)
        return ""


def procs(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.procs: return counts of the matching processes, and the largest. Raises CallFailed if denied."""
    fields = Fields("host.procs", args)
    name, user = fields.optional_text("name", 64), fields.optional_text("user", 64)
    state, command = fields.choice("state", None, tuple(STATES)), fields.optional_text("command")
    limit = fields.whole("limit", 20, 0, MOST_LISTED)
    fields.done()
    if command is not None and not policy.may_see_commands():
        raise CallFailed("denied", policy.refusal("procs", "looking at command lines", "command_lines = true"))
    found = [one for one in all_processes(context) if name in (None, one.name) and state in (None, one.state)]
    if user is not None:
        wanted = user_number(user)
        found = [one for one in found if user_of(one.pid, context) == wanted]
    if command is not None:
        found = [one for one in found if command in command_line(one.pid, context)]
    return _answer(found, limit, policy.may_see_commands(), context)


def _answer(found: list[Process], limit: int, commands: bool, context: Context) -> dict[str, Any]:
    states = Counter(one.state for one in found)
    largest = sorted(found, key=lambda one: (-one.resident_bytes, one.pid))[:limit]
    uptime = float(context.read("/proc/uptime").split()[0])
    boot = time.time() - uptime
    newest = max((one.started for one in found), default=None)
    youngest = {} if newest is None else {"youngest_age_seconds": round(max(0.0, uptime - newest), 2)}
    return {
        "count": len(found),
        "threads": sum(one.threads for one in found),
        "resident_bytes": sum(one.resident_bytes for one in found),
        "cpu_seconds": sum(one.cpu_seconds for one in found),
        **youngest,
        "by_state": {letter: states[letter] for letter in STATES},
        "list": [_listed(one, boot, commands, context) for one in largest],
    }


def _listed(one: Process, boot: float, commands: bool, context: Context) -> dict[str, Any]:
    uid = user_of(one.pid, context)
    started = boot + one.started
    entry = {
        "pid": one.pid, "parent": one.parent, "name": one.name, "state": one.state, "user": user_name(uid), "uid": uid,
        "threads": one.threads, "resident_bytes": one.resident_bytes, "cpu_seconds": one.cpu_seconds,
        "started_at": round(started, 2), "age_seconds": round(max(0.0, time.time() - started), 2),
    }  # fmt: skip
    if commands:
        entry["command"] = command_line(one.pid, context)
    return entry


CALLS: dict[str, Perform] = {"procs": procs}
