"""The state folder of a broker: run.json for others to find it by, broker.json and documents/ for itself to go on from.

All of it blocks on the disk; the service calls it in a thread.
"""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from scale0.documents import SCOPE
from scale0.publication import Publication


class StoredDocument(msgspec.Struct, frozen=True):
    """A configuration that came by the network."""

    version: int
    form: str
    document: bytes
    signature: bytes = b""


class Record(msgspec.Struct, frozen=True):
    """What survives a restart."""

    state: str
    version: int
    file_digest: str  # of the file that the version was given to; another file is a new version
    received: dict[str, StoredDocument] = {}  # by scope


_packed = msgspec.msgpack.Decoder(StoredDocument)


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_file, self._record_file = path / "run.json", path / "broker.json"
        self._documents = path / "documents"

    def prepare(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.forget_run()

    def load(self) -> Record | None:
        """The record, or None where there is none. One that cannot be read is put aside, not overwritten."""
        try:
            return msgspec.json.decode(self._record_file.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            self._record_file.replace(self._record_file.with_suffix(".unreadable"))
            return None

    def store(self, record: Record) -> None:
        self._write(self._record_file, msgspec.json.encode(record), durable=True)

    def load_documents(self) -> dict[str, StoredDocument]:
        """By scope; one that cannot be read is left out, and comes again from whoever shares it."""
        found = {}
        for path in sorted(self._documents.glob("*.document")):
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found[SCOPE + path.name.removesuffix(".document")] = _packed.decode(path.read_bytes())
        return found

    def store_document(self, new: Publication) -> None:
        self._documents.mkdir(mode=0o700, exist_ok=True)
        stored = StoredDocument(new.version, new.form, new.document, new.signature)
        path = self._documents / f"{new.scope.removeprefix(SCOPE)}.document"
        self._write(path, msgspec.msgpack.encode(stored), durable=True)

    def write_run(self, run: dict[str, Any]) -> None:
        self._write(self.run_file, msgspec.json.encode(run), durable=False)

    def forget_run(self) -> None:
        self.run_file.unlink(missing_ok=True)

    def _write(self, path: Path, content: bytes, durable: bool) -> None:
        """All of it or nothing of it, whenever the power goes."""
        temporary = path.with_name(f".{path.name}.{base64.b32encode(os.urandom(5)).decode()}")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        if durable:
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
