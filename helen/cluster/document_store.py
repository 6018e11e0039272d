"""Keeps STATE/network: the documents of the network as this Helen has them, and their versions in force here.

    NAME.document       the newest version, signed, as it travels
    applied.json        name -> the version that is in force at this Helen

Every function blocks: at start, or in a thread.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from twisted.logger import Logger

from groundwork.atomic_write import write_durably
from groundwork.presence import names_in, read_if_there
from helen.files.state_dir import make_folder
from scale0.documents.collection import NAME, name_of, scope_of
from scale0.documents.publication import Publication

ENDING = ".document"
APPLIED = "applied.json"

log = Logger()


class _Kept(msgspec.Struct, frozen=True):
    version: int
    form: str
    document: bytes
    signature: bytes


_decoder = msgspec.msgpack.Decoder(_Kept)


class DocumentStore:
    """Reads and writes the folder STATE/network."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "network"

    def load(self) -> list[Publication]:
        """Return the sound documents; a damaged one comes again from the network. Raises OSError."""
        found = []
        for name in (each.removesuffix(ENDING) for each in names_in(self._folder) if each.endswith(ENDING)):
            path = self._folder / f"{name}{ENDING}"
            try:
                kept = _decoder.decode(path.read_bytes())
            except msgspec.MsgspecError as error:
                log.error("{path} is damaged and comes again from the network: {error}", path=path, error=error)
                continue
            if NAME.fullmatch(name):
                found.append(Publication("", scope_of(name), kept.version, kept.form, kept.document, kept.signature))
        return found

    def load_applied(self) -> dict[str, int]:
        """Return, by name, the versions that were in force; nothing if the file is lost. Raises OSError.

        Without it every document is adopted once more, in place of what has changed here while this Helen was down.
        """
        raw = read_if_there(self._folder / APPLIED)
        if raw is None:
            return {}
        try:
            return {str(name): int(version) for name, version in json.loads(raw).items()}
        except (ValueError, AttributeError, TypeError) as error:
            log.error(
                "{path} is damaged ({error}): each document of the network is adopted once more",
                path=self._folder / APPLIED, error=error,
            )  # fmt: skip
            return {}

    def keep(self, publications: list[Publication], applied: dict[str, int]) -> None:
        """Write these documents and the versions in force. Raises OSError, e.g. if the disk is full."""
        make_folder(self._folder)
        for one in publications:
            kept = _Kept(one.version, one.syntax, one.document, one.signature)
            write_durably(self._folder / f"{name_of(one)}{ENDING}", msgspec.msgpack.encode(kept))
        write_durably(self._folder / APPLIED, json.dumps(applied).encode())
