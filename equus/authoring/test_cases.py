"""Read the recorded tests of a check, answer host calls from them, and compare results with them. Pure.

docs/checks.rst describes a case. A test file is data, and is read without being run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen

from equus.authoring.lint_rules import nearest
from equus.capabilities.calls import CODES
from equus.capabilities.names import CAPABILITY_OF
from equus.lua.constants import LocatedTable, NotConstant, plain, returned_value
from equus.lua.parser import parse
from equus_protocol.results import STATUS_WORDS

# Unix seconds: 14 November 2023. A fixed time lets tests write times in answers as numbers.
DEFAULT_NOW = 1_700_000_000.0
_CASE_FIELDS = ("name", "args", "host", "expect")
_EXPECT_FIELDS = ("status", "summary", "reason", "output", "truncated", "state", "metrics")
_METRIC_FIELDS = ("value", "unit", "kind", "warn", "crit", "min", "max")
_ANSWER_FIELDS = ("args", "value", "code", "text", "once")
# Relative difference of equal numbers: tests write decimals, and checks add up binary fractions.
_TOLERANCE = 1e-6


class BadCase(Exception):
    """Reports a test that can't be run as it is written; `line` is its line in the test file."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@frozen
class Answer:
    """Holds one recorded answer, a value or a failure, for calls with these arguments (None: any)."""

    args: list[Any] | None
    reply: dict[str, Any]
    once: bool


@frozen
class Case:
    """Holds one recorded test. `now`: the unix seconds that host.now() returns."""

    name: str
    line: int
    args: dict[str, Any]
    answers: dict[str, tuple[Answer, ...]] = field(repr=False)
    now: float
    state: dict[str, Any]
    expect: dict[str, Any]


# Reading ----------------------------------------------------------------------------------------------------------


def read_cases(source: bytes) -> list[Case]:
    """Read the cases of a test file. Raises LuaSyntaxError if it is no Lua, BadCase if a case is wrong."""
    try:
        data = returned_value(parse(source.decode("utf-8", "surrogateescape")))
        if not isinstance(data, LocatedTable) or (data and not isinstance(plain(data), list)):
            raise BadCase(1, "a test file returns a list of cases")
        return [_case(case, data.line_of(number)) for number, case in data.items()]
    except NotConstant as fault:
        raise BadCase(fault.line, f"{fault.text}; a test file is data") from None


def _checked_table(table: Any, fields: tuple[str, ...], line: int, what: str) -> LocatedTable:
    if not isinstance(table, LocatedTable):
        raise BadCase(line, f"{what} must be a table")
    for key in table:
        if key not in fields:
            raise BadCase(table.line_of(key), f"{what} has no {key}{nearest(str(key), fields)} ({', '.join(fields)})")
    return table


def _case(table: Any, line: int) -> Case:
    case = _checked_table(table, _CASE_FIELDS, line, "a case")
    name = case.get("name")
    if not isinstance(name, str) or not name:
        raise BadCase(line, "a case needs a name")
    host = case.get("host", LocatedTable(line))
    if not isinstance(host, LocatedTable):
        raise BadCase(case.line_of("host"), "host must be a table of recorded answers")
    now = host.get("now", DEFAULT_NOW)
    if isinstance(now, bool) or not isinstance(now, int | float):
        raise BadCase(host.line_of("now"), "now must be a number")
    return Case(
        name,
        line,
        _table(case, "args"),
        {call: _answers(call, host) for call in host if call not in ("now", "state")},
        float(now),
        _table(host, "state"),
        _expect(case, line),
    )


def _table(owner: LocatedTable, key: str) -> dict[str, Any]:
    """Return a table with names; an empty one may look like a list."""
    value = plain(owner.get(key, {}))
    if not isinstance(value, dict):
        raise BadCase(owner.line_of(key), f"{key} must be a table with names")
    return value


def _answers(call: Any, host: LocatedTable) -> tuple[Answer, ...]:
    line, recorded = host.line_of(call), host[call]
    if call not in CAPABILITY_OF:
        raise BadCase(line, f"there is no call host.{call}{nearest(str(call), CAPABILITY_OF)}")
    if not isinstance(recorded, LocatedTable):
        raise BadCase(line, f"{call} must be a table: {{ value = ... }} or {{ code = ..., text = ... }}")
    entries = recorded.values() if 1 in recorded else [recorded]
    return tuple(_answer(call, entry, line) for entry in entries)


def _answer(call: str, entry: Any, line: int) -> Answer:
    entry = _checked_table(entry, _ANSWER_FIELDS, line, f"a recorded answer of {call}")
    args = plain(entry["args"]) if "args" in entry else None
    if args is not None and args != {} and not isinstance(args, list):
        raise BadCase(entry.line_of("args"), "args must be the list of the call's arguments")
    if "code" in entry:
        if entry["code"] not in CODES:
            raise BadCase(
                entry.line_of("code"), f"there is no code {entry['code']}{nearest(str(entry['code']), CODES)}"
            )
        reply = {"error": [entry["code"], str(entry.get("text", entry["code"]))]}
    else:
        reply = {"value": plain(entry.get("value"))}
    return Answer(args or ([] if args is not None else None), reply, entry.get("once") is True)


