"""Own the segments of a spool: find them in its folder, append to the newest, read from all, remove the oldest.

Every call blocks, and raises OSError where the disk fails.
"""

from __future__ import annotations

import itertools
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from equus.spool.segment import SUFFIX, Record, Segment, read_record, scan
from groundwork.atomic_write import sync_folder


class Segments:
    """Holds the segments of one folder in order. `open` must be called before anything is appended."""

    _fd: int  # of the newest segment

    def __init__(self, folder: Path) -> None:
        """Find them. The last one is read to its end, and its torn tail is cut."""
        self._folder = folder
        self._all = _found(folder)
        # of the reader: a segment's first sequence, the next one in it, and its offset
        self._position = (-1, 0, 0)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    @property
    def size(self) -> int:
        """Return the bytes of all of them."""
        return sum(segment.size for segment in self._all)

    @property
    def last(self) -> int:
        """Return the last sequence that one of them holds; 0 if there are none."""
        return self._all[-1].last if self._all else 0

    # ------------------------------------------------------------------------------------------------ writing

    def open(self, sequence: int) -> None:
        """Open the newest to append this sequence; begin another if a sequence before it is missing."""
        if not self._all or self.last < sequence - 1:
            self._begin(sequence)
        else:
            self._fd = _open_for_appending(self._all[-1].path)

    def begin_if_full(self, sequence: int, more: int, limit: int) -> None:
        """Begin another segment with this sequence if `more` bytes would make the newest longer than `limit`."""
        newest = self._all[-1]
        if newest.size and newest.size + more > limit:
            full = self._fd
            os.fdatasync(full)
            self._begin(sequence)
            os.close(full)

    def append(self, sequence: int, data: bytes) -> None:
        """Write a record to the newest. After an OSError `cut` must be called."""
        self._write(data)
        self._all[-1].last = sequence
        self._all[-1].size += len(data)

    def cut(self) -> None:
        """Cut off a record that was written in part."""
        os.ftruncate(self._fd, self._all[-1].size)

    def sync(self) -> None:
        """Return when all that was appended is durable."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the newest. It does not sync."""
        os.close(self._fd)

    def _begin(self, sequence: int) -> None:
        segment = Segment.named(self._folder, sequence)
        descriptor = _open_for_appending(segment.path)
        try:
            sync_folder(self._folder)
        except OSError:
            os.close(descriptor)
            segment.path.unlink(missing_ok=True)
            raise
        self._fd = descriptor
        self._all.append(segment)

    def _write(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            written += os.write(self._fd, data[written:])

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, sequence: int) -> tuple[Record | None, int]:
        """Return the first record from a sequence on in its segment, and the last sequence that is not there before it.

        There is no record if the rest of the segment is damaged. The number is below `sequence` if nothing is missing.
        """
        index = bisect_right(self._all, sequence, key=lambda segment: segment.first) - 1
        if index < 0:
            return None, self._all[0].first - 1
        record = self._read_from(self._all[index], sequence)
        return record, self._all[index].last if record is None else record.sequence - 1

    def _read_from(self, segment: Segment, sequence: int) -> Record | None:
        known = self._position[0] == segment.first and self._position[1] <= sequence
        offset = self._position[2] if known else 0
        with segment.path.open("rb") as file:
            file.seek(offset)
            while (record := read_record(file)) is not None:
                if record.sequence >= sequence:
                    self._position = (segment.first, record.sequence + 1, file.tell())
                    return record
        return None

    # ------------------------------------------------------------------------------------------------ removing

    def end_of_oldest(self) -> int | None:
        """Return the last sequence that belongs to the oldest, or None if it is the only one."""
        return self._all[1].first - 1 if len(self._all) > 1 else None

    def drop_oldest(self) -> None:
        """Remove the oldest."""
        self._all[0].path.unlink(missing_ok=True)
        del self._all[0]


def _open_for_appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _found(folder: Path) -> list[Segment]:
    """Return all segments in order. The name of each file and of its successor say which sequences it holds."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.stem.isdigit())
    segments = [Segment(path, int(path.stem), int(path.stem) - 1, path.stat().st_size) for path in paths]
    for segment, successor in itertools.pairwise(segments):
        segment.last = successor.first - 1
    if segments:
        _cut_torn_tail(segments[-1])
    return segments


def _cut_torn_tail(newest: Segment) -> None:
    newest.size = 0
    for record, end in scan(newest.path):
        newest.last, newest.size = record.sequence, end
    os.truncate(newest.path, newest.size)
