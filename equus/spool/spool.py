"""Write results of scheduled runs to disk and keep them until Helen has acknowledged them.

Every call blocks; one thread owns the spool (spool_thread.py).

Theory of operation. `STATE/spool/current` names the spool; its folder holds segments (segments.py), the cursor `acked`
(spool_folders.py) and, when something was lost, `gaps.json` (gaps.py). A report gets the next sequence when it is
appended, and may be sent once `sync` has returned. The oldest segment is dropped when the spool is full. A loss is
reported as a gap.

On opening only the last segment is read to its end (a torn tail is cut: it was never synced, hence never sent). Other
damage is found when it is read, and becomes a gap then.
"""

from __future__ import annotations

import copy
import errno
import os
from contextlib import suppress
from pathlib import Path

from equus.spool import spool_folders
from equus.spool.gaps import DISK_FULL, Gap, Gaps
from equus.spool.segment import HEADER_SIZE, Record, encode
from equus.spool.segments import Segments
from groundwork.disk_faults import NO_SPACE

CAP = 128 * 1024 * 1024  # bytes on disk: about five days of 60 results a minute, 500 bytes each
SEGMENT_SIZE = 4 * 1024 * 1024  # bytes: what a full spool loses at once, 3 % of it
MAX_SEQUENCE = 2**31 - 1  # int32 on the wire


