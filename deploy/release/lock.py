"""Reads a lock of requirements/: each package with its version, its hashes, and what needs it."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

PIN = re.compile(
    r"([a-z0-9._-]+)==([^\s;]+)(?: ; ([^\\]+?))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)((?:    #.*\n)*)"
)


@attrs.frozen
class Pin:
    """One package of a lock. `needed_by` are the packages that need it; ours is `helen-equus`."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]


def read_lock(path: Path) -> list[Pin]:
    """Return the packages of a lock. Raises ValueError if it has a line that is none of a package with hashes."""
    text = re.sub(r"\A(?:#.*\n)*", "", path.read_text())
    pins = []
    for found in PIN.finditer(text):
        name, version, marker, hashes, via = found.groups()
        named = re.findall(r"#   (?:via )?([a-z0-9._-]+)|# via ([a-z0-9._-]+)", via)
        needed_by = tuple(one or other for one, other in named)
        pins.append(Pin(name, version, marker or "", tuple(re.findall(r"sha256:(\w+)", hashes)), needed_by))
    if rest := PIN.sub("", text).strip():
        raise ValueError(f"{path}: this is no package with its hashes: {rest.splitlines()[0]!r}. Run `./dev lock`")
    return pins
