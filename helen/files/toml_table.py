"""Reads tables of a TOML file: each setting once, by name. Faults are gathered, so that all are told at once. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from groundwork.durations import parse_duration

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")  # of an environment variable
MAX_TEXT = 4_096  # characters of one setting


@frozen
class Secret:
    """Refers to a secret; its value is in no file of Helen's, no log and no answer."""

    kind: str  # "env" or "file"
    name: str

    def __str__(self) -> str:
        return f"({self.kind} {self.name})"


Text = str | Secret


@frozen
class Table:
    """Reads the settings of one table of a TOML file. `place` names it in faults; `end` adds a fault for each setting
    that was not read.

    A reader returns its default, or an empty value, after a fault.
    """

    place: str
    content: Mapping[str, Any]
    faults: list[str]
    _known: list[str] = field(factory=list)

    def expect(self, *keys: str) -> None:
        """Leave these settings to other code: they are known, and read elsewhere."""
        self._known.extend(keys)

    def fault(self, key: str, wanted: str) -> None:
        """Add a fault: the value of a setting, or that it is missing, and what to write instead."""
        said = f"is {self.content[key]!r}" if key in self.content else "is missing"
        self.faults.append(f"{self.place}: {key} {said}: {wanted}")

    def text(self, key: str, wanted: str, default: str | None = None) -> str:
        """Read a text; without a default it must be there."""
        self._known.append(key)
        value = self.content.get(key, default)
        if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable():
            return value
        if value != default or default is None:
            self.fault(key, wanted)
        return default or ""

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Read a text that is one of these."""
        value = self.text(key, f"write {' or '.join(choices)}", default)
        if value in choices:
            return value
        if value:
            self.fault(key, f"write {' or '.join(choices)}")
        return choices[0]

    def secret(self, key: str, wanted: str = "", is_open: bool = False, required: bool = False) -> Text | None:
        """Read a reference to a secret; with `is_open` a text will do as well."""
        self._known.append(key)
        value = self.content.get(key)
        if value is None and not required:
            return None
        if is_open and isinstance(value, str) and 0 < len(value) <= MAX_TEXT and value.isprintable():
            return value
        found = read_secret(value)
        if found is None:
            where = '{ env = "NAME" } or { file = "/path" }'
            masked = "is written out" if isinstance(value, str) else "is not usable" if key in self.content else None
            self.faults.append(f"{self.place}: {key} {masked or 'is missing'}: write {wanted or where}")
        return found

    def secrets(self, key: str, wanted: str, most: int) -> tuple[Text, ...]:
        """Read texts or references, one or a list of them; there must be one. A fault never shows the value."""
        self._known.append(key)
        value = self.content.get(key)
        listed = value if isinstance(value, list) else [value]
        found = [each if _is_text(each) and each else read_secret(each) for each in listed]
        if key not in self.content or not 0 < len(found) <= most or None in found:
            self.faults.append(
                f"{self.place}: {key} {'is not usable' if key in self.content else 'is missing'}: {wanted}"
            )
            return ()
        return tuple(each for each in found if each is not None)

    def strings(self, key: str, wanted: str, default: tuple[str, ...] = (), most: int = 100) -> tuple[str, ...]:
        """Read a text, or a list of at most `most`."""
        self._known.append(key)
        value = self.content.get(key, list(default))
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list) and len(value) <= most and all(_is_text(each) for each in value):
            return tuple(value)
        self.fault(key, f"{wanted}; at most {most}")
        return default

    def texts(self, key: str) -> dict[str, Text]:
        """Read a table of texts and references to secrets."""
        self._known.append(key)
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            self.fault(key, 'write a table, such as { X-Team = "ops" }')
            return {}
        found = {name: each if _is_text(each) else read_secret(each) for name, each in value.items()}
        bad = sorted(name for name, each in found.items() if each is None)
        if bad:
            self.faults.append(f"{self.place}: {key}: {bad[0]} is neither a text nor a reference to one")
        return {name: each for name, each in found.items() if each is not None}

    def duration(self, key: str, default: float, least: float, most: float) -> float:
        """Read a duration as seconds, from `least` to `most`."""
        self._known.append(key)
        if key not in self.content:
            return default
        try:
            value = parse_duration(self.content[key])
        except ValueError as error:
            self.faults.append(f"{self.place}: {key}: {error}")
            return default
        if not least <= value <= most:
            self.faults.append(f"{self.place}: {key} is {value:g} s: {least:g} to {most:g} s")
            return default
        return value

    def number(self, key: str, default: int, least: int, most: int) -> int:
        """Read a whole number from `least` to `most`."""
        self._known.append(key)
        value = self.content.get(key, default)
        if type(value) is int and least <= value <= most:
            return value
        self.fault(key, f"write a number from {least} to {most}")
        return default

    def flag(self, key: str) -> bool:
        """Read true or false; false by default."""
        self._known.append(key)
        value = self.content.get(key, False)
        if not isinstance(value, bool):
            self.fault(key, "write true or false")
        return value is True

    def end(self) -> None:
        """Add a fault for each setting that was neither read nor expected."""
        for key in sorted(self.content.keys() - set(self._known)):
            self.faults.append(f"{self.place}: {key!r} is no setting here: {', '.join(sorted(set(self._known)))}")


def read_secret(value: Any) -> Secret | None:
    """Read `{ env = "NAME" }` or `{ file = "/path" }`; None for anything else."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    kind, name = next(iter(value.items()))
    if kind == "env" and isinstance(name, str) and NAME.fullmatch(name):
        return Secret(kind, name)
    if kind == "file" and _is_text(name) and name.startswith("/"):
        return Secret(kind, name)
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()
