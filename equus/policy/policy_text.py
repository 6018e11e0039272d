"""Check the text of a policy file against a table of the settings that exist. Pure; policy.py gives them their meaning.

Each fault is one sentence with the file, the key and what is allowed there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any, TypeVar

from attrs import define, field, frozen

from equus.policy.host_names import read_pattern
from equus.policy.networks import LOOPBACK, Network
from equus.policy.plugin_templates import SLOT_TYPES, Plugin, Program, Slot, slots_in
from equus.policy.shell import AUDITOR, ShellPolicy
from groundwork.durations import parse_duration
from groundwork.figures import is_double

Template = TypeVar("Template", bound=Plugin)

# A list in a policy is written by hand.
MOST_ENTRIES = 1000


class PolicyError(Exception):
    """Says that a policy can't be used; the text is a sentence for its author."""


@frozen
class Settings:
    """Holds settings of a file, laid over the default."""

    isolation: Any
    pushed_code: Any
    one_shot: Any
    limits: dict[str, Any]
    grants: dict[str, dict[str, Any]]
    plugins: dict[str, Plugin]
    programs: dict[str, Program]
    upgrade: bool
    shell: ShellPolicy | None


def read_policy(text: bytes, file: str) -> Settings:
    """Parse and check a whole file, which errors call `file`. Raises PolicyError at the first fault."""
    try:
        document = tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise PolicyError(f"{file}: a policy is UTF-8 text") from None
    except tomllib.TOMLDecodeError as fault:
        raise PolicyError(f"{file}: {fault}") from None
    top = _Table(file, "", document)
    isolation = top.take("isolation", _one_of("strong", "weak"), "strong")
    pushed_code = top.take("pushed_code", _one_of("signed", "frozen", "refuse"), "signed")
    one_shot = top.take("one_shot", _one_of("signed", "refuse"), "signed")
    limits = _limits(top.table("limits"))
    upgrade = top.table("upgrade")
    may_upgrade = upgrade.take("allow", _boolean, False)
    upgrade.done()
    shell = _shell(top.table("shell"))
    grants = _grants(top.table("caps"))
    plugins = _templates(top, "plugins", Plugin)
    programs = _templates(top, "programs", Program)
    top.done()
    # A program that is written down is meant to run; [caps.plugin] is for taking some of them back.
    for capability, named in (("plugin", plugins), ("program", programs)):
        if named and capability not in document.get("caps", {}):
            grants[capability] = {}
    return Settings(isolation, pushed_code, one_shot, limits, grants, plugins, programs, may_upgrade, shell)


@define
class _Table:
    """Describes one table of the file. A key that no caller has taken when `done` is called is unknown."""

    file: str
    name: str
    values: dict[str, Any]
    _known: list[str] = field(factory=list)

    def take(self, key: str, read: Callable[[Any], Any], default: Any) -> Any:
        """Return the checked value of a key, or `default` if it is missing. Raises PolicyError if `read` refuses it."""
        self._known.append(key)
        if key not in self.values:
            return default
        try:
            return read(self.values[key])
        except ValueError as fault:
            raise PolicyError(f"{self._at(key)} {fault}") from None

    def table(self, key: str) -> _Table:
        return self.inner("", key, self.take(key, lambda value: value, {}))

    def inner(self, above: str, key: str, value: Any) -> _Table:
        """Return `value` as a table with a name of its own for errors. Raises PolicyError if it is none."""
        name = ".".join(filter(None, (self.name, above, key)))
        if not isinstance(value, dict):
            raise PolicyError(f"{self.file}: {name} must be a table, [{name}]")
        return _Table(self.file, name, value)

    def named(self, key: str) -> list[tuple[str, Any]]:
        return list(self.table(key).values.items())

    def done(self) -> None:
        """Finish the table. Raises PolicyError if it holds a key that was not taken."""
        for key in self.values:
            if key not in self._known:
                allowed = ", ".join(self._known) or "nothing"
                raise PolicyError(f"{self._at(key)} is not a setting; allowed here: {allowed}")

    def _at(self, key: str) -> str:
        return f"{self.file}: {'.'.join(filter(None, (self.name, key)))}"


# ------------------------------------------------------------------------------------------------ single values
# Each reader returns the value as the policy has it. It raises ValueError with the rest of a sentence if it is wrong.


