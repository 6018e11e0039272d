"""`host.raid`: the software arrays of /proc/mdstat. It reads; it never touches an array."""

import re
from typing import Any

from equus.capabilities.calls import Context, Perform, positional

_HEAD = re.compile(r"^(\S+) : (active|inactive)((?: \([\w-]+\))*)(?: (\S+))?(.*)$")
_DEVICE = re.compile(r"([\w/!-]+)\[\d+\]((?:\([A-Z]\))*)")
_SLOTS = re.compile(r"\[(\d+)/(\d+)\] \[([U_]+)\]")
_ACTION = re.compile(r"(resync|recovery|reshape|check)\s*=\s*(?:([\d.]+)%|DELAYED|PENDING)")


def parse_mdstat(text: str) -> list[dict[str, Any]]:
    """Arrays in the order of the file."""
    arrays: list[dict[str, Any]] = []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head and head[1] not in ("Personalities", "unused"):
            arrays.append(_array(head))
        elif arrays and line.startswith(" "):
            _detail(arrays[-1], line)
    return arrays


def _array(head: re.Match[str]) -> dict[str, Any]:
    level, rest = head[4] or "", head[5]
    if "[" in level:  # an inactive array has no level: its first device stands there
        level, rest = "", f"{level} {rest}"
    devices = _DEVICE.findall(rest)
    failed = [name for name, flags in devices if "(F)" in flags]
    spares = [name for name, flags in devices if "(S)" in flags]
    members = len(devices) - len(spares)
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
    }


def _detail(array: dict[str, Any], line: str) -> None:
    slots, action = _SLOTS.search(line), _ACTION.search(line)
    if slots:
        array["members"], array["working"] = int(slots[1]), int(slots[2])
        array["degraded"] = int(slots[2]) < int(slots[1])
    if action:
        array["action"], array["progress_percent"] = action[1], float(action[2] or 0.0)


def raid(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """The arrays of this host."""
    positional("host.raid", args)
    return parse_mdstat(context.read("/proc/mdstat"))


CALLS: dict[str, Perform] = {"raid": raid}
