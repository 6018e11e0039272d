"""Perform the capability `cpu`: shares of processor time over a window."""

import os
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, number_argument, positional
from equus.capabilities.machine import percent

FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest")
_IDLE = ("idle", "iowait")
# 600 s is what the sampler keeps.
LONGEST_WINDOW_SECONDS = 600.0


def window_argument(call: str, value: Any) -> float:
    """Return the window, in seconds, of a call that measures rates."""
    return number_argument(call, "seconds", value, 1.0, 0.1, LONGEST_WINDOW_SECONDS)


def read_stat(context: Context) -> dict[str, Any]:
    """Read /proc/stat: {"seconds": {kind: seconds of all processors}, "cpus", "machine": {counter: value}}.

    Raises CallFailed("unsupported") if it has no line for the processors.
    """
    rows = {
        words[0]: words[1:] for words in (line.split() for line in context.read("/proc/stat").splitlines()) if words
    }
    if "cpu" not in rows:
        raise CallFailed("unsupported", "/proc/stat has no line for the processors")
    tick = os.sysconf("SC_CLK_TCK")
    # Older kernels have fewer columns.
    values = [int(text) / tick for text in rows["cpu"]] + [0.0] * len(FIELDS)
    return {
        "seconds": dict(zip(FIELDS, values, strict=False)),
        "cpus": sum(name[3:].isdigit() for name in rows if name.startswith("cpu")) or 1,
        "machine": {
            name: int(rows[name][0]) for name in ("ctxt", "processes", "procs_running", "procs_blocked") if name in rows
        },
    }


def shares(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Return {"busy_percent", "user_percent", ...} of the time between two readings.

    The kernel may count iowait backwards, which counts as 0 here.
    """
    spent = {name: max(0.0, after[name] - before[name]) for name in FIELDS}
    # The kernel already counts guest time as user time.
    total = sum(seconds for name, seconds in spent.items() if name != "guest")
    parts = {f"{name}_percent": percent(seconds, total) for name, seconds in spent.items()}
    return {"busy_percent": percent(total - sum(spent[name] for name in _IDLE), total), **parts}


def cpu(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.cpu: return shares over the window, and the raw counters."""
    (seconds,) = positional("host.cpu", args, "seconds")
    window = window_argument("host.cpu", seconds)
    covered, before, now = context.sampler.over(
        f"cpu {context.root}", lambda: read_stat(context), window, context.seconds_left(window)
    )
    machine = now["machine"]
    return {
        "window_seconds": round(covered, 3),
        "cpus": now["cpus"],
        **shares(before["seconds"], now["seconds"]),
        "counters": now["seconds"],
        "context_switches": machine.get("ctxt", 0),
        "forks": machine.get("processes", 0),
        "processes_running": machine.get("procs_running", 0),
        "processes_blocked": machine.get("procs_blocked", 0),
    }


CALLS: dict[str, Perform] = {"cpu": cpu}
