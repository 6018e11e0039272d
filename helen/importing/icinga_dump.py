"""Read what Icinga 2 answers to `GET /v1/objects/hosts`, `services` and `checkcommands`: JSON, in one file or more.

curl -sk -u USER:PASSWORD https://ICINGA:5665/v1/objects/hosts > dump/hosts.json      and so on
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from helen.importing.found import SourceError

MAX_SIZE = 512 * 1024 * 1024  # bytes of all files
MAX_FILES = 100
NEEDED = ("Host", "Service", "CheckCommand")

Attributes = dict[str, Any]


def read(source: Path) -> dict[str, dict[str, Attributes]]:
    """Return the attributes of objects by type and name. Raises SourceError if the source can't be used."""
    found: dict[str, dict[str, Attributes]] = {}
    for path in _files(source):
        for kind, name, attributes in _objects(path):
            found.setdefault(kind, {})[name] = attributes
    if missing := [kind for kind in NEEDED if kind not in found]:
        paths = ", ".join(f"/v1/objects/{kind.lower()}s" for kind in missing)
        raise SourceError(f"{source} has no objects of the type {', '.join(missing)}: add what {paths} answers")
    return found


def _files(source: Path) -> list[Path]:
    try:
        paths = sorted(source.glob("*.json")) if source.is_dir() else [source]
        size = sum(path.stat().st_size for path in paths)
    except OSError as error:
        raise SourceError(f"{source} can't be read: {error.strerror}") from error
    if not paths:
        raise SourceError(f"{source} has no file *.json: put the answers of Icinga's API there")
    if len(paths) > MAX_FILES or size > MAX_SIZE:
        raise SourceError(f"{source} has more than {MAX_FILES} files or {MAX_SIZE >> 20} MiB")
    return paths


def _objects(path: Path) -> Iterator[tuple[str, str, Attributes]]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise SourceError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path} is no JSON: {str(error)[:200]}") from error
    for each in document if isinstance(document, list) else [document]:
        results = each.get("results") if isinstance(each, dict) else None
        if not isinstance(results, list):
            said = each.get("status") if isinstance(each, dict) else None
            more = f"; Icinga said: {str(said)[:200]}" if said else ""
            raise SourceError(f'{path} has no "results": it is no answer of /v1/objects{more}')
        for result in results:
            kind, name = (result.get("type"), result.get("name")) if isinstance(result, dict) else (None, None)
            if not isinstance(kind, str) or not isinstance(name, str) or not isinstance(result.get("attrs"), dict):
                raise SourceError(f"{path} has an object without type, name and attrs")
            yield kind, name, result["attrs"]
