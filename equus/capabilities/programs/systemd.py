"""Perform the capability `systemd`: the state of units, as `systemctl show` prints it. Starts and stops nothing."""

import re
import time
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, text_argument
from equus.processes.spawn import run_program

SYSTEMCTL = "/usr/bin/systemctl"
SYSTEMCTL_SECONDS = 10.0
OUTPUT_BYTES = 262_144
MOST_FAILED = 200
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0", "TZ": "UTC"}
# The names of mounts are made of paths: "-.mount" is that of /, and "\\x2e" stands for a dot at the begin.
UNIT = re.compile(r"(?:[A-Za-z0-9_:\\]|-(?!-))[A-Za-z0-9:_.@\\-]{0,254}")
_TEXTS = {
    "load_state": "LoadState", "active_state": "ActiveState", "sub_state": "SubState",
    "unit_file_state": "UnitFileState",
    "description": "Description", "result": "Result",
}  # fmt: skip
_NUMBERS = {"main_pid": "MainPID", "restarts": "NRestarts", "memory_bytes": "MemoryCurrent", "tasks": "TasksCurrent"}
# systemd's "not set" is the largest number of 64 bits.
_UNSET = (1 << 64) - 1

MOST_RUNNING = 1000


def full_name(unit: str) -> str:
    """Return the name of a unit with its kind; systemd takes one without for a service."""
    return unit if "." in unit else f"{unit}.service"


def systemctl(arguments: list[str], context: Context) -> str:
    """Run systemctl and return its output. Raises CallFailed: "unsupported" on a host without systemd, or "failed"."""
    try:
        done = run_program(
            [SYSTEMCTL, *arguments], context.seconds_left(SYSTEMCTL_SECONDS), _ENVIRONMENT, max_output=OUTPUT_BYTES
        )
    except OSError as fault:
        raise CallFailed("unsupported", f"{SYSTEMCTL} cannot be run: {fault.strerror}") from None
    if done.timed_out:
        raise CallFailed("timeout", "systemctl did not answer in time")
    if done.exit_status != 0:
        text = done.stderr.decode("utf-8", "replace").strip().split("\n")[0][:200]
        unsupported = "not been booted" in text or "connect to bus" in text
        raise CallFailed("unsupported" if unsupported else "failed", f"systemctl: {text or 'no reason given'}")
    return done.stdout.decode("utf-8", "replace")


def properties(text: str) -> dict[str, str]:
    """Parse NAME=VALUE lines."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def systemd(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.systemd: return the state of one unit. Raises CallFailed if it is unknown or denied."""
    unit = text_argument("host.systemd", "unit", positional("host.systemd", args, "unit")[0], limit=255)
    if not UNIT.fullmatch(unit):
        raise bad("host.systemd: unit must be the name of a unit, such as nginx.service")
    unit = full_name(unit)
    if not policy.may_see_unit(unit):
        raise CallFailed("denied", policy.refusal("systemd", unit, f'units = ["{unit}"]'))
    asked = ",".join([*_TEXTS.values(), *_NUMBERS.values(), "StateChangeTimestampMonotonic"])
    found = properties(systemctl(["show", f"--property={asked}", "--", unit], context))
    if found.get("LoadState") == "not-found":
        raise CallFailed("not-found", f"this host has no unit {unit}")
    return describe(unit, found, context)


def describe(unit: str, found: dict[str, str], context: Context) -> dict[str, Any]:
    """Return the properties by the names of host.systemd, without the numbers that systemd does not keep."""
    answer: dict[str, Any] = {"unit": unit, **{ours: found.get(theirs, "") for ours, theirs in _TEXTS.items()}}
    for ours, theirs in _NUMBERS.items():
        text = found.get(theirs, "")
        if text.isdigit() and int(text) != _UNSET:
            answer[ours] = int(text)
    changed = found.get("StateChangeTimestampMonotonic", "")
    if changed.isdigit() and int(changed):
        boot = time.time() - float(context.read("/proc/uptime").split()[0])
        answer["since_at"] = round(boot + int(changed) / 1e6, 3)
    return answer


def systemd_failed(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.systemd_failed: return the failed units, as far as the policy lets checks see them."""
    positional("host.systemd_failed", args)
    text = systemctl(["list-units", "--state=failed", "--all", "--plain", "--no-legend", "--full"], context)
    names = [line.split()[0] for line in text.splitlines() if line.strip()]
    seen = [name for name in names if policy.may_see_unit(name)]
    return {"units": seen[:MOST_FAILED], "count": len(seen)}


def systemd_running(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.systemd_running: return the services that run, as far as the policy lets checks see them."""
    positional("host.systemd_running", args)
    asked = ["list-units", "--type=service", "--state=running", "--plain", "--no-legend", "--full"]
    names = [line.split()[0] for line in systemctl(asked, context).splitlines() if line.strip()]
    seen = [name for name in names if policy.may_see_unit(name)]
    return {"units": seen[:MOST_RUNNING], "count": len(seen)}


CALLS: dict[str, Perform] = {
    "systemd": systemd,
    "systemd_failed": systemd_failed,
    "systemd_running": systemd_running,
}
