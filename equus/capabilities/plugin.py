"""Perform the capability `plugin`: run a program that the host's policy names, and parse its output as a plugin's.

The policy says which program, with which arguments and as which user; equus/processes runs and ends it;
equus_protocol/plugin_text.py parses the text.
"""

import time
from typing import Any

from equus.capabilities.calls import CallFailed, Context, Perform, bad, positional, text_argument
from equus.policy.file_ownership import ownership_fault
from equus.policy.plugin_templates import Plugin
from equus.processes.accounts import plugin_user
from equus.processes.spawn import OUTPUT_FLOOD, Finished, run_program
from equus_protocol.plugin_text import contradicts, parse_plugin
from equus_protocol.results import STATUS_WORDS, to_json

# Monitoring plugins need a PATH for their tools; they get nothing of the agent's own environment.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/"}
STDERR_SHOWN = 300


def plugin(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.plugin: run a plugin and return its parsed output. Raises CallFailed if the policy names no such."""
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
    limit = context.seconds_left(entry.timeout)
    try:
        fault = ownership_fault(argv[0])
        if fault is not None:
            raise CallFailed("denied", f"plugin {entry.name} is never run like this: {fault}")
        done = run_program(argv, limit, _ENVIRONMENT, uid=_uid(entry))
    except (OSError, ValueError) as error:
        raise CallFailed("failed", f"plugin {entry.name} cannot be started: {error}") from None
    if done.timed_out:
        # Ending the program takes time, too; the text has the limit that was set. It is less if the run has less left.
        raise CallFailed("timeout", f"plugin {entry.name} timed out after {limit:.3g} s")
    return _answer(entry.name, done) | {"seconds": round(time.monotonic() - began, 6)}


def _answer(name: str, done: Finished) -> dict[str, Any]:
    # Some plugins report errors on stderr only.
    from_stdout = bool(done.stdout.strip())
    text = done.stdout if from_stdout else done.stderr[:STDERR_SHOWN]
    length = done.stdout_bytes if from_stdout else len(done.stderr)
    answer = to_json(parse_plugin(text, done.exit_status, was_cut=length > len(text)))
    answer.setdefault("metrics", [])
    left_out = answer.pop("truncated", {})
    if done.flooded and done.exit_status < 0:
        answer["summary"] = f"plugin {name} was killed: it wrote more than {OUTPUT_FLOOD >> 20} MiB"
    elif done.exit_status < 0:
        answer["summary"] = f"plugin {name} was killed by signal {-done.exit_status}"
    elif not answer["summary"]:
        answer["summary"] = f"plugin {name} said nothing (exit status {done.exit_status})"
    elif done.exit_status > 0 and contradicts(text, STATUS_WORDS.index(answer["status"])):
        answer["summary"] += f" (exit status {done.exit_status})"
    if length > len(text):
        answer["output_bytes"] = length
    if "metrics" in left_out:
        answer["metrics_total"] = left_out["metrics"]
    return answer | {"exit_status": done.exit_status, "truncated": length > len(text)}


def _uid(entry: Plugin) -> int | None:
    try:
        return plugin_user(entry.user)
    except KeyError:
        raise CallFailed("failed", f"plugin {entry.name}: this host has no user {entry.user}") from None
    except ValueError as fault:
        raise CallFailed("denied", f"plugin {entry.name} is never run like this: {fault}") from None


CALLS: dict[str, Perform] = {"plugin": plugin}
