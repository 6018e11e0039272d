"""Encode and decode records of segments, the append-only files of the spool, and find where one ends after a crash.

A record is a header (length of the body, CRC-32 of the rest of the record, sequence, length of the check's id) and a
body (the id, then the blob). Nothing in a segment is ever changed; a reader trusts a record only by its CRC.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from attrs import define, frozen

_HEADER = struct.Struct("<IIIH")  # body length, crc, sequence, id length
HEADER_SIZE = _HEADER.size
MAX_BODY = 1_048_576 + 255  # bytes: the protocol's largest blob and longest id
SUFFIX = ".spool"


@frozen
class Record:
    """Describes one report of the spool, as it will be sent."""

    sequence: int
    check: str
    blob: bytes


def encode(record: Record) -> bytes:
    """Return the record as bytes: header and body."""
    check = record.check.encode()
    body = check + record.blob
    rest = struct.pack("<IH", record.sequence, len(check)) + body
    return _HEADER.pack(len(body), zlib.crc32(rest), record.sequence, len(check)) + body


@define
class Segment:
    """Describes one file of the spool: the sequences that it holds, and the size in bytes of its good part."""

    path: Path
    first: int
    last: int  # first - 1 while it is empty
    size: int

    @classmethod
    def named(cls, folder: Path, first: int) -> Segment:
        """Return an empty segment that begins with the sequence `first`; no file is made."""
        return cls(folder / f"{first:010d}{SUFFIX}", first, first - 1, 0)


def read_record(file: BinaryIO) -> Record | None:
    """Return the next record, or None at the end of the file, be it clean or torn."""
    header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return None
    length, crc, sequence, check_length = _HEADER.unpack(header)
    if length > MAX_BODY or check_length > length:
        return None
    body = file.read(length)
    if len(body) < length or zlib.crc32(header[8:] + body) != crc:
        return None
    try:
        return Record(sequence, body[:check_length].decode(), body[check_length:])
    except UnicodeDecodeError:
        return None


def scan(path: Path) -> Iterator[tuple[Record, int]]:
    """Yield every good record from the start, each with the offset behind it. Raises OSError."""
    end = 0
    with path.open("rb") as file:
        while (record := read_record(file)) is not None:
            end += HEADER_SIZE + len(record.check.encode()) + len(record.blob)
            yield record, end
