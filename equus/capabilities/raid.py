"""Perform `host.raid`: read the software arrays from /proc/mdstat. Never touches an array."""

import re
from typing import Any

from equus.capabilities.calls import Context, Perform, positional

# The state is any word: besides "active" and "inactive" there is "broken", and a later kernel may have more.
_HEAD = re.compile(r"^(\S+) : (\S+)((?: \([\w-]+\))*)(?: (\S+))?(.*)$")
_DEVICE = re.compile(r"([\w/!-]+)\[\d+\]((?:\([A-Z]\))*)")
# Firmware RAID (imsm, ddf): the container names its format, and the arrays in it name the container, as in
# "external:/md127/0".
_CONTAINER = re.compile(r"\bsuper external:(?!/)\S")
_SLOTS = re.compile(r"\[(\d+)/(\d+)\] \[([U_]+)\]")
_ACTION = re.compile(r"(resync|recovery|reshape|check)\s*=\s*(?:([\d.]+)%|DELAYED|PENDING|REMOTE)")


def parse_mdstat(text: str) -> list[dict[str, Any]]:
    """Parse /proc/mdstat into its arrays, in the order of the file."""
    arrays: list[dict[str, Any]] = []
    last = None  # the array that the indented lines belong to
    for line in text.splitlines():
        if line.startswith((" ", "\t")):
            if last is not None:
                _detail(last, line)
        elif line:
            head = _HEAD.match(line)
            last = _array(head) if head and head[1] != "Personalities" else None
            arrays += [last] if last is not None else []
    return arrays


def _array(head: re.Match[str]) -> dict[str, Any]:
    level, rest = head[4] or "", head[5]
    if "[" in level:  # an inactive array has no level, but its first device in that place
        level, rest = "", f"{level} {rest}"
    devices = _DEVICE.findall(rest)
    failed = [name for name, flags in devices if "(F)" in flags]
    spares = [name for name, flags in devices if "(S)" in flags]
    members = len(devices) - len(spares)
    state = {} if head[2] == "active" else {"state": head[2]}
    return {
        "name": head[1],
        "level": level,
        "active": head[2] == "active",
        "read_only": "read-only" in head[3],
        "members": members,
        "working": members - len(failed),
        "failed": failed,
        "spares": spares,
        "degraded": bool(failed),
        "action": "",
        "progress_percent": 100.0,
        **state,
    }


def _detail(array: dict[str, Any], line: str) -> None:
    slots, action = _SLOTS.search(line), _ACTION.search(line)
    if slots:
        array["members"], array["working"] = int(slots[1]), int(slots[2])
        array["degraded"] = int(slots[2]) < int(slots[1])
    if _CONTAINER.search(line):
        array["container"] = True
    if action:
        array["action"], array["progress_percent"] = action[1], float(action[2] or 0.0)


def raid(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Return the arrays of this host."""
    positional("host.raid", args)
    return parse_mdstat(context.read("/proc/mdstat"))


CALLS: dict[str, Perform] = {"raid": raid}
