"""Write results of scheduled runs to disk and keep them until Helen has acknowledged them.

Every call blocks; one thread owns the spool (spool_thread.py).

Theory of operation. `STATE/spool/current` names the spool; its folder holds segments, the cursor `acked` and, when
something was lost, `gaps.json`. A report gets the next sequence when it is appended, and may be sent once `sync` has
returned. The oldest segment is dropped when the spool is full.

A loss is reported: a gap is a report (check id `equus:gap`) that stands for the sequences from `from` to `to` and has
the last of them as its own. So the sequences that Helen sees only rise, and it never waits for a lost one.

On opening only the last segment is read to its end (a torn tail is cut: it was never synced, hence never sent). Other
damage is found when it is read, and becomes a gap then.
"""

from __future__ import annotations

import copy
import errno
import itertools
import json
import os
import secrets
import shutil
import zlib
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

from attrs import evolve, frozen

from equus.spool.segment import HEADER_SIZE, SUFFIX, Record, Segment, encode, read_record, scan
from equus_protocol.result_fields import GAP_CHECK_ID
from groundwork.atomic_write import sync_folder, write_durably
from groundwork.disk_faults import NO_SPACE

GAP_CHECK = GAP_CHECK_ID
CAP = 128 * 1024 * 1024  # bytes on disk: about five days of 60 results a minute, 500 bytes each
SEGMENT_SIZE = 4 * 1024 * 1024  # bytes: what a full spool loses at once, 3 % of it
DISK_FULL = "disk-full"  # the reason of a gap
MAX_SEQUENCE = 2**31 - 1  # int32 on the wire


@frozen
class Gap:
    """A range of sequences that are lost and will never be sent."""

    first: int
    last: int
    reason: str

    def record(self) -> Record:
        """Return the report that is sent in their place: a result `unknown` that a person can read."""
        summary = f"results {self.first} to {self.last} of this agent's spool are lost: {self.reason}"
        lost = {"from": self.first, "to": self.last, "gap": self.reason}
        document = {"status": "unknown", "reason": "gap", "summary": summary, **lost}
        return Record(self.last, GAP_CHECK, json.dumps(document).encode())


