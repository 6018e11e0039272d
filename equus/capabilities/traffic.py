"""The capabilities `disk_io` and `net_io`: counters of block devices and interfaces, and their rates over a window."""

import os
from typing import Any

from equus.capabilities.calls import Context, Perform, positional
from equus.capabilities.cpu import window_argument
from equus.capabilities.machine import percent

# The kernel counts in /proc/diskstats by sectors of 512 bytes, whatever the device's own.
_SECTOR = 512
# Container hosts have some thousand interfaces; beyond this the answer would pass a run's byte budget.
MOST_DEVICES = 4096
_IDLE_ANYWAY = ("loop", "ram", "zram", "sr", "fd")


def read_disks(context: Context) -> dict[str, dict[str, Any]]:
    """Counters by whole device."""
    rows = [line.split() for line in context.read("/proc/diskstats").splitlines()][:MOST_DEVICES]
    whole = (row for row in rows if len(row) >= 14 and _is_whole(row[2], context))
    return {
        row[2]: _disk_counters(row) for row in whole if any(map(int, row[3:11])) or not row[2].startswith(_IDLE_ANYWAY)
    }


def _is_whole(name: str, context: Context) -> bool:
    # /sys/block lists whole devices only, with "!" for the "/" of names such as cciss/c0d0.
    return os.path.exists(context.path(f"/sys/block/{name.replace('/', '!')}"))


def _disk_counters(row: list[str]) -> dict[str, Any]:
    reads, _, read_sectors, read_ms, writes, _, written_sectors, write_ms, in_flight, busy_ms = map(int, row[3:13])
    return {
        "reads": reads,
        "writes": writes,
        "read_bytes": read_sectors * _SECTOR,
        "written_bytes": written_sectors * _SECTOR,
        "read_seconds": read_ms / 1000,
        "write_seconds": write_ms / 1000,
        "busy_seconds": busy_ms / 1000,
        "in_flight": in_flight,
    }


def grown(before: dict[str, Any], now: dict[str, Any], name: str) -> float:
    """How far a counter went; one that was reset (a device replugged) counts from 0."""
    return float(now[name] - before[name] if now[name] >= before[name] else now[name])


def disk_io(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Each whole device with its counters and rates."""
    (seconds,) = positional("host.disk_io", args, "seconds")
    window = window_argument("host.disk_io", seconds)
    covered, before, now = context.sampler.over(
        f"disk_io {context.root}", lambda: read_disks(context), window, context.seconds_left(window)
    )
    return [{"device": name, **_disk_rates(before.get(name, now[name]), now[name], covered)} for name in sorted(now)]


def _disk_rates(before: dict[str, Any], now: dict[str, Any], covered: float) -> dict[str, Any]:
    requests = grown(before, now, "reads") + grown(before, now, "writes")
    waited = grown(before, now, "read_seconds") + grown(before, now, "write_seconds")
    rates = {
        f"{name}_per_second": round(grown(before, now, name) / covered, 3)
        for name in ("reads", "writes", "read_bytes", "written_bytes")
    }
    return {
        **now,
        "window_seconds": round(covered, 3),
        **rates,
        "busy_percent": min(100.0, percent(grown(before, now, "busy_seconds"), covered)),
        "wait_seconds": round(waited / requests, 6) if requests else 0.0,
    }


_NET_COLUMNS = {
    "received_bytes": 0, "received_packets": 1, "receive_errors": 2, "receive_dropped": 3,
    "sent_bytes": 8, "sent_packets": 9, "send_errors": 10, "send_dropped": 11,
}  # fmt: skip


def read_interfaces(context: Context) -> dict[str, dict[str, int]]:
    """Counters by interface."""
    found = {}
    for line in context.read("/proc/net/dev").splitlines()[2 : MOST_DEVICES + 2]:
        name, _, columns = line.rpartition(":")
        counts = columns.split()
        if name and len(counts) >= 12:
            found[name.strip()] = {field: int(counts[column]) for field, column in _NET_COLUMNS.items()}
    return found


def net_io(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Each interface with its counters, rates and link state."""
    (seconds,) = positional("host.net_io", args, "seconds")
    window = window_argument("host.net_io", seconds)
    covered, before, now = context.sampler.over(
        f"net_io {context.root}", lambda: read_interfaces(context), window, context.seconds_left(window)
    )
    answer = []
    for name in sorted(now):
        old = before.get(name, now[name])
        rates = {
            f"{one}_per_second": round(grown(old, now[name], one) / covered, 3)
            for one in ("received_bytes", "sent_bytes")
        }
        answer.append(
            {"interface": name, **now[name], "window_seconds": round(covered, 3), **rates, **_link(name, context)}
        )
    return answer


def _link(name: str, context: Context) -> dict[str, Any]:
    def of(field: str) -> str:
        return context.read_line(f"/sys/class/net/{name}/{field}") or ""

    carrier, speed, flags, mtu = of("carrier"), of("speed"), of("flags"), of("mtu")
    link: dict[str, Any] = {
        "up": bool(int(flags, 16) & 1) if flags.startswith("0x") else False,
        "address": of("address"),
    }
    if carrier in ("0", "1"):
        link["carrier"] = carrier == "1"
    # Virtual links answer -1 or nothing.
    if speed.isdigit() and int(speed) > 0:
        link["speed_bits_per_second"] = int(speed) * 1_000_000
    if mtu.isdigit():
        link["mtu"] = int(mtu)
    return link


CALLS: dict[str, Perform] = {"disk_io": disk_io, "net_io": net_io}
