"""Keep beside each offline key the record of what it has signed last: the file FILE.signed next to the key FILE.

The record is the memory that Helen can't change: which version comes next, which files are known, who signs. It is
locked while a command signs, and written before a signature leaves the machine.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol.manifest import FileEntry, ManifestDocument, key_id
from equus_protocol.roots import Root
from groundwork.atomic_write import PRIVATE, write_durably
from groundwork.file_lock import FileLock, LockHeld
from helen.cli.base.failures import Failed
from helen.files.state_dir import StateError
from helen.keys import signing_keys

SUFFIX = ".signed"
KEPT = 4  # sets: the last two pairs of a push and its undo


@frozen
class SignedSet:
    """Hold one set that a key has signed: its files by name, and the Equus that goes out with it."""

    version: int
    files: Mapping[str, FileEntry]
    agent: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, document: ManifestDocument) -> SignedSet:
        """Return the part of a manifest that is compared."""
        return cls(document.version, document.files, document.agent)

    def holds(self, document: ManifestDocument) -> bool:
        """Return True if a manifest names the same files and the same Equus."""
        return (self.files, self.agent) == (document.files, document.agent)


@frozen
class SignedRoot:
    """Hold a root that a key has signed: keys by id, in hexadecimal, and Helen's online key."""

    version: int
    threshold: int
    keys: Mapping[str, str]
    online: str | None

    @classmethod
    def of(cls, root: Root) -> SignedRoot:
        """Return the part of a root that is compared."""
        keys = {name: key.public_bytes_raw().hex() for name, key in root.keys.items()}
        return cls(root.version, root.threshold, keys, root.online.public_bytes_raw().hex() if root.online else None)


@frozen
class Record:
    """Hold what one or more keys have signed last.

    `version`: the highest of any set. `sets`: the newest pair first, in it the set before its undo. `published`: Helen
    has taken the newest pair. `sent`: a root that was signed, and that Helen has not confirmed yet.
    """

    version: int = 0
    sets: tuple[SignedSet, ...] = ()
    published: bool = False
    root: SignedRoot | None = None
    sent: SignedRoot | None = None

    def with_pair(self, new: ManifestDocument, undo: ManifestDocument) -> Record:
        """Return the record after a push and its undo were signed; the same numbers once more replace the last ones."""
        before = [each for each in self.sets if each.version < new.version]
        sets = (SignedSet.of(new), SignedSet.of(undo), *before)[:KEPT]
        return evolve(self, version=undo.version, sets=sets, published=False)


@define
class KeyFile:
    """Hold a private key with its record and the lock of it."""

    path: Path
    private: Ed25519PrivateKey = field(repr=False)
    record: Record | None

    @property
    def id(self) -> str:
        return key_id(self.private.public_key())

    def save(self, record: Record) -> None:
        """Write the record. Raises Failed if that fails: then nothing may be signed."""
        document = {"key": self.id, "version": record.version, "published": record.published}
        document["sets"] = [_write_set(each) for each in record.sets]
        document |= {name: _write_root(getattr(record, name)) for name in ("root", "sent")}
        try:
            write_durably(record_path(self.path), json.dumps(document, indent=1) + "\n", PRIVATE)
        except OSError as error:
            raise Failed(
                f"the record {record_path(self.path)} can't be written, so nothing was signed: {error.strerror}"
            ) from error
        self.record = record


def record_path(key: Path) -> Path:
    """Return the place of a key's record."""
    return key.with_name(key.name + SUFFIX)


@contextlib.contextmanager
def open_keys(paths: Iterable[Path]) -> Iterator[list[KeyFile]]:
    """Load private keys with their records, and lock these until the end; a key that is named twice is there once.

    Raises Failed if a key or a record can't be used, or if another command signs with it now.
    """
    with contextlib.ExitStack() as stack:
        found: dict[str, KeyFile] = {}
        for path in paths:
            try:
                private = signing_keys.load_private(path)
            except StateError as error:
                raise Failed(str(error)) from error
            name = key_id(private.public_key())
            if name not in found:
                stack.callback(_lock(path).release)
                found[name] = KeyFile(path, private, read_record(path, name))
        yield list(found.values())


def _lock(path: Path) -> FileLock:
    try:
        return FileLock(path.with_name(f"{path.name}{SUFFIX}.lock"))
    except LockHeld as held:
        raise Failed(f"another command signs with {path} now ({held.holder}): wait for its end") from held
    except OSError as error:
        raise Failed(
            f"no record of what {path} signs can be kept beside it: {error.strerror}. Copy the key into a folder of"
            " yours that can be written"
        ) from error


def read_record(path: Path, name: str) -> Record | None:
    """Return the record beside a key; None if there is none yet. Raises Failed if it is damaged or of another key."""
    place = record_path(path)
    try:
        document = json.loads(place.read_bytes())
        if document["key"] != name:
            raise Failed(f"{place} is the record of another key, {str(document['key'])[:16]}: move it away")
        sets = tuple(_read_set(each) for each in document["sets"])
        made = [None if document[n] is None else SignedRoot(**document[n]) for n in ("root", "sent")]
        return Record(int(document["version"]), sets, bool(document["published"]), *made)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Failed(
            f"{place} can't be used ({error}): bring it back from a backup, or move it away and say --first"
        ) from error


def _read_set(document: Mapping[str, Any]) -> SignedSet:
    files = {name: FileEntry(**each) for name, each in document["files"].items()}
    return SignedSet(document["version"], files, document["agent"])


def _write_set(each: SignedSet) -> dict[str, Any]:
    files = {name: {"sha256": entry.sha256, "size": entry.size} for name, entry in each.files.items()}
    return {"version": each.version, "files": files, "agent": None if each.agent is None else dict(each.agent)}


def _write_root(root: SignedRoot | None) -> dict[str, Any] | None:
    if root is None:
        return None
    return {"version": root.version, "threshold": root.threshold, "keys": dict(root.keys), "online": root.online}


def joined(keys: Sequence[KeyFile]) -> Record | None:
    """Return what is known to these keys together: the record of the one that has signed the newest; None without one.

    The root is the newest that any of them has signed.
    """
    records = [key.record for key in keys if key.record is not None]
    if not records:
        return None
    newest = max(records, key=lambda record: (record.version, record.published))
    roots = {
        name: max(
            (found for record in records if (found := getattr(record, name)) is not None),
            key=lambda root: root.version, default=None,
        )
        for name in ("root", "sent")
    }  # fmt: skip
    return evolve(newest, **roots)
