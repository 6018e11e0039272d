"""Put values into `$macros$` of Icinga 2: variables of service, host and command, and attributes of these. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from helen.importing.found import Budget, NotUnderstood

MAX_DEPTH = 10  # variables that name variables
MAX_TEXT = 65_536
ADDRESS = "%HOSTADDRESS%"  # stands for the address until it is known whether a policy's slot takes it
_MACRO = re.compile(r"\$([^$\s]*)\$")
_ATTRIBUTES = ("name", "display_name", "address", "address6", "check_command", "notes", "zone")


class Missing(Exception):
    """Says that a macro has no value: an argument that holds it is left out."""


@frozen
class Resolver:
    """Look macros up as Icinga does: the service's variables first, then the host's, then those of the command."""

    service: Mapping[str, Any]
    host: Mapping[str, Any]
    command: Mapping[str, Any]
    budget: Budget = field(factory=Budget)

    def text(self, template: str) -> str:
        """Return a text with all macros filled in. Raises Missing if one has no value."""
        value = self.value(template)
        if isinstance(value, list | dict):
            raise NotUnderstood(f"{template[:60]!r} is a list or table where a text is expected")
        return as_text(value)

    def value(self, template: Any, depth: int = 0) -> Any:
        """Return a value: that of the macro itself if the text is nothing else, so it may be a list or a flag."""
        if isinstance(template, dict):
            raise NotUnderstood("it is computed by a function of Icinga's language, which the API doesn't show")
        if isinstance(template, list):
            return [self.value(each, depth) for each in template]
        if not isinstance(template, str) or "$" not in template:
            return template
        if depth > MAX_DEPTH:
            raise NotUnderstood(f"{template[:60]!r} names variables that name each other")
        whole = _MACRO.fullmatch(template)
        if whole and whole[1]:
            return self.value(self._look_up(whole[1]), depth + 1)
        return self._filled(template, depth)

    def _filled(self, template: str, depth: int) -> str:
        def put(match: re.Match[str]) -> str:
            if not match[1]:
                return "$"
            return as_text(self.value(self._look_up(match[1]), depth + 1))

        made = _MACRO.sub(put, template)
        if len(made) > MAX_TEXT:
            raise NotUnderstood(f"{template[:60]!r} becomes longer than {MAX_TEXT:,} characters")
        return made

    def _look_up(self, name: str) -> Any:
        self.budget.spend()
        kind, _, rest = name.partition(".")
        if rest and kind in ("host", "service", "command"):
            return self._of_thing(getattr(self, kind), kind, rest)
        for thing in (self.service, self.host, self.command):
            found = _within(thing.get("vars"), name.removeprefix("vars."))
            if found is not None:
                return self._address() if name == "check_address" and isinstance(found, dict) else found
        if name in _ATTRIBUTES:
            return self._of_thing(self.host, "host", name)
        raise Missing(name)

    def _of_thing(self, thing: Mapping[str, Any], kind: str, path: str) -> Any:
        if path.startswith("vars."):
            found = _within(thing.get("vars"), path.removeprefix("vars."))
        elif path == "address" and kind == "host" and thing.get("address"):
            return ADDRESS
        elif path in _ATTRIBUTES:
            found = thing.get(path) or None
        else:
            raise NotUnderstood(f"${kind}.{path[:60]}$ is known only when a check runs")
        if found is None:
            raise Missing(f"{kind}.{path}")
        return found

    def _address(self) -> str:
        """Return what the function `check_address` of Icinga's own library returns: an address of the wanted family."""
        wanted = {each: is_set(f"$check_{each}$", self) for each in ("ipv4", "ipv6")}
        one, other = ("address6", "address") if wanted["ipv6"] and not wanted["ipv4"] else ("address", "address6")
        for key in (one,) if any(wanted.values()) else (one, other):
            if self.host.get(key):
                return ADDRESS if key == "address" else str(self.host[key])
        return str(self.host.get("name") or "")


def _within(variables: Any, path: str) -> Any:
    """Return the value at a dotted path of nested variables, None if there is none."""
    if not isinstance(variables, Mapping):
        return None
    if path in variables:
        return variables[path]
    first, dot, rest = path.partition(".")
    return _within(variables.get(first), rest) if dot else None


def as_text(value: Any) -> str:
    """Return a value as Icinga writes it into a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ";".join(map(as_text, value))
    return "" if value is None else str(value)


def is_true(value: Any) -> bool:
    """Return True for what `set_if` takes as true: flags, and numbers other than 0, also as texts."""
    if isinstance(value, str):
        if value in ("true", "false"):
            return value == "true"
        try:
            return float(value) != 0
        except ValueError:
            return bool(value)
    return bool(value)


def is_set(template: Any, look: Resolver) -> bool:
    """Return True if a flag that `template` names is there and true."""
    try:
        return is_true(look.value(template))
    except Missing:
        return False