def _expect(case: LocatedTable, line: int) -> dict[str, Any]:
    expect = _checked_table(
        case.get("expect"), _EXPECT_FIELDS, case.line_of("expect") if "expect" in case else line, "expect"
    )
    if expect.get("status") not in STATUS_WORDS:
        raise BadCase(expect.line, f"expect needs a status: {', '.join(STATUS_WORDS)}")
    for field_name in ("metrics", "state", "truncated"):
        _table(expect, field_name)
    metrics = expect.get("metrics", LocatedTable(line))
    for name, metric in metrics.items():
        if isinstance(metric, LocatedTable):
            _checked_table(metric, _METRIC_FIELDS, metrics.line_of(name), f"metric {name}")
    return {key: plain(value) for key, value in expect.items()}


# Answering --------------------------------------------------------------------------------------------------------


@define
class Recording:
    """Answers the calls of one run from a case, and collects the calls without a recorded answer."""

    case: Case
    missing: list[str] = field(factory=list)
    state: dict[str, Any] = field(init=False)
    _used: set[int] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.state = dict(self.case.state)

    def answer(self, call: str, args: list[Any]) -> dict[str, Any]:
        """Return {"value": ...} or {"error": [code, text]} for a call; Runner.run takes this as its `answer`."""
        if call.startswith("state."):
            return self._state(call, args)
        for recorded in self.case.answers.get(call, ()):
            if id(recorded) not in self._used and (
                recorded.args is None or _matches(recorded.args, _without_nils(args))
            ):
                if recorded.once:
                    self._used.add(id(recorded))
                return recorded.reply
        shown = f"host.{call}({', '.join(json.dumps(one) for one in args)})"[:300]
        self.missing.append(shown)
        return {"error": ["failed", f"the test records no answer for {shown}"]}

    def _state(self, call: str, args: list[Any]) -> dict[str, Any]:
        key = str(args[0]) if args else ""
        if call == "state.get":
            return {"value": self.state.get(key)}
        value = args[1] if len(args) > 1 else None
        if value is None:
            self.state.pop(key, None)
        else:
            self.state[key] = value
        return {"value": True}


def _without_nils(args: list[Any]) -> list[Any]:
    while args and args[-1] is None:
        args = args[:-1]
    return args


def _matches(recorded: Any, given: Any) -> bool:
    """Return True if two values are equal; of a table with names only the recorded fields count."""
    if isinstance(recorded, dict) and isinstance(given, dict):
        return all(key in given and _matches(value, given[key]) for key, value in recorded.items())
    if isinstance(recorded, list) and isinstance(given, list):
        return len(recorded) == len(given) and all(map(_matches, recorded, given))
    return same(recorded, given)


def same(expected: Any, actual: Any) -> bool:
    """Return True if two values are equal: numbers to one part in a million, an empty list and an empty table alike."""
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return math.isclose(expected, actual, rel_tol=_TOLERANCE, abs_tol=1e-12)
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(same, expected, actual))
    return bool(expected == actual or (not expected and not actual and {type(expected), type(actual)} == {list, dict}))


# Comparing --------------------------------------------------------------------------------------------------------


def differences(case: Case, result: dict[str, Any], recording: Recording) -> list[str]:
    """Return a text for each difference between the result and the case, with the expected and the actual value."""
    found = [f"no answer is recorded for {call}" for call in recording.missing]
    for name in ("status", "summary", "reason", "output", "truncated"):
        if name in case.expect and not same(case.expect[name], result.get(name)):
            found.append(_difference(name, case.expect[name], result.get(name)))
    for key, value in (case.expect.get("state") or {}).items():
        if not same(value, recording.state.get(key)):
            found.append(_difference(f"state {key}", value, recording.state.get(key)))
    if "metrics" in case.expect:
        found += _metric_differences(case.expect["metrics"] or {}, result.get("metrics", []))
    if found and "reason" in result and "reason" not in case.expect:
        found.append(f"the run ended with reason {result['reason']}: {result.get('summary')}")
    return found


def _difference(name: str, expected: Any, actual: Any) -> str:
    return f"{name}\n    expected {_shown(expected)}\n    actual   {_shown(actual)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)


def metric_key(metric: dict[str, Any]) -> str:
    """Return the key of a metric: `name`, or `name{label=value,label=value}` with sorted labels."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(metric.get("labels", {}).items()))
    return f"{metric['name']}{{{labels}}}" if labels else metric["name"]


def _metric_differences(expected: dict[str, Any], metrics: list[dict[str, Any]]) -> Iterator[str]:
    actual = {metric_key(metric): metric for metric in metrics}
    if not expected and actual:
        yield _difference("metrics", "none", sorted(actual))
    for key, wanted in expected.items():
        if key not in actual:
            yield f"metric {key} is missing; there are {', '.join(sorted(actual)) or 'none'}"
            continue
        for name, value in (wanted if isinstance(wanted, dict) else {"value": wanted}).items():
            if not same(value, actual[key].get(name)):
                yield _difference(f"metric {key} {name}", value, actual[key].get(name))
