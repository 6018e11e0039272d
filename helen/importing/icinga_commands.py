"""Make the command line of a service of Icinga 2 from the `command` and `arguments` of its CheckCommand. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from helen.importing.command_line import split
from helen.importing.found import NotUnderstood
from helen.importing.icinga_macros import Missing, Resolver, as_text, is_set

MAX_ARGUMENTS = 1_000
MAX_ORDER = 1_000_000
# Functions of Icinga's own library that return a value of themselves: a flag, the value, and the unit without the flag.
KNOWN = {
    ("swap", "-w"): ("$swap_integer$", "$swap_wfree$", "%"),
    ("swap", "-c"): ("$swap_integer$", "$swap_cfree$", "%"),
}


def command_line(command: Mapping[str, Any], look: Resolver, remark: Callable[[str], None]) -> list[str]:
    """Return the words of the command line. Raises NotUnderstood with the reason if it can't be known.

    `remark` is told of arguments that are left out because a function decides about them.
    """
    base = command.get("command")
    if isinstance(base, dict):
        raise NotUnderstood("its command is computed by a function of Icinga's language, which the API doesn't show")
    if not base:
        raise NotUnderstood("its command is built into Icinga")
    try:
        words = [look.text(each) for each in base] if isinstance(base, list) else list(split(look.text(str(base))))
    except Missing as missing:
        raise NotUnderstood(f"its command line holds ${missing}$, which nothing sets") from missing
    return words + _arguments(command.get("arguments"), look, remark)


def _arguments(given: Any, look: Resolver, remark: Callable[[str], None]) -> list[str]:
    if not isinstance(given, Mapping):
        return []
    if len(given) > MAX_ARGUMENTS:
        raise NotUnderstood(f"its command has more than {MAX_ARGUMENTS:,} arguments")
    tables = [(key, _table(key, each, look)) for key, each in given.items()]
    placed = [(_order(each), key, list(_words(key, each, look, remark))) for key, each in tables]
    return [word for _, _, words in sorted(placed, key=lambda one: one[0]) for word in words]


def _table(key: str, given: Any, look: Resolver) -> Mapping[str, Any]:
    """Return the settings of one argument; a value may stand there alone, and a function of Icinga's be known."""
    if not isinstance(given, dict):
        return {"value": given}
    if given.get("type") != "Function":
        return given
    known = KNOWN.get((str(look.command.get("name")), key))
    if known is None:
        return {"value": given}
    flag, value, unit = known
    return {"value": value if is_set(flag, look) else value + unit}


def _order(table: Mapping[str, Any]) -> float:
    order = table.get("order", 0)
    return float(order) if isinstance(order, int | float) and abs(order) < MAX_ORDER else 0.0


def _words(key: str, table: Mapping[str, Any], look: Resolver, remark: Callable[[str], None]) -> Iterator[str]:
    """Give the words of one argument: none if it isn't to be there."""
    value = _value(key, table, look)
    if value is None or not _is_wanted(key, table, look, remark):
        return
    name = "" if table.get("skip_key") else str(table.get("key") or key)
    if "value" not in table:
        yield from (name,) if name else ()
        return
    values = value if isinstance(value, list) else [value]
    for at, each in enumerate(values):
        has_key = name and (at == 0 or table.get("repeat_key", True) is not False)
        separator = table.get("separator")
        if has_key and isinstance(separator, str):
            yield f"{name}{separator}{as_text(each)}"
        else:
            yield from (name, as_text(each)) if has_key else (as_text(each),)


def _value(key: str, table: Mapping[str, Any], look: Resolver) -> Any:
    """Return the value of an argument, "" for one that has none by its nature, None for one to be left out."""
    if "value" not in table:
        return ""
    try:
        value = look.value(table["value"])
    except Missing as missing:
        if table.get("required"):
            raise NotUnderstood(f"its argument {key} needs ${missing}$, which nothing sets") from missing
        return None
    except NotUnderstood as why:
        raise NotUnderstood(f"its argument {key}: {why}") from why
    return None if value in (None, "", []) else value


def _is_wanted(key: str, table: Mapping[str, Any], look: Resolver, remark: Callable[[str], None]) -> bool:
    if "set_if" not in table or table["set_if"] is None:
        return True
    if isinstance(table["set_if"], dict):  # a function: as a rule it asks whether the value is there, and it is
        if "value" not in table:
            remark(f"the argument {key} is left out: a function of Icinga's language decides about it")
        return "value" in table
    return is_set(table["set_if"], look)