class Spool:
    """The open spool. Sequences begin at 1; Helen has acknowledged all up to `acked`."""

    id: str
    fault: None = None  # the reason why it is not on a disk: a MemorySpool has one
    acked: int
    _recorded: int  # the same, as the disk has it
    next: int  # the sequence that the next report gets
    _folder: Path
    _segments: list[Segment]
    _gaps: list[Gap]
    _gaps_changed: bool  # since they were written
    _fd: int  # of the newest segment
    _position: tuple[int, int, int]  # of the reader: a segment's first sequence, the next one in it, and its offset
    _successor: Spool | None = None  # that has all reports already, and has not got the name yet

    def __init__(self, root: Path, cap: int = CAP, segment_size: int = SEGMENT_SIZE) -> None:
        self.cap, self.segment_size = cap, segment_size
        self._root = root
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = _read_name(root / "current")
        if name is None:
            name = _fullest(root) or self._create()
            write_durably(root / "current", name.encode())
        self._open(name)
        self._remove_others()

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
        return self.last - self.acked - sum(gap.last - max(gap.first, self.first) for gap in self._gaps)

    @property
    def whole_from(self) -> int:
        """Return the sequence from which on no report is lost."""
        return max((gap.last for gap in self._gaps), default=0) + 1

    @property
    def size(self) -> int:
        """Return the bytes on disk."""
        return sum(segment.size for segment in self._segments)

    # ------------------------------------------------------------------------------------------------ writing

    def append(self, check: str, blob: bytes) -> int:
        """Write one report and return its sequence. It may be sent once `sync` has returned.

        On a full disk the report becomes a gap. Raises OSError if the disk fails otherwise.
        """
        if self.next > MAX_SEQUENCE:
            self.renew()
        data = encode(Record(self.next, check, blob))
        sequence = self.next
        try:
            self._make_room(len(data))
            self._write(data)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._cut_half_record()
            self._add_gap(Gap(sequence, sequence, DISK_FULL))
        else:
            self._segments[-1].last = sequence
            self._segments[-1].size += len(data)
        self.next = sequence + 1
        return sequence

    def sync(self) -> None:
        """Return when everything appended is durable, the list of gaps among it.

        Raises OSError if the disk fails; a full disk only keeps the list of gaps in memory.
        """
        os.fdatasync(self._fd)
        if self._gaps_changed:
            try:
                write_durably(self._folder / "gaps.json", _dump_gaps(self._gaps))
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                return  # in memory until there is room
            self._gaps_changed = False

    def acknowledge(self, sequence: int) -> None:
        """Forget all reports up to this sequence, because Helen has them.

        A sequence that was never written means that the end of this spool was lost: then a new spool begins. After an
        OSError the same call can be made again.
        """
        if sequence > self.last:
            self.renew()
        elif sequence > self._recorded:
            self.acked = sequence
            self._write_cursor()
            self._recorded = sequence
            self._drop_acked()

    def renew(self) -> None:
        """Move all unacknowledged reports into a new spool, with a new id and sequences from 1.

        Until the new one has all of them and its name, this one stays as it is. Raises OSError if that fails.
        """
        if self._successor is None:
            self._successor = self._copied()
        write_durably(self._root / "current", self._successor.id.encode())
        self.close()
        vars(self).update(vars(self._successor))
        with suppress(OSError):  # the next start removes it
            self._remove_others()

    def _copied(self) -> Spool:
        """Return a new spool that has all unacknowledged reports. Raises OSError, and leaves nothing then."""
        waiting, fresh = self._all_unacked(), copy.copy(self)
        name, fresh._segments = self._create(), []
        try:
            fresh._open(name)
            for record in waiting:
                fresh.append(record.check, record.blob)
            fresh.sync()
            if any(gap.reason == DISK_FULL for gap in fresh._gaps):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(fresh._folder))
        except BaseException:
            with suppress(OSError):  # by calls that need no descriptor, of which there may be none
                (fresh._folder / "gaps.json").unlink(missing_ok=True)
                for segment in fresh._segments:
                    segment.path.unlink()
                fresh._folder.rmdir()
            if fresh._segments:
                fresh.close()
            raise
        return fresh

    def close(self) -> None:
        """Close the newest segment. It does not sync."""
        os.close(self._fd)

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
        for gap in self._gaps:
            if gap.first <= sequence <= gap.last:
                return gap.record()
        index = bisect_right(self._segments, sequence, key=lambda segment: segment.first) - 1
        record = self._read_from(index, sequence) if index >= 0 else None
        if record is not None and record.sequence == sequence:
            return record
        if record is not None:
            last = record.sequence - 1
        else:
            last = self._segments[index].last if index >= 0 else self._segments[0].first - 1
        later = [gap.first - 1 for gap in self._gaps if gap.first > sequence]
        damage = Gap(sequence, max(sequence, min([last, *later])), "damaged")
        self._add_gap(damage)
        return damage.record()

    def _read_from(self, index: int, sequence: int) -> Record | None:
        segment = self._segments[index]
        known = self._position[0] == segment.first and self._position[1] <= sequence
        offset = self._position[2] if known else 0
        with segment.path.open("rb") as file:
            file.seek(offset)
            while (record := read_record(file)) is not None:
                if record.sequence >= sequence:
                    self._position = (segment.first, record.sequence + 1, file.tell())
                    return record
        return None

    def _all_unacked(self) -> list[Record]:
        records, after = [], self.acked
        while more := self.read(after, self.segment_size):
            records += more
            after = more[-1].sequence
        return records

    # ------------------------------------------------------------------------------------------------ files

    def _create(self) -> str:
        name = secrets.token_hex(8)
        (self._root / name).mkdir(mode=0o700)
        return name

    def _remove_others(self) -> None:
        """Remove the folders of other spools: an older one, or those that a `renew` left which failed or was killed."""
        for other in self._root.iterdir():
            if other.is_dir() and other.name != self.id:
                shutil.rmtree(other, ignore_errors=True)

    def _open(self, name: str) -> None:
        self.id, self._folder = name, self._root / name
        self._position, self._successor = (-1, 0, 0), None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._gaps, self._gaps_changed = _load_gaps(self._folder / "gaps.json"), False
        self.acked = self._recorded = _load_cursor(self._folder / "acked")
        self._segments = _find_segments(self._folder)
        known = [self.acked, *(segment.last for segment in self._segments), *(gap.last for gap in self._gaps)]
        self.next = max(known) + 1
        if not self._segments or self._segments[-1].last < self.last:
            self._start_segment()
        else:
            self._fd = _open_for_appending(self._segments[-1].path)
        self._drop_acked()

    def _start_segment(self) -> None:
        segment = Segment.named(self._folder, self.next)
        descriptor = _open_for_appending(segment.path)
        try:
            sync_folder(self._folder)
        except OSError:
            os.close(descriptor)
            segment.path.unlink(missing_ok=True)
            raise
        self._fd = descriptor
        self._segments.append(segment)

    def _make_room(self, more: int) -> None:
        if self._segments[-1].size and self._segments[-1].size + more > self.segment_size:
            full = self._fd
            os.fdatasync(full)
            self._start_segment()
            os.close(full)
        while self.size + more > self.cap and len(self._segments) > 1:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the oldest segment of a full spool, after its gap is durable."""
        oldest = self._segments[0]
        last = self._segments[1].first - 1
        if last > self.acked:
            self._add_gap(Gap(self.first, last, "spool-full"))
            write_durably(self._folder / "gaps.json", _dump_gaps(self._gaps))
            self._gaps_changed = False
        oldest.path.unlink()
        del self._segments[0]

    def _add_gap(self, gap: Gap) -> None:
        """Add a gap to the sorted list. Gaps inside it go; one that touches it and has the same reason is joined."""
        kept = [other for other in self._gaps if not gap.first <= other.last <= gap.last]
        for other in kept:
            if other.last + 1 == gap.first and other.reason == gap.reason:
                kept.remove(other)
                gap = evolve(gap, first=other.first)
                break
        self._gaps = sorted([*kept, gap], key=lambda other: other.last)
        self._gaps_changed = True

    def _write(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            written += os.write(self._fd, data[written:])

    def _cut_half_record(self) -> None:
        os.ftruncate(self._fd, self._segments[-1].size)

    def _write_cursor(self) -> None:
        text = b"%010d" % self.acked
        fd = os.open(self._folder / "acked", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, b"%b %08x\n" % (text, zlib.crc32(text)), 0)
            if self._segments[0].last <= self.acked and len(self._segments) > 1:
                os.fsync(fd)  # before a segment below it is removed: else its absence would look like a loss
        finally:
            os.close(fd)

    def _drop_acked(self) -> None:
        self._gaps = [gap for gap in self._gaps if gap.last > self.acked]
        while len(self._segments) > 1 and self._segments[1].first - 1 <= self.acked:
            self._segments.pop(0).path.unlink(missing_ok=True)


def _open_for_appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _read_name(path: Path) -> str | None:
    try:
        name = path.read_text().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return name if _is_name(name) else None


def _is_name(name: str) -> bool:
    return name.isalnum() and len(name) == 16


def _fullest(root: Path) -> str | None:
    """Return the name of the spool with most bytes, for a root whose `current` is lost or can't be read as a name.

    Several are there after a `renew` that was cut; the one that is not whole is smaller than the one that it copies.
    """
    sizes = {
        folder.name: sum(path.stat().st_size for path in folder.glob(f"*{SUFFIX}"))
        for folder in root.iterdir() if _is_name(folder.name) and folder.is_dir()
    }  # fmt: skip
    return max(sizes, key=lambda name: sizes[name], default=None)


def _find_segments(folder: Path) -> list[Segment]:
    """Return all segments in order. The name of each file and of its successor say which sequences it holds.

    The last one is read, and its torn tail is cut.
    """
    paths = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.stem.isdigit())
    segments = [Segment(path, int(path.stem), int(path.stem) - 1, path.stat().st_size) for path in paths]
    for segment, successor in itertools.pairwise(segments):
        segment.last = successor.first - 1
    if segments:
        newest = segments[-1]
        newest.size = 0
        for record, end in scan(newest.path):
            newest.last, newest.size = record.sequence, end
        os.truncate(newest.path, newest.size)
    return segments


def _load_cursor(path: Path) -> int:
    try:
        number, _, crc = path.read_bytes().strip().partition(b" ")
        return int(number) if int(crc, 16) == zlib.crc32(number) else 0
    except (FileNotFoundError, ValueError):
        return 0


def _load_gaps(path: Path) -> list[Gap]:
    try:
        return [Gap(int(first), int(last), str(reason)) for first, last, reason in json.loads(path.read_bytes())]
    except (FileNotFoundError, ValueError, TypeError):
        return []


def _dump_gaps(gaps: list[Gap]) -> bytes:
    return json.dumps([[gap.first, gap.last, gap.reason] for gap in gaps]).encode()
