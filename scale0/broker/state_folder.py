"""Reads and writes the state folder of a broker: run.json, broker.json and documents/.

run.json is for other programs, to find the broker by; the broker itself goes on from the others after a restart. All
of it blocks on the disk: the service calls it in a thread.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from groundwork.atomic_write import remove_leftovers, write_durably
from scale0.documents.collection import SCOPE
from scale0.documents.publication import Publication


class StoredDocument(msgspec.Struct, frozen=True):
    """Holds a configuration or a document that came by the network."""

    version: int
    form: str  # its syntax: JSON, XML or ZFL
    document: bytes
    signature: bytes = b""


class Record(msgspec.Struct, frozen=True):
    """Holds what survives a restart: broker.json."""

    state: str
    version: int
    file_digest: str  # of the file that the version was given to; another file is a new version
    received: dict[str, StoredDocument] = {}  # by scope


_packed = msgspec.msgpack.Decoder(StoredDocument)


class StateFolder:
    """Names and writes the files of one state folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_file, self._record_file = path / "run.json", path / "broker.json"
        self._documents = path / "documents"

    def prepare(self) -> None:
        """Make the folder, and remove what a killed process left in it."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.path, self._documents):
            remove_leftovers(folder)
        self.forget_run()

    def load(self) -> Record | None:
        """Return the record, or None if there is none. One that cannot be read is renamed, not overwritten."""
        try:
            return msgspec.json.decode(self._record_file.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            self._record_file.replace(self._record_file.with_suffix(".unreadable"))
            return None

    def store(self, record: Record) -> None:
        """Write the record. Raises OSError if the disk refuses."""
        write_durably(self._record_file, msgspec.json.encode(record))

    def load_documents(self) -> dict[str, StoredDocument]:
        """Return the documents by scope; a damaged one is left out, and comes again from a peer. Raises OSError."""
        found = {}
        for path in sorted(self._documents.glob("*.document")):
            with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
                found[SCOPE + path.name.removesuffix(".document")] = _packed.decode(path.read_bytes())
        return found

    def store_document(self, new: Publication) -> None:
        """Write one document. Raises OSError if the disk refuses."""
        self._documents.mkdir(mode=0o700, exist_ok=True)
        stored = StoredDocument(new.version, new.syntax, new.document, new.signature)
        path = self._documents / f"{new.scope.removeprefix(SCOPE)}.document"
        write_durably(path, msgspec.msgpack.encode(stored))

    def write_run(self, run: dict[str, Any]) -> None:
        """Write run.json, which lists the endpoints. Raises OSError if the disk refuses."""
        write_durably(self.run_file, msgspec.json.encode(run))

    def forget_run(self) -> None:
        """Remove run.json, as the broker serves no one now."""
        self.run_file.unlink(missing_ok=True)
