"""Name the place up to which a log was read, as a text that a check keeps; log_tail.py says how it is written."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from attrs import frozen

from equus.capabilities import files
from equus.capabilities.calls import bad

# Bytes before the cursor that its mark covers: some lines with their times, and one read of a disk.
MARK_BYTES = 4096
CALL = "host.file.tail"
_CURSOR = re.compile(r"(\d{1,20}):(\d{1,20}):(\d{1,20})(?::([0-9a-f]{16}))?", re.ASCII)


@frozen
class Cursor:
    """Names the byte up to which a file was read. `mark` is None in cursors of earlier agents."""

    device: int
    inode: int
    offset: int
    mark: str | None
    before: Cursor | None = None  # of the file that was moved last

    def __str__(self) -> str:
        own = f"{self.device}:{self.inode}:{self.offset}:{self.mark}"
        return own if self.before is None else f"{own}+{self.before}"

    @classmethod
    def at(cls, descriptor: int, offset: int) -> Cursor:
        """Return the cursor of a place in an open file."""
        status = os.fstat(descriptor)
        return cls(status.st_dev, status.st_ino, offset, _mark(descriptor, offset))

    def precedes(self, descriptor: int) -> bool:
        """Return True if this open file begins with all that was read up to the cursor."""
        if self.offset > os.fstat(descriptor).st_size:
            return False
        return self.mark is None or self.mark == _mark(descriptor, self.offset)

    def is_of(self, descriptor: int) -> bool:
        """Return True if this open file has the device and inode of the cursor.

        The number of a network filesystem changes when it is mounted anew, so that a mark stands in for it.
        """
        status = os.fstat(descriptor)
        return status.st_ino == self.inode and (status.st_dev == self.device or bool(self.mark and self.offset))


def parse_cursor(value: Any) -> Cursor | None:
    """Parse a cursor. A check may have changed the text."""
    if value is None:
        return None
    own, plus, before = value.partition("+") if isinstance(value, str) else ("", "", "")
    found, found_before = _CURSOR.fullmatch(own), _CURSOR.fullmatch(before)
    if found is None or (plus and found_before is None):
        raise bad(f"{CALL}: cursor must be nil or the cursor of an earlier answer")
    return _cursor(found, None if found_before is None else _cursor(found_before, None))


def _cursor(found: re.Match[str], before: Cursor | None) -> Cursor:
    return Cursor(int(found[1]), int(found[2]), int(found[3]), found[4], before)


def _mark(descriptor: int, offset: int) -> str:
    begin = max(0, offset - MARK_BYTES)
    return hashlib.sha256(files.bytes_from(descriptor, begin, offset - begin)).hexdigest()[:16]
