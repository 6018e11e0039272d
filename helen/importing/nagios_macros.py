"""Put the values of macros into command lines of Nagios, as far as they are known before a check runs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from helen.importing.found import Budget, NotUnderstood
from helen.importing.nagios_objects import Object

MAX_DEPTH = 4  # arguments hold macros that hold macros
MAX_TEXT = 65_536
ADDRESS = "%HOSTADDRESS%"  # stands for the host's address until the line is split into words
_MACRO = re.compile(r"\$(\$|[A-Za-z_][A-Za-z0-9_:.-]*\$)?")
_OF_HOST = {
    "HOSTNAME": "host_name", "HOSTALIAS": "alias", "HOSTDISPLAYNAME": "display_name",
    "HOSTNOTES": "notes", "HOSTACTIONURL": "action_url", "HOSTNOTESURL": "notes_url",
}  # fmt: skip
_OF_SERVICE = {"SERVICEDESC": "service_description", "SERVICEDISPLAYNAME": "display_name"}


def arguments(check_command: str) -> tuple[str, dict[str, str]]:
    """Return the name of a command, and `$ARGn$` of `name!one!two`; a `\\!` is no separator."""
    name, *given = re.split(r"(?<!\\)!", check_command)
    return name.strip(), {f"ARG{at}": text.replace("\\!", "!").strip() for at, text in enumerate(given, 1)}


def known(host: Object, service: Object, args: Mapping[str, str], users: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all macros that are known for a service of a host."""
    found = {f"ARG{at}": "" for at in range(1, 33)} | dict(args)
    found |= {name.strip("$"): value for name, value in users.items()}
    found |= {macro: host.get(key, host.get("host_name", "")) for macro, key in _OF_HOST.items()}
    found |= {macro: service.get(key, service.get("service_description", "")) for macro, key in _OF_SERVICE.items()}
    found["HOSTADDRESS"] = ADDRESS
    for kind, thing in (("HOST", host), ("SERVICE", service)):
        found |= {f"_{kind}{key[1:].upper()}": value for key, value in thing.items() if key.startswith("_")}
    return found


def filled(text: str, macros: Mapping[str, str], budget: Budget, depth: int = 0) -> str:
    """Return a text with the values of its macros. Raises NotUnderstood for one that is known only at run time."""

    def value(match: re.Match[str]) -> str:
        budget.spend()
        name = (match[1] or "").removesuffix("$")
        if match[1] == "$":
            return "$"
        if not name:
            return "$"
        found = macros.get(name, macros.get(name.upper()))
        if found is None:
            raise NotUnderstood(_why(name))
        if "$" not in found:
            return found
        if depth == MAX_DEPTH:
            raise NotUnderstood(f"the macro ${name[:60]}$ holds macros that hold macros, more than {MAX_DEPTH} times")
        return filled(found, macros, budget, depth + 1)

    made = _MACRO.sub(value, text)
    if len(made) > MAX_TEXT:
        raise NotUnderstood(f"its command line has more than {MAX_TEXT:,} characters")
    return made


def _why(name: str) -> str:
    if name.startswith("USER"):
        return f"${name[:60]}$ is not known: name the file that sets it with --resources"
    if name.startswith("_"):
        return f"no object sets ${name[:60]}$"
    return f"the macro ${name[:60]}$ is known only when a check runs"
