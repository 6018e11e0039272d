"""Perform the capability `program`: run a program that the host's policy names, and return its text or parsed JSON.

An answer is whole or there is none: what a check judges by half of a program's output would be a guess.
"""

from typing import Any

from equus.capabilities.calls import CallFailed, Context, Fields, Perform, json_value
from equus.capabilities.programs.allowed import ENVIRONMENT, command_line, run_allowed, time_limit, unknown
from equus.processes.spawn import OUTPUT_FLOOD, Finished

# Bytes of standard output that one call takes. The JSON of smartctl, lvs and zpool has up to some hundred KiB.
OUTPUT_DEFAULT, OUTPUT_LIMIT = 262_144, 1_048_576
ERRORS_SHOWN = 4096
BEGINNING_SHOWN = 60


def program(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.program: run a program and return what it wrote. Raises CallFailed if that can't be had whole."""
    fields = Fields("host.program", args)
    name, values = fields.text("name", limit=128), fields.take("args")
    as_json = fields.flag("json", False)
    limit = fields.whole("limit", OUTPUT_DEFAULT, 1, OUTPUT_LIMIT)
    wanted = fields.number("timeout", 3600.0, 0.01, 3600.0)
    fields.done()
    entry = policy.program(name)
    if entry is None:
        raise unknown("program", name, policy)
    argv, seconds = command_line(entry, values), time_limit(entry, context, wanted)
    done, taken = run_allowed(entry, argv, seconds, ENVIRONMENT | {"LC_ALL": "C.UTF-8"}, max_output=limit)
    _refuse_parts(name, done, limit)
    errors = done.stderr.decode("utf-8", "replace")[:ERRORS_SHOWN]
    answer = {"errors": errors, "exit_status": done.exit_status, "seconds": taken}
    return answer | (
        {"json": _json(name, done, errors)} if as_json else {"text": done.stdout.decode("utf-8", "replace")}
    )


def _refuse_parts(name: str, done: Finished, limit: int) -> None:
    """Raise CallFailed if the output is not whole, or the program did not end by itself."""
    if done.flooded:
        raise CallFailed("too-large", f"program {name} was killed: it wrote more than {OUTPUT_FLOOD >> 20} MiB")
    if done.stdout_bytes > limit:
        more = "ask the program for less" if limit == OUTPUT_LIMIT else f"raise limit, to at most {OUTPUT_LIMIT}"
        text = f"program {name} wrote {done.stdout_bytes} bytes, and this call takes {limit}: {more}"
        raise CallFailed("too-large", text)
    if done.exit_status < 0:
        raise CallFailed("failed", f"program {name} was killed by signal {-done.exit_status}")


def _json(name: str, done: Finished, errors: str) -> Any:
    text = done.stdout.decode("utf-8", "replace")
    try:
        return json_value(text, f"the output of program {name}")
    except CallFailed as failed:
        shown = text.strip()[:BEGINNING_SHOWN]
        seen = f"it begins with {shown!r}" if shown else f"it is empty; {_first_line(errors)}"
        raise CallFailed("protocol", f"{failed.text} (exit status {done.exit_status}): {seen}") from None


def _first_line(errors: str) -> str:
    line = errors.strip().partition("\n")[0][:200]
    return f"the program says: {line}" if line else "the program says nothing"


CALLS: dict[str, Perform] = {"program": program}
