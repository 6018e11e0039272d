"""Read `objects.cache` of Nagios, Naemon and Icinga 1: all objects as they are in effect, templates resolved.

The file says `define TYPE {`, a line for each setting, and `}`. `nagios.cfg` names it, and the file of `$USERn$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

from helen.importing.found import SourceError

MAX_SIZE = 256 * 1024 * 1024
MAX_OBJECTS = 1_000_000
MAX_VALUE = 65_536
_DEFINE = re.compile(r"define\s+([a-z]+)\s*\{")
_USER = re.compile(r"(\$USER\d{1,3}\$)\s*=\s?(.*)")

Object = dict[str, str]


@frozen
class Core:
    """Holds the objects of a Nagios core by type, the values of `$USERn$`, and how many seconds one unit of an interval
    has.
    """

    objects: dict[str, list[Object]]
    users: dict[str, str] = field(factory=dict)
    unit: float = 60.0


def read(source: Path, resources: Path | None = None) -> Core:
    """Read an objects.cache, or the nagios.cfg that names one. Raises SourceError if it can't be used."""
    unit = 60.0
    if source.suffix == ".cfg":
        settings = _settings(source)
        unit = _seconds(settings.get("interval_length", "60"), source)
        if not (cache := settings.get("object_cache_file")):
            raise SourceError(f"{source} names no object_cache_file: give the file objects.cache itself")
        named = settings.get("resource_file")
        resources = resources or (source.parent / named if named else None)
        source = source.parent / cache
    return Core(_objects(source), _users(resources), unit)


def _seconds(text: str, path: Path) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise SourceError(f"{path}: interval_length is {text[:40]!r}: seconds are expected, 60 as a rule")
    return seconds


def _settings(path: Path) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in _lines(path) if "=" in line and not line.lstrip().startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def _users(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    found = (_USER.match(line.strip()) for line in _lines(path))
    return {match[1]: match[2].rstrip() for match in found if match}


def _lines(path: Path) -> Iterator[str]:
    """Give the lines of a text file. Raises SourceError with the reason if it can't be read."""
    try:
        if path.stat().st_size > MAX_SIZE:
            raise SourceError(f"{path} has more than {MAX_SIZE >> 20} MiB: is it the right file?")
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            while line := lines.readline(MAX_VALUE + 1):
                if len(line) > MAX_VALUE:
                    raise SourceError(f"{path} has a line of more than {MAX_VALUE:,} characters: is it the right file?")
                yield line.rstrip("\r\n")
    except OSError as error:
        raise SourceError(f"{path} can't be read: {error.strerror}") from error


def _objects(path: Path) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    current: Object | None = None
    number = count = 0
    for number, line in enumerate(_lines(path), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if current is None:
            if not (match := _DEFINE.fullmatch(text)):
                raise SourceError(_fault(path, number, f"{text[:60]!r} where `define TYPE {{` is expected"))
            current = {}
            found.setdefault(match[1], []).append(current)
            count += 1
            if count > MAX_OBJECTS:
                raise SourceError(f"{path} has more than {MAX_OBJECTS:,} objects")
        elif text == "}":
            current = None
        elif _DEFINE.fullmatch(text):
            raise SourceError(_fault(path, number, "an object begins within another one"))
        else:
            key, _, value = text.replace("\t", " ", 1).partition(" ")
            current[key] = value.strip()
    if current is not None:
        raise SourceError(_fault(path, number, "the file ends within an object: it was cut, copy it again"))
    if not found.get("host"):
        raise SourceError(f"{path} has no host: it must be the objects.cache of a core that has started")
    return found


def _fault(path: Path, line: int, what: str) -> str:
    return f"{path}, line {line}: {what}"
