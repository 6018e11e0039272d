"""Describe the machine for `loaded`, and measure the memory of the agent itself."""

from __future__ import annotations

import os
import platform
import resource
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE")


def facts() -> dict[str, Any]:
    """Return facts that don't change while the agent runs: `os`, `kernel`, `arch`, `cpus`, `memory` (bytes).

    No program is started for them.
    """
    system = os.uname()
    return {
        "os": _distribution() or system.sysname,
        "kernel": f"{system.sysname} {system.release}",
        "arch": system.machine,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory": os.sysconf("SC_PHYS_PAGES") * _PAGE,
    }


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes; its highest value ever if the kernel doesn't tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