class Spool:
    """Holds the open spool. Sequences begin at 1; Helen has acknowledged all up to `acked`."""

    id: str
    fault: None = None  # the reason why it is not on a disk: a MemorySpool has one
    acked: int
    _recorded: int  # the same, as the disk has it
    next: int  # the sequence that the next report gets
    _folder: Path
    _segments: Segments
    _gaps: Gaps
    _successor: Spool | None = None  # that has all reports already, and has not got the name yet

    def __init__(self, root: Path, cap: int = CAP, segment_size: int = SEGMENT_SIZE) -> None:
        self.cap, self.segment_size = cap, segment_size
        self._root = root
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open(spool_folders.current(root))
        spool_folders.remove_others(root, self.id)

    def _open(self, name: str) -> None:
        self.id, self._folder = name, self._root / name
        self._successor = None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._gaps = Gaps(self._folder / "gaps.json")
        self.acked = self._recorded = spool_folders.read_cursor(self._folder)
        self._segments = Segments(self._folder)
        self.next = max(self.acked, self._segments.last, self._gaps.last) + 1
        self._segments.open(self.next)
        self._drop_acked()

    # ------------------------------------------------------------------------------------------------ figures

    @property
    def first(self) -> int:
        """Return the first sequence that Helen has not acknowledged."""
        return self.acked + 1

    @property
    def last(self) -> int:
        """Return the last sequence that was given; `first - 1` if all are acknowledged."""
        return self.next - 1

    @property
    def depth(self) -> int:
        """Return the number of reports that wait for their ack; a gap counts as one."""
        return self.last - self.acked - self._gaps.without_report(self.first)

    @property
    def whole_from(self) -> int:
        """Return the sequence from which on no report is lost."""
        return self._gaps.last + 1

    @property
    def size(self) -> int:
        """Return the bytes on disk."""
        return self._segments.size

    # ------------------------------------------------------------------------------------------------ writing

    def append(self, check: str, blob: bytes) -> int:
        """Write one report and return its sequence. It may be sent once `sync` has returned.

        On a full disk the report becomes a gap. Raises OSError if the disk fails otherwise.
        """
        if self.next > MAX_SEQUENCE:
            self.renew()
        sequence = self.next
        data = encode(Record(sequence, check, blob))
        try:
            self._make_room(len(data))
            self._segments.append(sequence, data)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._segments.cut()
            self._gaps.add(Gap(sequence, sequence, DISK_FULL))
        self.next = sequence + 1
        return sequence

    def sync(self) -> None:
        """Return when everything appended is durable, the list of gaps among it.

        Raises OSError if the disk fails; a full disk only keeps the list of gaps in memory, until there is room.
        """
        self._segments.sync()
        try:
            self._gaps.write()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise

    def close(self) -> None:
        """Close the newest segment. It does not sync."""
        self._segments.close()

    def _make_room(self, more: int) -> None:
        self._segments.begin_if_full(self.next, more, self.segment_size)
        while self.size + more > self.cap and (end := self._segments.end_of_oldest()) is not None:
            if end > self.acked:
                self._gaps.add(Gap(self.first, end, "spool-full"))
                self._gaps.write()  # before the segment goes
            self._segments.drop_oldest()

    # ------------------------------------------------------------------------------------------------ forgetting

    def acknowledge(self, sequence: int) -> None:
        """Forget all reports up to this sequence, because Helen has them.

        A sequence that was never written means that the end of this spool was lost: then a new spool begins. After an
        OSError the same call can be made again.
        """
        if sequence > self.last:
            self.renew()
        elif sequence > self._recorded:
            self.acked = sequence
            # Durable before a segment below it is removed: else its absence would look like a loss.
            spool_folders.write_cursor(self._folder, sequence, durably=self._oldest_is_acked())
            self._recorded = sequence
            self._drop_acked()

    def _oldest_is_acked(self) -> bool:
        end = self._segments.end_of_oldest()
        return end is not None and end <= self.acked

    def _drop_acked(self) -> None:
        self._gaps.forget(self.acked)
        while self._oldest_is_acked():
            self._segments.drop_oldest()

    def renew(self) -> None:
        """Move all unacknowledged reports into a new spool, with a new id and sequences from 1.

        Until the new one has all of them and its name, this one stays as it is. Raises OSError if that fails.
        """
        if self._successor is None:
            self._successor = self._copied()
        spool_folders.make_current(self._root, self._successor.id)
        self.close()
        vars(self).update(vars(self._successor))
        with suppress(OSError):  # the next start removes it
            spool_folders.remove_others(self._root, self.id)

    def _copied(self) -> Spool:
        """Return a new spool that has all unacknowledged reports. Raises OSError, and leaves nothing then."""
        waiting, fresh = self._all_unacked(), copy.copy(self)
        folder = self._root / spool_folders.create(self._root)
        is_open = False
        try:
            fresh._open(folder.name)
            is_open = True
            for record in waiting:
                fresh.append(record.check, record.blob)
            fresh.sync()
            if fresh._gaps.holds(DISK_FULL):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        except BaseException:
            with suppress(OSError):  # by calls that need no descriptor, of which there may be none
                (folder / "gaps.json").unlink(missing_ok=True)
                for segment in fresh._segments if is_open else ():
                    segment.path.unlink()
                folder.rmdir()
            if is_open:
                fresh.close()
            raise
        return fresh

    # ------------------------------------------------------------------------------------------------ reading

    def read(self, after: int, limit: int) -> list[Record]:
        """Return the records after a sequence: at most `limit` bytes of blobs, but one record if there is any."""
        records: list[Record] = []
        size, sequence = 0, max(after, self.acked) + 1
        while sequence <= self.last and (size < limit or not records):
            record = self._at(sequence)
            size += len(record.blob) + HEADER_SIZE
            if records and size > limit:
                break
            records.append(record)
            sequence = record.sequence + 1
        return records

    def _at(self, sequence: int) -> Record:
        """Return the report of a sequence, or of the gap that it lies in."""
        gap = self._gaps.around(sequence)
        if gap is not None:
            return gap.record()
        record, missing = self._segments.read(sequence)
        if record is not None and missing < sequence:
            return record
        damage = Gap(sequence, max(sequence, self._gaps.end_before(sequence, missing)), "damaged")
        self._gaps.add(damage)
        return damage.record()

    def _all_unacked(self) -> list[Record]:
        records, after = [], self.acked
        while more := self.read(after, self.segment_size):
            records += more
            after = more[-1].sequence
        return records
