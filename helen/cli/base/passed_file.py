"""Write and read the JSON files that go from one person to the next until enough of them have signed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from equus_protocol import manifest
from equus_protocol.manifest import ManifestRefused
from groundwork.atomic_write import PRIVATE, write_durably
from helen.cli.base.failures import Failed

T = TypeVar("T")


def write_passed(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document whole, for its owner alone. Raises Failed."""
    try:
        write_durably(path, json.dumps(document, indent=1) + "\n", PRIVATE)
    except OSError as error:
        raise Failed(f"{path} can't be written: {error.strerror}") from error


def read_passed(path: Path, longest: int, written_by: str, take: Callable[[Mapping[str, Any]], T]) -> T:
    """Return what `take` makes of the document in a file of at most `longest` bytes; `written_by` is a command.

    Raises Failed if the file can't be read, or if `take` raises an error of a document that is another one.
    """
    try:
        with path.open("rb") as file:
            return take(manifest.read_object(file.read(longest)))
    except OSError as error:
        raise Failed(f"{path} can't be read: {error.strerror}") from error
    except (ManifestRefused, ValueError, KeyError, AttributeError) as error:
        raise Failed(f"{path} is no file that `{written_by}` has written: {error}") from error


def wrong_type(document: Mapping[str, Any]) -> ValueError:
    """Return the error of a document that is of another type than it should be."""
    return ValueError(f"its type is {str(document.get('type'))[:40]!r}")
