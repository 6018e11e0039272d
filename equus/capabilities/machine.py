"""Perform the capabilities `host`, `mem` and `load`: figures of the whole machine, from /proc and the kernel."""

import ctypes
import ctypes.util
import os
import platform
import re
import struct
import time
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, demand_descriptor, positional

# struct utmp of glibc. Its times are 32 bits wide on the older 64-bit ports (for their 32-bit programs) and 64 on
# the newer.
_UTMP_OLD = struct.Struct("<hxxi32s4s32s256shhiii4I20x")
_UTMP_NEW = struct.Struct("<hxxi32s4s32s256shhqqq4I20x4x")
_UTMP = _UTMP_NEW if platform.machine() in ("aarch64", "riscv64", "loongarch64") else _UTMP_OLD
_USER_PROCESS = 7
# Logins. A terminal server may have hundreds; this many still fit into one answer.
MOST_USERS = 1000


def info(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.info: return name, kernel and size of the machine."""
    positional("host.info", args)
    system, node, release, _, machine = os.uname()
    return {
        "hostname": node,
        "system": system,
        "release": release,
        "architecture": machine,
        "cpus": os.cpu_count() or 1,
    }


def uptime(args: list[Any], policy: Any, context: Context) -> dict[str, float]:
    """Perform host.uptime: return the seconds since the machine started."""
    positional("host.uptime", args)
    seconds = float(context.read("/proc/uptime").split()[0])
    return {"seconds": seconds, "booted_at": round(time.time() - seconds, 3)}


def memory_fields(context: Context) -> dict[str, int]:
    """Return /proc/meminfo in bytes, by the kernel's own names: {"MemTotal": 8589934592, ...}."""
    found = re.findall(r"^([\w()]+):\s+(\d+) kB$", context.read("/proc/meminfo"), re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}


def percent(part: float, whole: float) -> float:
    """Return a share from 0 to 100; 0 if the whole is 0."""
    return round(100.0 * part / whole, 3) if whole > 0 else 0.0


def mem(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.mem: return the memory in use. Page cache does not count, since programs can have it.

    Raises CallFailed("unsupported") if the kernel names no total.
    """
    positional("host.mem", args)
    kernel = memory_fields(context)
    total = kernel.get("MemTotal", 0)
    if not total:
        raise CallFailed("unsupported", "/proc/meminfo names no MemTotal")
    # Kernels before 3.14 have no MemAvailable; this sum is what `free` showed then.
    old = kernel.get("MemFree", 0) + kernel.get("Buffers", 0) + kernel.get("Cached", 0)
    available = min(kernel.get("MemAvailable", old), total)
    names = {
        "free_bytes": "MemFree", "buffers_bytes": "Buffers", "cached_bytes": "Cached", "shared_bytes": "Shmem",
        "slab_bytes": "Slab", "dirty_bytes": "Dirty", "committed_bytes": "Committed_AS",
        "commit_limit_bytes": "CommitLimit",
    }  # fmt: skip
    used = total - available
    answer = {
        "total_bytes": total,
        "available_bytes": available,
        "used_bytes": used,
        "used_percent": percent(used, total),
    }
    return answer | {ours: kernel.get(theirs, 0) for ours, theirs in names.items()}


def swap(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.swap: return swap space, and the bytes swapped in and out."""
    positional("host.swap", args)
    kernel = memory_fields(context)
    total, free = kernel.get("SwapTotal", 0), kernel.get("SwapFree", 0)
    moved = dict(re.findall(r"^(pswpin|pswpout) (\d+)$", context.read("/proc/vmstat"), re.MULTILINE))
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "total_bytes": total,
        "free_bytes": free,
        "used_bytes": total - free,
        "used_percent": percent(total - free, total),
        "in_bytes": int(moved.get("pswpin", 0)) * page,
        "out_bytes": int(moved.get("pswpout", 0)) * page,
    }


def load(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.load: return the load averages, and the number of processors to compare them with."""
    positional("host.load", args)
    one, five, fifteen, entities, _ = context.read("/proc/loadavg").split()
    running, total = entities.split("/")
    cpus = len(re.findall(r"^cpu\d", context.read("/proc/stat"), re.MULTILINE)) or 1
    return {
        "one": float(one), "five": float(five), "fifteen": float(fifteen),
        "running": int(running), "total": int(total), "cpus": cpus,
    }  # fmt: skip


def users(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Perform host.users: return the logins, from utmp or, if a distribution has no utmp, from logind."""
    positional("host.users", args)
    try:
        with open(context.path("/var/run/utmp"), "rb") as file:
            records = file.read(_UTMP.size * MOST_USERS * 4)
    except OSError as fault:
        demand_descriptor("/var/run/utmp", fault)
        return _logind_users(context)
    found = (
        _utmp_user(fields, context) for fields in _UTMP.iter_unpack(records[: len(records) // _UTMP.size * _UTMP.size])
    )
    return [user for user in found if user][:MOST_USERS]


def _utmp_user(fields: tuple[Any, ...], context: Context) -> dict[str, Any] | None:
    kind, pid, line, _, user, origin = fields[:6]
    # A process that was killed leaves its record behind.
    if kind != _USER_PROCESS or not os.path.exists(context.path(f"/proc/{pid}")):
        return None
    name, terminal, host = (text.split(b"\0", 1)[0].decode("utf-8", "replace") for text in (user, line, origin))
    return {"name": name, "terminal": terminal, "from": host, "since_at": fields[9]}


def _logind_users(context: Context) -> list[dict[str, Any]]:
    folder = "/run/systemd/sessions"
    try:
        names = sorted(name for name in os.listdir(context.path(folder)) if name.isalnum())[:MOST_USERS]
    except OSError:
        raise CallFailed("unsupported", "this host has neither /var/run/utmp nor logind") from None
    found = [
        dict(re.findall(r"^(\w+)=(.*)$", context.read_line(f"{folder}/{name}") or "", re.MULTILINE)) for name in names
    ]
    return [
        {
            "name": one["USER"], "terminal": one.get("TTY", ""), "from": one.get("REMOTE_HOST", ""),
            "since_at": int(one.get("REALTIME", "0")) / 1e6,
        }
        for one in found
        if one.get("CLASS") == "user" and "USER" in one
    ]  # fmt: skip


class _Timex(ctypes.Structure):
    """Declares struct timex of adjtimex(2)."""

    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("constant", ctypes.c_long),
        ("precision", ctypes.c_long), ("tolerance", ctypes.c_long), ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long), ("pps", ctypes.c_long * 8), ("tai", ctypes.c_int), ("padding", ctypes.c_int * 11),
    ]  # fmt: skip


_CLOCK_STATES = ("ok", "insert-leap", "delete-leap", "leap-in-progress", "leap-done", "unsynchronized")
_STA_UNSYNC, _STA_NANO = 0x40, 0x2000


def clock(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.clock: return the kernel's estimate of its own clock, which a time daemon maintains.

    Raises CallFailed("unsupported") if adjtimex fails.
    """
    positional("host.clock", args)
    timex = _Timex(modes=0)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    if state < 0:
        raise CallFailed("unsupported", f"adjtimex: {os.strerror(ctypes.get_errno())}")
    return {
        "synchronized": not timex.status & _STA_UNSYNC,
        "offset_seconds": timex.offset / (1e9 if timex.status & _STA_NANO else 1e6),
        "estimated_error_seconds": timex.esterror / 1e6,
        "max_error_seconds": timex.maxerror / 1e6,
        "frequency_ppm": round(timex.freq / 65536, 4),
        "state": _CLOCK_STATES[min(state, 5)],
    }


CALLS: dict[str, Perform] = {
    "info": info,
    "uptime": uptime,
    "users": users,
    "clock": clock,
    "swap": swap,
    "mem": mem,
    "load": load,
}
