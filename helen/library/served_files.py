"""Keeps in memory the files of the last few sets: an agent may still fetch what an older manifest names."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from equus_protocol.manifest import FileEntry, ManifestDocument
from helen.library.published import PushRefused, all_files
from helen.storage import publication_rows
from helen.storage.database import Store

SERVED_SETS = 4  # their files are in memory: an agent may still fetch what the manifest before the newest names


class ServedFiles:
    """Finds files by their SHA-256, in memory or in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._contents: dict[str, bytes] = {}
        self._served: deque[Mapping[str, FileEntry]] = deque(maxlen=SERVED_SETS)

    def keep(self, contents: Mapping[str, bytes]) -> None:
        """Keep files that the next release names, by their hashes."""
        self._contents.update(contents)

    def get(self, sha256: str) -> bytes | None:
        """Return a file that one of the last few sets names."""
        return self._contents.get(sha256)

    async def find(self, sha256: str) -> bytes | None:
        """Return a file that any published set has named, from memory or from the store."""
        held = self._contents.get(sha256)
        return held if held is not None else await self._store.call(publication_rows.file, sha256)

    async def fetch(self, document: ManifestDocument) -> None:
        """Bring the files of a set into memory. Raises PushRefused if the store lacks one."""
        for name, entry in all_files(document).items():
            if entry.sha256 not in self._contents:
                content = await self._store.call(publication_rows.file, entry.sha256)
                if content is None:
                    raise PushRefused(f"{name} (sha256 {entry.sha256}) is nowhere to be found: push it again")
                self._contents[entry.sha256] = content

    def contents_of(self, documents: Iterable[ManifestDocument]) -> dict[str, bytes]:
        """Return the files of these sets, which have been fetched, by their hashes."""
        return {e.sha256: self._contents[e.sha256] for each in documents for e in all_files(each).values()}

    def serve(self, document: ManifestDocument) -> None:
        """Count a set among the last few."""
        self._served.append(all_files(document))

    def prune(self, offered: Iterable[ManifestDocument]) -> None:
        """Drop from memory what neither the last few sets nor the offered ones name; the store has it."""
        named = {entry.sha256 for files in self._served for entry in files.values()}
        named |= {entry.sha256 for document in offered for entry in all_files(document).values()}
        self._contents = {sha256: content for sha256, content in self._contents.items() if sha256 in named}
