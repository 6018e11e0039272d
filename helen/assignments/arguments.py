"""Holds the arguments of assignments against the tables of checks, in the words of the agents that would refuse them.

Pure. The rules stand in docs/checks.rst, and equus/sandbox/check_table.py applies them on the agent: here they only
save the way. A check that is not published, or whose table says what this version doesn't know, has no fault here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from equus_protocol.ranges import Range
from groundwork.durations import parse_duration
from groundwork.figures import is_double
from helen.assignments.schedule import PATTERN, Assignment, Assignments, CheckTable, defaults_for
from helen.assignments.target_schedule import ADDRESSES, PORT


def argument_faults(assignments: Assignments, tables: Mapping[str, CheckTable]) -> list[str]:
    """Return a sentence for each argument that a check would refuse, by the check and the entry's id; none twice."""
    found = dict.fromkeys(
        [
            *(fault for entry in assignments.entries for fault in _of_entry(entry, tables, assignments.defaults)),
            *(fault for given in assignments.defaults for fault in _of_defaults(given, tables)),
        ]
    )
    return list(found)


def _of_entry(entry: Assignment, tables: Mapping[str, CheckTable], given: Iterable[Assignment]) -> Iterator[str]:
    if set(entry.check) & PATTERN:
        named = [table for table in tables.values() if table.every is not None and fnmatchcase(table.name, entry.check)]
    else:
        named = [tables[entry.check]] if entry.check in tables else []
    for table in named:
        where = table.name if entry.id in (None, table.name) else f"{table.name} (id {entry.id})"
        elsewhere = {name for each in given for name in defaults_for(each, table.name, table)}
        elsewhere |= {*ADDRESSES, PORT} if entry.targets else set(ADDRESSES) if entry.mesh else set()
        for fault in faults_of(entry.args, table.args, elsewhere):
            yield f"{where}: {fault}"


def _of_defaults(given: Assignment, tables: Mapping[str, CheckTable]) -> Iterator[str]:
    """Give the faults of `[[defaults]]`: values that a check refuses, and arguments that no check takes that fits."""
    where = f"[[defaults]] number {given.place}"
    fitting = [table for table in tables.values() if fnmatchcase(table.name, given.check)]
    for table in fitting:
        for name, value in given.args.items():
            rule = table.args.get(name)
            if isinstance(rule, Mapping) and (fault := _value_fault(value, rule)) is not None:
                yield f'{where}: the argument "{name}" of {table.name} {fault}'
    for name in given.args if fitting else ():
        if not any(name in table.args for table in fitting):
            yield f'{where}: no check that fits {given.check} takes an argument "{name}"'


def faults_of(
    given: Mapping[str, Any], declared: Mapping[str, Any], elsewhere: Collection[str] = ()
) -> Iterator[str]:  # fmt: skip
    """Give a sentence for each argument that is unknown, missing or of a wrong value.

    `declared`: name -> {"type", "required", "choices", "min", "max"}, as tables have them. An argument in `elsewhere`
    may have a value from another place, so it is not missing.
    """
    for name in given.keys() - declared.keys():
        yield f'there is no argument "{name}"; this check takes {", ".join(sorted(declared)) or "none"}'
    for name, rule in declared.items():
        if not isinstance(rule, Mapping):
            continue
        if given.get(name) is None:
            if rule.get("required") and name not in elsewhere:
                yield f'the argument "{name}" is missing'
        elif (fault := _value_fault(given[name], rule)) is not None:
            yield f'the argument "{name}" {fault}'


def _value_fault(value: Any, rule: Mapping[str, Any]) -> str | None:
    fits, words = _TYPES.get(str(rule.get("type")), (lambda _: True, ""))
    if not fits(value):
        return f"must be {words}"
    size = parse_duration(value) if rule.get("type") == "duration" else value
    choices, least, most = rule.get("choices"), rule.get("min"), rule.get("max")
    if choices and size not in choices:
        return f"must be one of {', '.join(map(str, choices))}"
    if isinstance(least, int | float) and size < least:
        return f"must be at least {least:g}"
    if isinstance(most, int | float) and size > most:
        return f"must be at most {most:g}"
    return None


def _reads(read: Callable[[Any], object], value: Any) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


# How each type of an argument looks, and the words of the agent for it.
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "string": (lambda value: isinstance(value, str), "a string"),
    "number": (is_double, "a number"),
    "integer": (lambda value: is_double(value) and value % 1 == 0, "a whole number"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "range": (
        lambda value: is_double(value) or (isinstance(value, str) and _reads(Range.parse, value.strip())),
        "a range (10, 10:, ~:10, 10:20 or @10:20)",
    ),
    "duration": (lambda value: _reads(parse_duration, value), 'a duration such as "10s", or a number of seconds'),
    "list": (
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value), "a list of strings",
    ),
}  # fmt: skip
