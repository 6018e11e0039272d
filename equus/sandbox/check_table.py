"""Read a check's table, and validate the arguments of a run against it. Pure; the rules stand in docs/checks.rst.

It works on plain values taken out of Lua, so that the linter and the worker apply the same rules.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import field, frozen

from equus_protocol.ranges import Range
from groundwork.check_notes import NO_NOTES, CheckNotes, read_all
from groundwork.check_notes import READERS as NOTES
from groundwork.durations import parse_duration
from groundwork.figures import is_double

DEFAULT_TIMEOUT = 10.0
TYPES = ("string", "number", "integer", "boolean", "range", "duration", "list")
FIELDS = ("summary", "needs", "every", "timeout", "args", "run", "attempts", *NOTES)
MOST_ATTEMPTS = 100  # as in assignments.toml
ARGUMENT_FIELDS = ("type", "default", "required", "choices", "min", "max", "help")
_ARGUMENT_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CAPABILITY = re.compile(r"[a-z][a-z0-9_]{0,31}")


class BadTable(ValueError):
    """Reports a check whose table breaks a rule; the text is a sentence for the check's author."""


class BadArguments(ValueError):
    """Reports arguments that a check doesn't take; the text names the argument."""


@frozen
class Argument:
    """Describes one declared argument of a check."""

    type: str
    default: Any = None
    required: bool = False
    choices: tuple[Any, ...] = ()
    min: float | None = None
    max: float | None = None
    help: str = ""

    def read(self, value: Any) -> Any:
        """Return the value as `run` sees it.

        Raises ValueError if it is not allowed; the text is the rest of a sentence that begins with the argument.
        """
        value = _READERS[self.type](value)
        if self.choices and value not in self.choices:
            raise ValueError(f"must be one of {', '.join(map(str, self.choices))}")
        if self.min is not None and value < self.min:
            raise ValueError(f"must be at least {self.min:g}")
        if self.max is not None and value > self.max:
            raise ValueError(f"must be at most {self.max:g}")
        return value


@frozen
class CheckTable:
    """Holds the declared data of a check. Times are in seconds."""

    summary: str
    needs: tuple[str, ...] = ()
    every: float | None = None
    timeout: float = DEFAULT_TIMEOUT
    args: dict[str, Argument] = field(factory=dict)
    attempts: int | None = None  # bad results in a row that confirm a problem; None: as for all checks
    notes: CheckNotes = NO_NOTES  # for people

    def read_arguments(self, blob: bytes) -> dict[str, Any]:
        """Return the checked arguments of one run by name, defaults filled in. Raises BadArguments if one is wrong."""
        given = _read_object(blob)
        for name in given:
            if name not in self.args:
                raise BadArguments(f'there is no argument "{name}"; this check takes {", ".join(self.args) or "none"}')
        return {name: self._value(name, argument, given.get(name)) for name, argument in self.args.items()}

    def _value(self, name: str, argument: Argument, given: Any) -> Any:
        if given is None:
            if argument.required:
                raise BadArguments(f'the argument "{name}" is missing')
            return argument.default
        try:
            return argument.read(given)
        except ValueError as fault:
            raise BadArguments(f'the argument "{name}" {fault}') from None

    def document(self) -> dict[str, Any]:
        """Return {"summary", "needs", "every", "timeout", "args": {name: {"type", ...}}}, times in seconds.

        It has "attempts", "runbook", "owner" and "notes" only if the table declares them.
        """
        attempts = {} if self.attempts is None else {"attempts": self.attempts}
        return {
            "summary": self.summary,
            "needs": list(self.needs),
            "every": self.every,
            "timeout": self.timeout,
            "args": {name: _argument_document(argument) for name, argument in self.args.items()},
            **attempts,
            **self.notes.document(),
        }


def _argument_document(argument: Argument) -> dict[str, Any]:
    fields = {name: getattr(argument, name) for name in ARGUMENT_FIELDS}
    fields["choices"] = list(argument.choices)
    return {name: value for name, value in fields.items() if name == "type" or value not in (None, False, "", [])}


def read_table(raw: Any, passes_over: bool = False) -> CheckTable:
    """Read a check's table, given without its `run`. Raises BadTable if a field is missing, wrong or unknown.

    `passes_over` leaves out fields that are unknown: a newer Helen knows what they are for, and has judged them.
    """
    if not isinstance(raw, dict):
        raise BadTable("the table of a check has names, it is not a list")
    unknown = [name for name in raw if name not in FIELDS]
    if unknown and not passes_over:
        raise BadTable(f"the table has no field {unknown[0]!r}; its fields are {', '.join(FIELDS)}")
    summary = raw.get("summary")
    if not isinstance(summary, str) or not summary.strip() or "\n" in summary:
        raise BadTable("summary must be one line that says what the check looks at")
    args = raw.get("args", {})
    if not isinstance(args, dict):
        raise BadTable("args must be a table of arguments by name")
    return CheckTable(
        summary,
        _needs(raw.get("needs", {})),
        _time("every", raw.get("every")),
        _time("timeout", raw.get("timeout")) or DEFAULT_TIMEOUT,
        {name: _argument(name, args[name]) for name in sorted(args)},
        _attempts(raw.get("attempts")),
        _notes(raw),
    )


