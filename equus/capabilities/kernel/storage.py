"""Perform calls of `kernel` about filesystems that manage disks themselves: pools of ZFS, devices of Btrfs."""

import re
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, positional
from equus.capabilities.kernel.entries import names_in, number_of, present, required_names

ZFS, BTRFS = "/proc/spl/kstat/zfs", "/sys/fs/btrfs"
_CACHE = re.compile(r"^(size|c_max|c_min|hits|misses) +\d+ +(\d{1,20})$", re.MULTILINE)
_CACHE_NAMES = {"size": "bytes", "c_max": "most_bytes", "c_min": "least_bytes", "hits": "hits", "misses": "misses"}
_ERROR = re.compile(r"^(write|read|flush|corruption|generation)_errs (\d{1,20})$", re.MULTILINE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SPACES = ("data", "metadata", "system")


def zfs(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.kernel.zfs: return the pools with their state, and the figures of the cache."""
    positional("host.kernel.zfs", args)
    if not names_in(context, ZFS):
        raise CallFailed("unsupported", f"this host has no ZFS ({ZFS} has no entries)")
    states = {name: context.read_line(f"{ZFS}/{name}/state") for name in names_in(context, ZFS)}
    found = dict(_CACHE.findall(context.read_some(f"{ZFS}/arcstats")))
    return {
        "pools": [{"name": name, "state": state} for name, state in states.items() if state],
        "cache": {_CACHE_NAMES[name]: int(value) for name, value in found.items()},
    }


def btrfs(args: list[Any], policy: Any, context: Context) -> list[dict[str, Any]]:
    """Perform host.kernel.btrfs: return each mounted filesystem with its space and the errors of its devices."""
    positional("host.kernel.btrfs", args)
    uuids = [name for name in required_names(context, BTRFS, "Btrfs") if _UUID.fullmatch(name)]
    return [_filesystem(uuid, context) for uuid in uuids]


def _filesystem(uuid: str, context: Context) -> dict[str, Any]:
    folder = f"{BTRFS}/{uuid}"
    devices = [
        _device(f"{folder}/devinfo/{number}", number, context) for number in names_in(context, f"{folder}/devinfo")
    ]
    return {
        "uuid": uuid,
        "label": context.read_line(f"{folder}/label") or "",
        "names": names_in(context, f"{folder}/devices"),
        "devices": devices,
        **{space: _space(f"{folder}/allocation/{space}", context) for space in _SPACES},
    }


def _device(folder: str, number: str, context: Context) -> dict[str, Any]:
    """Return one device. Kernels before 5.14 have no counts of errors here, so that `errors` is empty."""
    errors = {name: int(count) for name, count in _ERROR.findall(context.read_some(f"{folder}/error_stats"))}
    missing = context.read_line(f"{folder}/missing") == "1"
    return {"id": number, "missing": missing, "errors": errors}


def _space(folder: str, context: Context) -> dict[str, int]:
    return present(
        {
            "total_bytes": number_of(context, f"{folder}/total_bytes"),
            "used_bytes": number_of(context, f"{folder}/bytes_used"),
        }
    )


CALLS: dict[str, Perform] = {"kernel.zfs": zfs, "kernel.btrfs": btrfs}
