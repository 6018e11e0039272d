"""Perform the capabilities `disk_io` and `net_io`: counters of devices and interfaces, and rates over a window."""

import os
from typing import Any

from equus.capabilities.calls import Context, Perform, positional
from equus.capabilities.cpu import window_argument
from equus.capabilities.machine import percent

# /proc/diskstats counts sectors of 512 bytes, whatever the sector size of the device is.
_SECTOR = 512
# Container hosts have some thousand interfaces; a longer answer would exceed a run's byte budget.
MOST_DEVICES = 4096
_USUALLY_IDLE = ("loop", "ram", "zram", "sr", "fd")


def read_disks(context: Context) -> dict[str, dict[str, Any]]:
    """Return {device: counters} of whole devices, not partitions."""
    rows = [line.split() for line in context.read("/proc/diskstats").splitlines()][:MOST_DEVICES]
    whole = (row for row in rows if len(row) >= 14 and _is_whole(row[2], context))
    return {
        row[2]: _disk_counters(row) for row in whole if any(map(int, row[3:11])) or not row[2].startswith(_USUALLY_IDLE)
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


def increase(before: dict[str, Any], now: dict[str, Any], name: str) -> float:
    """Return the increase of a counter; one that was reset (a device was replugged) counts from 0."""
    return float(now[name] - before[name] if now[name] >= before[name] else now[name])


def disk_io(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Perform host.disk_io: return each whole device with its counters and rates."""
    (seconds,) = positional("host.disk_io", args, "seconds")
    window = window_argument("host.disk_io", seconds)
    covered, before, now = context.sampler.over(
        f"disk_io {context.root}", lambda: read_disks(context), window, context.seconds_left(window)
    )
    return [{"device": name, **_disk_rates(before.get(name, now[name]), now[name], covered)} for name in sorted(now)]


def _disk_rates(before: dict[str, Any], now: dict[str, Any], covered: float) -> dict[str, Any]:
    requests = increase(before, now, "reads") + increase(before, now, "writes")
    waited = increase(before, now, "read_seconds") + increase(before, now, "write_seconds")
    rates = {
        f"{name}_per_second": round(increase(before, now, name) / covered, 3)
        for name in ("reads", "writes", "read_bytes", "written_bytes")
    }
    return {
        **now,
        "window_seconds": round(covered, 3),
        **rates,
        "busy_percent": min(100.0, percent(increase(before, now, "busy_seconds"), covered)),
        "wait_seconds": round(waited / requests, 6) if requests else 0.0,
    }


_NET_COLUMNS = {
    "received_bytes": 0, "received_packets": 1, "receive_errors": 2, "receive_dropped": 3,
    "sent_bytes": 8, "sent_packets": 9, "send_errors": 10, "send_dropped": 11,
}  # fmt: skip


def read_interfaces(context: Context) -> dict[str, dict[str, int]]:
    """Return {interface: counters}."""
    found = {}
    for line in context.read("/proc/net/dev").splitlines()[2 : MOST_DEVICES + 2]:
        name, _, columns = line.rpartition(":")
        counts = columns.split()
        if name and len(counts) >= 12:
            found[name.strip()] = {field: int(counts[column]) for field, column in _NET_COLUMNS.items()}
    return found


def net_io(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Perform host.net_io: return each interface with its counters, rates and link state."""
    (seconds,) = positional("host.net_io", args, "seconds")
    window = window_argument("host.net_io", seconds)
    covered, before, now = context.sampler.over(
        f"net_io {context.root}", lambda: read_interfaces(context), window, context.seconds_left(window)
    )
    answer = []
    for name in sorted(now):
        old = before.get(name, now[name])
        rates = {
            f"{one}_per_second": round(increase(old, now[name], one) / covered, 3)
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
