"""Run a program that the host's policy names, with the arguments that it allows and as the user that it says."""

import time
from collections.abc import Mapping
from typing import Any

from equus.capabilities.calls import CallFailed, Context, bad
from equus.policy.file_ownership import ownership_fault
from equus.policy.plugin_templates import Plugin
from equus.processes.accounts import plugin_user
from equus.processes.spawn import DEFAULT_OUTPUT, Finished, run_program

# Programs need a PATH for their tools; they get nothing of the agent's own environment.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}


def unknown(kind: str, name: str, policy: Any) -> CallFailed:
    """Return the failure of a call for a program that the policy does not name, or has taken back."""
    if name in policy.named_programs(kind):
        return CallFailed("denied", str(policy.refusal(kind, f"{kind} {name}", f'names = ["{name}"]')))
    where = policy.path or "the host's policy"
    there = f"add [{kind}s.{name}] with its command there (then [caps.{kind}] grants it)"
    return CallFailed("denied", f"{where} names no {kind} {name}: {there}")


def command_line(entry: Plugin, values: Any) -> list[str]:
    """Return the command line for the values by slot. Raises CallFailed if these are wrong."""
    call = f"host.{entry.kind}"
    # An empty Lua table may arrive as an empty JSON list.
    values = {} if values is None or values == [] else values
    if not isinstance(values, dict):
        raise bad(f"{call}: its arguments must be a table of slot = value")
    try:
        return entry.argv(values)
    except ValueError as fault:
        raise bad(f"{call}: {fault}") from None


def run_allowed(
    entry: Plugin,
    argv: list[str],
    limit: float,
    env: Mapping[str, str] = ENVIRONMENT,
    max_output: int = DEFAULT_OUTPUT,
) -> tuple[Finished, float]:
    """Run a program for at most `limit` seconds, and return how it ended and the seconds that it took.

    Raises CallFailed: "denied" if another user could change the program, "failed" if it can't be started, "timeout".
    """
    what = f"{entry.kind} {entry.name}"
    began = time.monotonic()
    try:
        fault = ownership_fault(argv[0])
        if fault is not None:
            raise CallFailed("denied", f"{what} is never run like this: {fault}")
        done = run_program(argv, limit, env, uid=_uid(entry, what), max_output=max_output)
    except (OSError, ValueError) as error:
        raise CallFailed("failed", f"{what} cannot be started: {error}") from None
    if done.timed_out:
        # Ending the program takes time, too; the text has the limit that was set. It is less if the run has less left.
        raise CallFailed("timeout", f"{what} timed out after {limit:.3g} s")
    return done, round(time.monotonic() - began, 6)


def time_limit(entry: Plugin, context: Context, wanted: float = 3600.0) -> float:
    """Return the seconds that a program may take: what its policy says, or less. Raises CallFailed if none are left."""
    return context.seconds_left(min(entry.timeout, wanted))


def _uid(entry: Plugin, what: str) -> int | None:
    try:
        return plugin_user(entry.user)
    except KeyError:
        raise CallFailed("failed", f"{what}: this host has no user {entry.user}") from None
    except ValueError as fault:
        raise CallFailed("denied", f"{what} is never run like this: {fault}") from None
