"""Reads and writes marks.json: how far the WALs are sealed, the last numbers used, and all dedupe marks at that point.

It is written after the segments of a WAL and before the WAL is deleted. The file before stays as marks.previous.json:
a damaged one costs a look into the newest segments, not the marks.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from zlib import crc32

import msgspec
from attrs import field, frozen

from helen.journal.folder import Folder
from helen.journal.marks import MarkRow

FORMAT = 1


@frozen
class Snapshot:
    """Says that WALs up to `wal` are sealed, into segments up to `segment` and `change`; `at` is the last one used."""

    wal: int = 0
    segment: int = 0
    change: int = 0
    at: int = 0
    marks: list[MarkRow] = field(factory=list, repr=False)


class _Document(msgspec.Struct):
    format: int
    wal: int
    segment: int
    change: int
    at: int
    marks: list[MarkRow]


def encode(snapshot: Snapshot) -> bytes:
    """Return one line of JSON and one with its CRC-32."""
    line = msgspec.json.encode(
        _Document(FORMAT, snapshot.wal, snapshot.segment, snapshot.change, snapshot.at, snapshot.marks)
    )
    return b"%s\n%08x\n" % (line, crc32(line))


def decode(data: bytes) -> Snapshot | None:
    """Return the snapshot; None where the bytes aren't a whole one."""
    line, _, rest = data.partition(b"\n")
    if rest != b"%08x\n" % crc32(line):
        return None
    try:
        document = msgspec.json.decode(line, type=_Document)
    except msgspec.MsgspecError:
        return None
    if document.format != FORMAT:
        return None
    return Snapshot(document.wal, document.segment, document.change, document.at, document.marks)


def save(folder: Folder, snapshot: Snapshot) -> None:
    """Replace marks.json durably, and keep the one before. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.replace(folder.marks, folder.previous_marks)
    folder.disk.reached("marks-moved")
    folder.publish(folder.marks, encode(snapshot))


@frozen
class Found:
    """Holds the newest sound snapshot, or an empty one; and the files that are damaged."""

    snapshot: Snapshot
    damaged: tuple[Path, ...] = ()

    def sentences(self) -> list[str]:
        """Return the sentences for the operator."""
        return [
            f"{path} is damaged: what it held is read from the segments that it would have covered."
            for path in self.damaged
        ]


def load(folder: Folder) -> Found:
    """Read marks.json; where it is damaged or missing, the one before it."""
    damaged: list[Path] = []
    for path in (folder.marks, folder.previous_marks):
        data = _read(path)
        if data is None:
            continue
        snapshot = decode(data)
        if snapshot is not None:
            return Found(snapshot, tuple(damaged))
        damaged.append(path)
    return Found(Snapshot(), tuple(damaged))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
