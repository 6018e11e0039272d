"""Perform calls of `kernel` that are counters of the whole machine: pressure, memory events, open files, conntrack."""

import re
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, positional
from equus.capabilities.kernel.entries import number_of, present, whole

_PRESSURE = re.compile(r"^(some|full) avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)$", re.MULTILINE)
_COUNTER = re.compile(r"^([a-z][a-z0-9_]*) (\d{1,20})$", re.MULTILINE)
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack"
# Columns of /proc/net/stat/nf_conntrack that mean lost packets or connections.
_LOST = ("drop", "early_drop", "insert_failed", "search_restart", "invalid")


def pressure(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.kernel.pressure: return how long tasks waited for processors, memory and disks.

    Raises CallFailed("unsupported") if the kernel does not measure it.
    """
    positional("host.kernel.pressure", args)
    found: dict[str, Any] = {}
    for resource in ("cpu", "memory", "io"):
        # With psi=0 on the kernel's command line the files are there, and reading them fails.
        lines = context.read_some(f"/proc/pressure/{resource}")
        for kind, ten, sixty, long, total in _PRESSURE.findall(lines):
            shares = {"percent_10s": float(ten), "percent_60s": float(sixty), "percent_300s": float(long)}
            found.setdefault(resource, {})[kind] = shares | {"seconds": int(total) / 1e6}
    if not found:
        raise CallFailed("unsupported", "this host has no /proc/pressure: its kernel does not measure pressure (psi=1)")
    return found


def vmstat(args: list[Any], policy: Any, context: Context) -> dict[str, int]:
    """Perform host.kernel.vmstat: return the counters of /proc/vmstat by the kernel's own names."""
    positional("host.kernel.vmstat", args)
    found = {name: int(value) for name, value in _COUNTER.findall(context.read("/proc/vmstat"))}
    if not found:
        raise CallFailed("unsupported", "/proc/vmstat of this host has no counters")
    return found


def files(args: list[Any], policy: Any, context: Context) -> dict[str, int]:
    """Perform host.kernel.files: return the open files and inodes of the whole machine, and their limits."""
    positional("host.kernel.files", args)
    numbers = [whole(word) for word in (context.read_line("/proc/sys/fs/file-nr") or "").split()]
    if len(numbers) != 3 or None in numbers:
        raise CallFailed("unsupported", "this host has no /proc/sys/fs/file-nr with its three numbers")
    allocated, unused, most = numbers
    inodes = [whole(word) for word in (context.read_line("/proc/sys/fs/inode-nr") or "").split()]
    return {"open": (allocated or 0) - (unused or 0)} | present(
        {
            "most": most,
            "most_of_process": number_of(context, "/proc/sys/fs/nr_open"),
            "inodes": inodes[0] if len(inodes) == 2 else None,
            "inodes_free": inodes[1] if len(inodes) == 2 else None,
        }
    )


def conntrack(args: list[Any], policy: Any, context: Context) -> dict[str, int]:
    """Perform host.kernel.conntrack: return the tracked connections, their limit, and what was lost.

    Raises CallFailed("unsupported") if the kernel tracks no connections.
    """
    positional("host.kernel.conntrack", args)
    count, most = number_of(context, f"{_CONNTRACK}_count"), number_of(context, f"{_CONNTRACK}_max")
    if count is None or most is None:
        raise CallFailed("unsupported", "this host tracks no connections (nf_conntrack is not loaded)")
    return {"count": count, "most": most, **_lost(context)}


def _lost(context: Context) -> dict[str, int]:
    """Return the sums over all processors; none if the kernel has no such file. Its numbers are hexadecimal."""
    head, *rows = [line.split() for line in context.read_some("/proc/net/stat/nf_conntrack").splitlines()] or [[]]
    places = {name: head.index(name) for name in _LOST if name in head}
    try:
        return {name: sum(int(row[at], 16) for row in rows) for name, at in places.items()}
    except (IndexError, ValueError):
        return {}


CALLS: dict[str, Perform] = {
    "kernel.pressure": pressure,
    "kernel.vmstat": vmstat,
    "kernel.files": files,
    "kernel.conntrack": conntrack,
}
