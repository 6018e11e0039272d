"""Writes a write-ahead log (WAL), and reads one that a crash left.

When a group is written and what becomes of the file afterwards is not decided here.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from attrs import define, frozen

from groundwork.counts import count, is_or_are
from helen.journal.folder import Folder
from helen.journal.record import HEADER_SIZE, Bad, BadRecord, Sound, Tail, header, scan


class OpenWal:
    """Holds the WAL that is being written. `append` may be tried again after it failed, `sync_content` may not.

    `sync_name` may, if the error says that the folder could not even be opened.
    """

    def __init__(self, folder: Folder, number: int) -> None:
        self.number = number
        self.path = folder.wal(number)
        self.salt = secrets.randbits(32)
        self.size = 0
        self._folder = folder
        self._disk = folder.disk
        self._descriptor: int | None = None
        self._name_is_durable = False

    def append(self, data: bytes) -> None:
        """Write records behind the last good byte. Raises OSError; then nothing of them stays."""
        if self._descriptor is None:
            self._descriptor = self._disk.create_log(self.path)
        if not self.size:
            data = header(self.number, self.salt) + data
        try:
            self._disk.write(self._descriptor, data, self.size)
        except OSError:
            with contextlib.suppress(OSError):  # the next try writes at the same place anyway
                self._disk.truncate(self._descriptor, self.size)
            raise
        self.size += len(data)

    def sync_content(self) -> None:
        """Make everything appended durable in a file that may not have its name yet. Raises OSError."""
        assert self._descriptor is not None, "nothing was appended"
        self._disk.sync(self._descriptor)

    def sync_name(self) -> None:
        """Make the file's name durable, if it is not yet. Raises OSError."""
        if not self._name_is_durable:
            self._disk.sync_folder(self.path.parent)
            self._name_is_durable = True

    def close(self) -> None:
        """Close the file; `append` isn't called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@frozen
class Damage:
    """Describes a piece of a WAL that is no sound record; `kept` is the file in quarantine that holds it, if any."""

    sentence: str
    size: int
    kept: Path | None = None


@define
class LeftWal:
    """Reads a WAL found on disk. Iterate over it once; then `damage` tells what was wrong."""

    path: Path
    folder: Folder
    damage: list[Damage]

    def __iter__(self) -> Iterator[Sound]:
        data = self.path.read_bytes()
        try:
            for part in scan(data):
                if isinstance(part, Sound):
                    yield part
                else:
                    self.damage.append(self._judge(data, part))
        except BadRecord as error:
            self.damage.append(self._bad_header(data, error))

    def _judge(self, data: bytes, part: Bad | Tail) -> Damage:
        size = part.end - part.start
        if isinstance(part, Tail) and part.torn:
            return Damage(
                f"{self.path.name}: its last {count(size, 'byte is', 'bytes are')} a write that was interrupted;"
                " cut. Nothing in them was acknowledged.", size,
            )  # fmt: skip
        kept = self._quarantine(part.start, data[part.start : part.end])
        return Damage(
            f"{self.path.name}: {count(size, 'byte')} at offset {part.start} {is_or_are(size)} damaged; kept as {kept}"
            " and left out of the history. Look at the disk.", size, kept,
        )  # fmt: skip

    def _bad_header(self, data: bytes, error: BadRecord) -> Damage:
        if len(data) <= HEADER_SIZE or not data.strip(b"\0"):
            return Damage(f"{self.path.name}: {error}; it holds nothing.", len(data))
        kept = self._quarantine(0, data)
        sentence = f"{self.path.name}: {error}; kept as {kept}. Its results are not in the history."
        return Damage(sentence, len(data), kept)

    def _quarantine(self, offset: int, data: bytes) -> Path:
        kept = self.folder.quarantine / f"{self.path.stem}-at-{offset:08}.bin"
        self.folder.publish(kept, data)
        return kept