def _one_of(*words: str) -> Callable[[Any], str]:
    """Return a reader of one of these words."""

    def _read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return _read


def _whole(low: int, high: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers in this range."""

    def _read(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return _read


def _number(value: Any) -> float:
    if not is_double(value):
        raise ValueError("must be a number")
    return float(value)


def _duration(low: float, high: float) -> Callable[[Any], float]:
    """Return a reader of durations in this range, in seconds."""

    def _read(value: Any) -> float:
        seconds = parse_duration(value)
        if not low <= seconds <= high:
            raise ValueError(f"must be from {low:g}s to {high:g}s")
        return seconds

    return _read


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _text(value: Any) -> str:
    if isinstance(value, int | float):
        raise ValueError(f'must be a text in quotes: write "{str(value).lower()}"')
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError("must be a text without control characters")
    return value


def _list(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of lists, each entry of which `read` accepts."""

    def _read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            raise ValueError(f"must be a list of at most {MOST_ENTRIES} entries")
        return tuple(read(entry) for entry in value)

    return _read_all


def _path(value: Any) -> str:
    path = _text(value)
    if not path.startswith("/") or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"has {path!r}, which is not an absolute path without . and ..")
    return "/" + "/".join(filter(None, path.split("/")))


def _network(value: Any) -> Network:
    if not isinstance(value, dict) or not {"cidr"} <= value.keys() <= {"cidr", "ports"}:
        raise ValueError('is a list of { cidr = "10.0.0.0/8", ports = [443, "8000-8100"] }; ports may be left out')
    try:
        cidr = ip_network(value["cidr"]) if isinstance(value["cidr"], str) else None
    except ValueError as fault:
        raise ValueError(f"has a cidr that is not a network: {fault}") from None
    if cidr is None:
        raise ValueError("has a cidr that is not a text")
    return Network(cidr, _list(_ports)(value.get("ports", [])))


def _host_names(value: Any) -> tuple[str, ...]:
    found: tuple[str, ...] = _list(read_pattern)(value)
    if not found:
        raise ValueError('is empty: leave it out, or name "localhost", which is never asked of a name server')
    return found


def _ports(value: Any) -> tuple[int, int]:
    low, dash, high = str(value).partition("-")
    if isinstance(value, bool) or not low.isascii() or not low.isdigit() or (dash and not high.isdigit()):
        raise ValueError(f'has the port {value!r}; a port is 443 or "8000-8100"')
    first, last = int(low), int(high if dash else low)
    if not 1 <= first <= last <= 65_535:
        raise ValueError(f"has the port {value!r}; ports are 1 to 65535, the lower one first")
    return first, last


# ------------------------------------------------------------------------------------------------ sections

_LIMITS: Mapping[str, Callable[[Any], Any]] = {
    "parallel": _whole(1, 256),
    "queue": _whole(1, 100_000),
    "timeout_max": _duration(1, 3600),
    "cpu_max": _duration(1, 3600),
    "memory_mib": _whole(8, 4096),
    "calls": _whole(1, 100_000),
    "moved_mib": _whole(1, 1024),
}
_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "paths": _list(_path),
    "networks": _list(_network),
    "units": _list(_text),
    "names": _list(_text),
    "command_lines": _boolean,
    "owners": _list(_text),
}
# Each capability: the settings it has, and what the default policy grants of it (None: nothing).
_CAPABILITIES: Mapping[str, tuple[tuple[str, ...], dict[str, Any] | None]] = {
    **dict.fromkeys(("host", "cpu", "mem", "load", "disk_io", "net_io", "kernel", "state", "log", "crypto"), ((), {})),
    "disk": (("paths",), {"paths": ("/",)}),
    "procs": (("command_lines",), {}),
    **dict.fromkeys(("tcp", "udp", "icmp", "tls", "http", "dns"), (("networks", "names"), {"networks": LOOPBACK})),
    "file": (("paths", "owners"), None),
    "unix": (("paths",), None),
    **dict.fromkeys(("systemd", "journal"), (("units",), None)),
    "plugin": (("names",), None),
    "program": (("names",), None),
}
CAPABILITIES = tuple(_CAPABILITIES)


