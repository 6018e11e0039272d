"""Keep, in a folder of checks, which sets lie in it: sets.json, with the hash of each of their files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen

from equus_protocol.manifest import FILE_NAME, key_id
from groundwork.atomic_write import PUBLIC, write_durably
from helen.sets.check_set import CheckSet, public_key, version_order
from helen.sets.refused import SetRefused

PINS = "sets.json"
LONGEST = 4 * 1024 * 1024  # bytes
_HASH = re.compile(r"[0-9a-f]{64}")


@frozen
class Pin:
    """Describes a set as it was added. `digest`: of all that its author signed; `files`: SHA-256 by name."""

    version: str
    digest: str
    key: str
    author: str
    source: str
    files: Mapping[str, str]

    @property
    def key_id(self) -> str:
        """Return the short name of the author's key."""
        return key_id(public_key(self.key))

    @classmethod
    def of(cls, found: CheckSet, source: str) -> Pin:
        """Return the pin of a set that comes from `source`."""
        files = {name: hash_of(content) for name, content in sorted(found.files.items())}
        return cls(found.version, found.digest, found.key, found.author, source, files)


@define
class Pins:
    """Holds the sets of a folder by name."""

    folder: Path
    sets: dict[str, Pin] = field(factory=dict)

    def owner_of(self, name: str) -> str | None:
        """Return the set that a file belongs to, or None."""
        return next((owner for owner, pin in self.sets.items() if name in pin.files), None)

    def faults(self, name: str) -> list[str]:
        """Return what differs from the pin of a set: `disk.lua was changed`, `lib/x.lua is gone`. Reads its files."""
        gone = [f"{each} is gone" for each in self.sets[name].files if held(self.folder, each) is None]
        return gone + [f"{each} was changed" for each in self.changed(name)]

    def changed(self, name: str) -> list[str]:
        """Return the files of a set that are there with other bytes than when it was pinned. Reads its files."""
        pin = self.sets[name]
        found = {each: held(self.folder, each) for each in pin.files}
        hashes = {each: hash_of(content) for each, content in found.items() if content is not None}
        return [each for each, sha256 in hashes.items() if sha256 != pin.files[each]]

    def write(self) -> None:
        """Write the file whole. Raises OSError."""
        document = {"sets": {name: asdict(pin) for name, pin in sorted(self.sets.items())}}
        write_durably(self.folder / PINS, json.dumps(document, indent=1, sort_keys=True) + "\n", PUBLIC)


def read_pins(folder: Path) -> Pins:
    """Return the sets of a folder; none if it has no sets.json. Raises SetRefused if that can't be read."""
    path = folder / PINS
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError:
        return Pins(folder)
    except OSError as error:
        raise SetRefused(f"{path} can't be read: {error.strerror}") from error
    try:
        if len(text) > LONGEST:
            raise ValueError(f"it has more than {LONGEST} bytes")
        return Pins(folder, {str(name): _pin(each) for name, each in json.loads(text)["sets"].items()})
    except (SetRefused, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SetRefused(
            f"{path} is not as `helen checks add` wrote it ({error}): take it from version control"
        ) from error


def _pin(document: dict[str, Any]) -> Pin:
    pin = Pin(**document)
    version_order(pin.version)
    public_key(pin.key)
    names = [name.removeprefix("tests/") for name in pin.files]
    if not all(FILE_NAME.fullmatch(name) for name in names) or not all(map(_HASH.fullmatch, pin.files.values())):
        raise ValueError("a file has another name or hash than a check's")  # a path that leads out must not be deleted
    return pin


def held(folder: Path, name: str) -> bytes | None:
    """Return the content of a file in the folder, or None if there is none. Raises SetRefused if it can't be read."""
    try:
        return (folder / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SetRefused(f"{folder / name} can't be read: {error.strerror}") from error


def hash_of(content: bytes) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
