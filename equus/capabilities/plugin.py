"""The capability `plugin`: run a program that the host's policy names, and read what it printed as a monitoring
plugin's.

What may be run, with which arguments and as whom, is the policy's; how it is run and ended is the sandbox's; what its
text means is the protocol's. Here the three meet.
"""

import os
import pwd
import time
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, text_argument
from equus.sandbox.ownership import ownership_fault
from equus.sandbox.plugins import Plugin
from equus.sandbox.spawn import run_program
from equus_protocol.results import parse_plugin, to_json

# Monitoring plugins look for their tools; nothing of the agent's own environment reaches them.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}
STDERR_SHOWN = 300


def plugin(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Run it and read it."""
    name, values = positional("host.plugin", args, "name", "slots")
    name = text_argument("host.plugin", "name", name, limit=128)
    values = values or {}
    if not isinstance(values, dict):
        raise bad("host.plugin: slots must be a table of slot = value")
    entry = policy.plugin(name)
    if entry is None:
        raise CallFailed("denied", _unknown(name, policy))
    try:
        argv = entry.argv(values)
    except ValueError as fault:
        raise bad(f"host.plugin: {fault}") from None
    return _run(entry, argv, context)


def _unknown(name: str, policy: Any) -> str:
    if policy.plugins.get(name) is not None:
        return str(policy.refusal("plugin", f"plugin {name}", f'names = ["{name}"]'))
    where = policy.path or "the host's policy"
    return f"{where} names no plugin {name}: add [plugins.{name}] with its command there (then [caps.plugin] grants it)"


def _run(entry: Plugin, argv: list[str], context: Context) -> dict[str, Any]:
    began = time.monotonic()
    try:
        fault = ownership_fault(argv[0])
        if fault is not None:
            raise CallFailed("denied", f"plugin {entry.name} is never run like this: {fault}")
        done = run_program(argv, context.seconds_left(entry.timeout), _ENVIRONMENT, uid=_uid(entry))
    except (OSError, ValueError) as error:
        raise CallFailed("failed", f"plugin {entry.name} cannot be started: {error}") from None
    seconds = round(time.monotonic() - began, 6)
    if done.timed_out:
        raise CallFailed("timeout", f"plugin {entry.name} timed out after {seconds:.0f} s")
    # Some plugins say what is wrong on the other stream only.
    text = done.stdout if done.stdout.strip() else done.stderr[:STDERR_SHOWN]
    answer = to_json(parse_plugin(text, done.exit_status))
    answer.setdefault("metrics", [])
    answer.pop("truncated", None)
    if done.exit_status < 0:
        answer["summary"] = f"plugin {entry.name} was killed by signal {-done.exit_status}"
    if not answer["summary"]:
        answer["summary"] = f"plugin {entry.name} said nothing (exit status {done.exit_status})"
    return answer | {"exit_status": done.exit_status, "seconds": seconds, "truncated": done.truncated}


def _uid(entry: Plugin) -> int | None:
    if entry.user is None:
        return None
    try:
        uid = pwd.getpwnam(entry.user).pw_uid
    except KeyError:
        raise CallFailed("failed", f"plugin {entry.name}: this host has no user {entry.user}") from None
    return None if uid == os.geteuid() else uid


CALLS: dict[str, Perform] = {"plugin": plugin}
