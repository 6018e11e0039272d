"""Keep, in a folder of checks, which sets lie in it: sets.json, with the hash of each of their files.

While files are written, .sets.coming.json has their hashes. After a stop it tells such a file from an operator's.
"""

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
COMING = ".sets.coming.json"
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
    """Holds the sets of a folder by name.

    `coming`: by set and file, the hashes of contents that additions began to write and did not end.
    """

    folder: Path
    sets: dict[str, Pin] = field(factory=dict)
    coming: dict[str, dict[str, tuple[str, ...]]] = field(factory=dict)

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

    def worked_on(self, name: str) -> list[str]:
        """Return the files of a set that a person has changed: those that a stopped addition has left don't count."""
        left = set(self.left(name))
        return [each for each in self.changed(name) if each not in left]

    def left(self, name: str) -> list[str]:
        """Return the files, as they are now, that a stopped addition of this set has left. Reads its files.

        One that another set has taken over since then is that set's.
        """
        noted = {
            each: hashes for each, hashes in self.coming.get(name, {}).items() if self.owner_of(each) in (None, name)
        }
        found = ((each, held(self.folder, each), hashes) for each, hashes in noted.items())
        return [each for each, content, hashes in found if content is not None and hash_of(content) in hashes]

    def begin(self, name: str, files: Mapping[str, bytes]) -> None:
        """Note durably that these contents of a set are about to be written. Raises OSError."""
        noted = self.coming.setdefault(name, {})
        for each, content in files.items():
            noted[each] = tuple(sorted({*noted.get(each, ()), hash_of(content)}))
        self._write_coming()

    def end(self, name: str) -> None:
        """Note that the pins are as the files of a set again. Raises OSError."""
        if self.coming.pop(name, None) is not None:
            self._write_coming()

    def settle(self, name: str) -> None:
        """Note only the contents that are there: a failed addition has undone what it could. Raises OSError."""
        left = self.left(name)
        self.coming[name] = {each: self.coming[name][each] for each in left}
        if not left:
            del self.coming[name]
        self._write_coming()

    def _write_coming(self) -> None:
        if self.coming:
            write_durably(self.folder / COMING, json.dumps(self.coming, indent=1, sort_keys=True) + "\n", PUBLIC)
        else:
            (self.folder / COMING).unlink(missing_ok=True)

    def write(self) -> None:
        """Write the file whole. Raises OSError."""
        document = {"sets": {name: asdict(pin) for name, pin in sorted(self.sets.items())}}
        write_durably(self.folder / PINS, json.dumps(document, indent=1, sort_keys=True) + "\n", PUBLIC)


def read_pins(folder: Path) -> Pins:
    """Return the sets of a folder; none if it has no sets.json. Raises SetRefused if that can't be read."""
    path, coming = folder / PINS, _read_coming(folder / COMING)
    text = _read(path)
    if text is None:
        return Pins(folder, coming=coming)
    try:
        return Pins(folder, {str(name): _pin(each) for name, each in json.loads(text)["sets"].items()}, coming)
    except (SetRefused, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SetRefused(
            f"{path} is not as `helen checks add` wrote it ({error}): take it from version control"
        ) from error


def _read(path: Path) -> bytes | None:
    """Return the content of a file of ours, None if it is not there. Raises SetRefused if it can't be read."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SetRefused(f"{path} can't be read: {error.strerror}") from error
    if len(text) > LONGEST:
        raise SetRefused(f"{path} has more than {LONGEST} bytes: take it from version control")
    return text


def _read_coming(path: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the contents that a stopped addition began to write; a damaged file tells nothing. Raises SetRefused."""
    text = _read(path)
    try:
        listed = {} if text is None else json.loads(text)
        return {
            str(name): {str(each): tuple(map(str, hashes)) for each, hashes in files.items() if _is_name(each)}
            for name, files in listed.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _is_name(name: str) -> bool:
    """Return True for the name of a check's file; a path that leads out must not be deleted."""
    return FILE_NAME.fullmatch(name.removeprefix("tests/")) is not None


def _pin(document: dict[str, Any]) -> Pin:
    pin = Pin(**document)
    version_order(pin.version)
    public_key(pin.key)
    if not all(map(_is_name, pin.files)) or not all(map(_HASH.fullmatch, pin.files.values())):
        raise ValueError("a file has another name or hash than a check's")
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
