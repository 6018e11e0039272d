"""Define a published check set: its manifest, signed or still to be signed, and the files that agents may fetch."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from equus_protocol import manifest
from equus_protocol.manifest import FileEntry, ManifestDocument
from helen.assignments.schedule import CheckTable
from helen.library.lint_cache import Files


class PushRefused(Exception):
    """Says that a push can't be made; the text says why and what to do."""


@frozen
class Signed:
    """Describes a manifest in its envelope, and the document that was read from it."""

    envelope: bytes
    document: ManifestDocument

    @classmethod
    def read(cls, envelope: bytes) -> Signed:
        """Read an envelope that Helen has made or verified. Raises ManifestRefused if it is none."""
        return cls(envelope, manifest.read_unverified(envelope))


@frozen
class Published:
    """Describes a set that agents are offered, with the tables of its checks by their names."""

    envelope: bytes
    document: ManifestDocument
    tables: dict[str, CheckTable]

    @property
    def version(self) -> int:
        """Return the manifest's version."""
        return self.document.version

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the signed text, by which agents name the set."""
        return self.document.digest

    @property
    def files(self) -> dict[str, FileEntry]:
        """Return the entries of the checks and libraries, by name."""
        return self.document.files


@frozen
class Pair:
    """Holds two texts to sign: version N, and N+1 that undoes it, each with its document."""

    new: bytes
    undo: bytes
    new_document: ManifestDocument
    undo_document: ManifestDocument

    @property
    def version(self) -> int:
        """Return N."""
        return self.new_document.version

    def signed(self, new: bytes, undo: bytes) -> tuple[Signed, Signed]:
        """Return both manifests in their envelopes."""
        return Signed(new, self.new_document), Signed(undo, self.undo_document)


def build(
    files: Files, agent: Mapping[str, Any] | None, version: int, created: float, expires: float
) -> tuple[bytes, ManifestDocument]:
    """Return the text of a manifest and its document; `created` and `expires` are unix seconds.

    Raises PushRefused if no manifest can name these files.
    """
    try:
        text = manifest.build(files, version, created, expires, agent=agent)
    except ValueError as error:
        raise PushRefused(f"no manifest can name these files: {error}") from error
    digest = hashlib.sha256(text).hexdigest()
    document = ManifestDocument(
        version, float(created), float(expires), dict(sorted(files.items())), digest,
        agent=dict(agent) if agent else None,
    )  # fmt: skip
    return text, document


def all_files(document: ManifestDocument) -> dict[str, FileEntry]:
    """Return all that agents may fetch of a set: its checks, and the wheels of an Equus, as `agent/NAME`."""
    wheels = document.agent["files"] if document.agent is not None else {}
    return document.files | {f"agent/{name}": FileEntry(e["sha256"], e["size"]) for name, e in wheels.items()}
