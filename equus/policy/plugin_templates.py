"""Build the command lines of plugins and programs that a policy lets checks run: templates with typed slots. Pure.

There is no shell on the way, and still a value never becomes an option: it may not begin with "-", and holds no
control character. The type of a slot says which values it takes; there is no list of forbidden ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen

SLOT_TYPES = ("percent", "integer", "number", "enum", "path", "host", "word")
_PLACE = re.compile(r"\{([a-z][a-z0-9_]{0,31})\}")
_PATTERNS = {
    "host": re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}"),
    "word": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+-]{0,127}"),
}


@frozen
class Slot:
    """Describes one place of a command line that a check fills: its type, and the values that it takes."""

    type: str
    choices: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    default: str | None = None

    def text(self, value: Any) -> str:
        """Return the argument for a value. Raises ValueError; its text continues a sentence about the slot."""
        if self.type in ("percent", "integer", "number"):
            return self._number(value)
        if not isinstance(value, str):
            raise ValueError("must be a text")
        if value.startswith("-") or not value.isprintable():
            raise ValueError("must not begin with '-' or hold control characters")
        if self.type == "enum" and value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        if self.type == "path" and not any(is_beneath(value, root) for root in self.paths):
            raise ValueError(f"must be an absolute path beneath {' or '.join(self.paths)}")
        if self.type in _PATTERNS and not _PATTERNS[self.type].fullmatch(value):
            raise ValueError(f"is not a {self.type}")
        return value

    def _number(self, value: Any) -> str:
        try:
            number = float(value) if isinstance(value, str) and len(value) < 32 else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int | float) or number != number:
            raise ValueError("must be a number")
        low, high = (0, 100) if self.type == "percent" else (self.min, self.max)
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"must be from {low} to {high}")
        if number < 0 and (low is None or low >= 0):
            raise ValueError("must not be negative (a slot with min below 0 takes such numbers)")
        if self.type == "integer":
            if number != number // 1 or abs(number) > 2**53:
                raise ValueError("must be a whole number")
            return str(int(number))
        if abs(number) == float("inf"):
            raise ValueError("must be a finite number")
        return f"{number:.15g}"


@frozen
class Plugin:
    """Describes a program of the host: its command line with `{slot}` places, its user, its timeout in seconds."""

    name: str
    command: tuple[str, ...]
    slots: Mapping[str, Slot] = field(factory=dict)
    user: str | None = None
    timeout: float = 30.0
    kind: ClassVar[str] = "plugin"  # how sentences, and the section of the policy, call it

    def argv(self, values: Mapping[str, Any]) -> list[str]:
        """Return the command line for values by slot. Raises ValueError if one is missing, unknown or wrong."""
        for name in values:
            if name not in self.slots:
                known = ", ".join(self.slots) or "none"
                raise ValueError(f"{self.kind} {self.name} has no slot {name!r}; it has {known}")
        texts = {name: self._text(name, slot, values.get(name)) for name, slot in self.slots.items()}
        return [_PLACE.sub(lambda place: texts[place[1]], argument) for argument in self.command]

    def _text(self, name: str, slot: Slot, value: Any) -> str:
        if value is None:
            if slot.default is None:
                raise ValueError(f"{self.kind} {self.name} needs a value for {name}")
            return slot.default
        try:
            return slot.text(value)
        except ValueError as fault:
            raise ValueError(f"{self.kind} {self.name}: {name} {fault}") from None


@frozen
class Program(Plugin):
    """Describes one program whose output is returned as it is, and not read as a plugin's."""

    kind: ClassVar[str] = "program"


def slots_in(command: tuple[str, ...]) -> set[str]:
    """Return the names of the slots that a template has places for."""
    return {name for argument in command for name in _PLACE.findall(argument)}


def is_beneath(path: str, root: str) -> bool:
    """Return True if an absolute path without `.` and `..` is `root` or lies below it.

    Symbolic links are not looked at: the function that opens the file must refuse them.
    """
    if not path.startswith("/") or "\0" in path or any(part in (".", "..") for part in path.split("/")):
        return False
    clean = "/" + "/".join(filter(None, path.split("/")))
    return clean == root or clean.startswith(root.rstrip("/") + "/")
