"""Perform the capability `plugin`: run a program that the host's policy names, and parse its output as a plugin's.

The policy says which program, with which arguments and as which user; equus/processes runs and ends it;
equus_protocol/plugin_text.py parses the text.
"""

from typing import Any

from equus.capabilities.calls import Context, Perform, positional, text_argument
from equus.capabilities.programs.allowed import command_line, run_allowed, time_limit, unknown
from equus.processes.spawn import OUTPUT_FLOOD, Finished
from equus_protocol.plugin_text import contradicts, parse_plugin
from equus_protocol.results import STATUS_WORDS, to_json

STDERR_SHOWN = 300


def plugin(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.plugin: run a plugin and return its parsed output. Raises CallFailed if the policy names no such."""
    name, values = positional("host.plugin", args, "name", "slots")
    name = text_argument("host.plugin", "name", name, limit=128)
    entry = policy.plugin(name)
    if entry is None:
        raise unknown("plugin", name, policy)
    done, seconds = run_allowed(entry, command_line(entry, values), time_limit(entry, context))
    return _answer(entry.name, done) | {"seconds": seconds}


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


CALLS: dict[str, Perform] = {"plugin": plugin}
