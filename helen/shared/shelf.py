"""STATE/network: the documents of the network as this Helen has them, and which versions of them are in force here.

    NAME.document       the newest version, signed, as it travels
    applied.json        name -> the version that this Helen has made her own

Every function blocks: at start, or in a thread.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from twisted.logger import Logger

from helen.statedir import make_folder, write_whole
from scale0.documents import NAME, name_of, scope_of
from scale0.publication import Publication

ENDING = ".document"
APPLIED = "applied.json"

log = Logger()


class _Kept(msgspec.Struct, frozen=True):
    version: int
    form: str
    document: bytes
    signature: bytes


_decoder = msgspec.msgpack.Decoder(_Kept)


class Shelf:
    def __init__(self, state: Path) -> None:
        self._folder = state / "network"

    def load(self) -> list[Publication]:
        """What can be read. The rest comes again from the network."""
        found = []
        for path in sorted(self._folder.glob(f"*{ENDING}")):
            name = path.name.removesuffix(ENDING)
            try:
                kept = _decoder.decode(path.read_bytes())
            except (OSError, msgspec.MsgspecError) as error:
                log.error("{path} is left out: {error}", path=path, error=error)
                continue
            if NAME.fullmatch(name):
                found.append(Publication("", scope_of(name), kept.version, kept.form, kept.document, kept.signature))
        return found

    def load_applied(self) -> dict[str, int]:
        try:
            listed = json.loads((self._folder / APPLIED).read_bytes())
            return {str(name): int(version) for name, version in listed.items()}
        except (OSError, ValueError, AttributeError):
            return {}  # then all of it is made ours once more, which changes nothing

    def keep(self, publications: list[Publication], applied: dict[str, int]) -> None:
        make_folder(self._folder)
        for one in publications:
            kept = _Kept(one.version, one.form, one.document, one.signature)
            write_whole(self._folder / f"{name_of(one)}{ENDING}", msgspec.msgpack.encode(kept))
        write_whole(self._folder / APPLIED, json.dumps(applied).encode())