def _notes(raw: dict[str, Any]) -> CheckNotes:
    def told(name: str, sentence: str) -> None:
        raise BadTable(f"{name} {sentence}")

    return read_all(raw, told)


def _needs(value: Any) -> tuple[str, ...]:
    names = [] if value == {} else value  # an empty Lua table is a list too
    if not isinstance(names, list) or not all(isinstance(name, str) and _CAPABILITY.fullmatch(name) for name in names):
        raise BadTable('needs must be a list of capability names, such as { "disk" }')
    return tuple(names)


def _time(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = parse_duration(value)
    except ValueError as fault:
        raise BadTable(f"{name}: {fault}") from None
    if seconds <= 0:
        raise BadTable(f"{name} must be more than nothing")
    return seconds


def _attempts(value: Any) -> int | None:
    try:
        found = None if value is None else _integer(value)
    except ValueError:
        found = 0
    if found is not None and not 1 <= found <= MOST_ATTEMPTS:
        raise BadTable(f"attempts must be a whole number from 1 to {MOST_ATTEMPTS}")
    return found


def _argument(name: str, raw: Any) -> Argument:
    where = f"args.{name}"
    if not _ARGUMENT_NAME.fullmatch(name):
        raise BadTable(f"{where}: an argument's name is a-z, 0-9 and _, beginning with a letter")
    if not isinstance(raw, dict) or raw.get("type") not in TYPES:
        raise BadTable(f"{where} needs a type: one of {', '.join(TYPES)}")
    unknown = [key for key in raw if key not in ARGUMENT_FIELDS]
    if unknown:
        raise BadTable(f"{where} has no field {unknown[0]!r}; its fields are {', '.join(ARGUMENT_FIELDS)}")
    try:
        bare = Argument(
            raw["type"],
            required=_of_type(raw, "required", bool, False),
            min=_limit(raw, "min"),
            max=_limit(raw, "max"),
            help=_of_type(raw, "help", str, ""),
        )
        choices = _of_type(raw, "choices", list, [])
        full = Argument(bare.type, None, bare.required, tuple(map(bare.read, choices)), bare.min, bare.max, bare.help)
        default = None if raw.get("default") is None else full.read(raw["default"])
    except ValueError as fault:
        raise BadTable(f"{where}: {fault}") from None
    if full.required and default is not None:
        raise BadTable(f"{where} is required, so its default is never used: leave one of them out")
    return Argument(full.type, default, full.required, full.choices, full.min, full.max, full.help)


def _of_type(raw: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = raw.get(name, default)
    if not isinstance(value, kind):
        words = {bool: "true or false", str: "a string", list: "a list that is not empty"}
        raise ValueError(f"{name} must be {words[kind]}")
    return value


def _limit(raw: dict[str, Any], name: str) -> float | None:
    if name not in raw:
        return None
    if raw["type"] not in ("number", "integer", "duration"):
        raise ValueError(f"{name} is for numbers")
    return _duration(raw[name]) if raw["type"] == "duration" else _number(raw[name])


# ------------------------------------------------------------------------------------------------ types


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def _number(value: Any) -> float:
    if not is_double(value):
        raise ValueError("must be a number")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) <= value < 2**63 or value % 1:
        raise ValueError("must be a whole number")
    return int(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _range(value: Any) -> str:
    text = f"{_number(value):.12g}" if not isinstance(value, str) else value.strip()
    try:
        Range.parse(text)
    except ValueError:
        raise ValueError(f"must be a range (10, 10:, ~:10, 10:20 or @10:20), not {text!r}") from None
    return text


def _duration(value: Any) -> float:
    try:
        seconds = parse_duration(value)
    except ValueError:
        raise ValueError('must be a duration such as "10s", or a number of seconds') from None
    return seconds if isinstance(value, str) else value  # a whole number stays one in Lua


def _strings(value: Any) -> list[str]:
    items = [] if value == {} else value  # an empty Lua table
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError("must be a list of strings")
    return items


_READERS = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "range": _range,
    "duration": _duration,
    "list": _strings,
}


# ------------------------------------------------------------------------------------------------ JSON of the caller


def _read_object(blob: bytes) -> dict[str, Any]:
    """Read a JSON object; no bytes are an empty one."""
    if not blob:
        return {}
    try:
        document = json.loads(blob.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadArguments("the arguments are not UTF-8") from None
    except RecursionError:
        raise BadArguments("the arguments are nested too deep") from None
    except ValueError as fault:
        raise BadArguments(f"the arguments are not JSON: {fault}") from None
    if not isinstance(document, dict):
        raise BadArguments("the arguments are not a JSON object")
    return document