_SHELL: Mapping[str, Callable[[Any], Any]] = {
    "users": _list(_text),
    "authorized_keys": _path,
    "trusted_user_ca": _path,
    "forward": _boolean,
    "command": _list(_text),
    "sessions": _whole(1, 8),
    "idle": _duration(10, 86_400),
    "max": _duration(10, 7 * 86_400),
    "record": _boolean,
    "keep": _duration(60, 3_660 * 86_400),
    "record_mib": _whole(16, 1_048_576),
    "auditors": _path,
}


def _limits(table: _Table) -> dict[str, Any]:
    given = {key: table.take(key, read, None) for key, read in _LIMITS.items()}
    table.done()
    return {key: value for key, value in given.items() if value is not None}


def _grants(table: _Table) -> dict[str, dict[str, Any]]:
    grants: dict[str, dict[str, Any]] = {}
    for capability, (settings, default) in _CAPABILITIES.items():
        written = capability in table.values
        inner = table.table(capability)
        allow = inner.take("allow", _boolean, written or default is not None)
        readers = {**_SETTINGS, "names": _host_names if "networks" in settings else _SETTINGS["names"]}
        given = {key: inner.take(key, readers[key], None) for key in settings}
        inner.done()
        if allow:
            grants[capability] = (default or {}) | {key: value for key, value in given.items() if value is not None}
    table.done()
    return grants


def _shell(table: _Table) -> ShellPolicy | None:
    """Return the settings of logins, None if the policy allows none."""
    allow = table.take("allow", _boolean, False)
    given = {key: table.take(key, read, None) for key, read in _SHELL.items()}
    table.done()
    if not allow:
        return None
    for needed, are_there in (
        ("users", bool(given["users"])),
        ("authorized_keys or trusted_user_ca", bool(given["authorized_keys"] or given["trusted_user_ca"])),
    ):
        if not are_there:
            raise PolicyError(f"{table.file}: shell.allow needs {needed} beside it: who may log in")
    given["most"] = given.pop("max")
    if AUDITOR in given["users"]:
        raise PolicyError(f"{table.file}: shell.users can't name {AUDITOR}: those log in so who read recordings")
    if given["command"] and not given["command"][0].startswith("/"):
        raise PolicyError(f"{table.file}: shell.command must begin with the absolute path of a program")
    return ShellPolicy(**{key: value for key, value in given.items() if value is not None})


def _templates(top: _Table, section: str, kind: type[Template]) -> dict[str, Template]:
    """Return the programs of a section by name."""
    return {name: _template(name, top.inner(section, name, value), kind) for name, value in top.named(section)}


def _template(name: str, table: _Table, kind: type[Template]) -> Template:
    command = table.take("command", _list(_text), ())
    slots = {slot: _slot(table.inner("slots", slot, value)) for slot, value in table.named("slots")}
    template = kind(
        name, command, slots, table.take("user", _text, None), table.take("timeout", _duration(0.1, 3600), 30.0)
    )
    table.done()
    if not command or not command[0].startswith("/") or slots_in(command[:1]):
        raise PolicyError(f"{table.file}: {table.name}.command must begin with the absolute path of a program")
    for missing in sorted(slots_in(command) ^ slots.keys()):
        what = "names no slot of" if missing in slots else "names a slot that is missing from"
        raise PolicyError(f"{table.file}: {table.name}.command {what} [{table.name}.slots]: {missing}")
    return template


def _slot(table: _Table) -> Slot:
    kind = table.take("type", _one_of(*SLOT_TYPES), None)
    if kind is None:
        raise PolicyError(f"{table.file}: {table.name} needs a type: one of {', '.join(SLOT_TYPES)}")
    needs = {"enum": "choices", "path": "paths"}.get(kind)
    slot = Slot(
        kind,
        choices=table.take("choices", _list(_text), ()) if kind == "enum" else (),
        paths=table.take("paths", _list(_path), ()) if kind == "path" else (),
        min=table.take("min", _number, None) if kind in ("integer", "number") else None,
        max=table.take("max", _number, None) if kind in ("integer", "number") else None,
        default=table.take("default", _text, None),
    )
    table.done()
    if needs is not None and not getattr(slot, needs):
        raise PolicyError(f"{table.file}: {table.name} of type {kind} needs {needs}")
    return slot
