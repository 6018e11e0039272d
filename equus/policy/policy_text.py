"""Check the text of a policy file against a table of the settings that exist. Pure; policy.py gives them their meaning.

Each fault is one sentence with the file, the key and what is allowed there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import define, field, frozen

from equus.policy.networks import LOOPBACK
from equus.policy.plugin_templates import SLOT_TYPES, Plugin, Program, Slot, slots_in
from equus.policy.policy_values import (
    boolean,
    duration,
    host_names,
    list_of,
    network,
    number,
    one_of,
    path_of,
    text,
    whole,
)
from equus.policy.shell import AUDITOR, ShellPolicy

Template = TypeVar("Template", bound=Plugin)


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
    isolation = top.take("isolation", one_of("strong", "weak"), "strong")
    pushed_code = top.take("pushed_code", one_of("signed", "frozen", "refuse"), "signed")
    one_shot = top.take("one_shot", one_of("signed", "refuse"), "signed")
    limits = _limits(top.table("limits"))
    upgrade = top.table("upgrade")
    may_upgrade = upgrade.take("allow", boolean, False)
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


# ------------------------------------------------------------------------------------------------ sections

_LIMITS: Mapping[str, Callable[[Any], Any]] = {
    "parallel": whole(1, 256),
    "queue": whole(1, 100_000),
    "timeout_max": duration(1, 3600),
    "cpu_max": duration(1, 3600),
    "memory_mib": whole(8, 4096),
    "calls": whole(1, 100_000),
    "moved_mib": whole(1, 1024),
}
_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "paths": list_of(path_of),
    "networks": list_of(network),
    "units": list_of(text),
    "names": list_of(text),
    "command_lines": boolean,
    "owners": list_of(text),
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
    "users": list_of(text),
    "authorized_keys": path_of,
    "trusted_user_ca": path_of,
    "forward": boolean,
    "command": list_of(text),
    "sessions": whole(1, 8),
    "idle": duration(10, 86_400),
    "max": duration(10, 7 * 86_400),
    "record": boolean,
    "keep": duration(60, 3_660 * 86_400),
    "record_mib": whole(16, 1_048_576),
    "auditors": path_of,
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
        allow = inner.take("allow", boolean, written or default is not None)
        readers = {**_SETTINGS, "names": host_names if "networks" in settings else _SETTINGS["names"]}
        given = {key: inner.take(key, readers[key], None) for key in settings}
        inner.done()
        if allow:
            grants[capability] = (default or {}) | {key: value for key, value in given.items() if value is not None}
    table.done()
    return grants


def _shell(table: _Table) -> ShellPolicy | None:
    """Return the settings of logins, None if the policy allows none."""
    allow = table.take("allow", boolean, False)
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
    command = table.take("command", list_of(text), ())
    slots = {slot: _slot(table.inner("slots", slot, value)) for slot, value in table.named("slots")}
    template = kind(
        name, command, slots, table.take("user", text, None), table.take("timeout", duration(0.1, 3600), 30.0)
    )
    table.done()
    if not command or not command[0].startswith("/") or slots_in(command[:1]):
        raise PolicyError(f"{table.file}: {table.name}.command must begin with the absolute path of a program")
    for missing in sorted(slots_in(command) ^ slots.keys()):
        what = "names no slot of" if missing in slots else "names a slot that is missing from"
        raise PolicyError(f"{table.file}: {table.name}.command {what} [{table.name}.slots]: {missing}")
    return template


def _slot(table: _Table) -> Slot:
    kind = table.take("type", one_of(*SLOT_TYPES), None)
    if kind is None:
        raise PolicyError(f"{table.file}: {table.name} needs a type: one of {', '.join(SLOT_TYPES)}")
    needs = {"enum": "choices", "path": "paths"}.get(kind)
    slot = Slot(
        kind,
        choices=table.take("choices", list_of(text), ()) if kind == "enum" else (),
        paths=table.take("paths", list_of(path_of), ()) if kind == "path" else (),
        min=table.take("min", number, None) if kind in ("integer", "number") else None,
        max=table.take("max", number, None) if kind in ("integer", "number") else None,
        default=table.take("default", text, None),
    )
    table.done()
    if needs is not None and not getattr(slot, needs):
        raise PolicyError(f"{table.file}: {table.name} of type {kind} needs {needs}")
    return slot
