"""Keep results in memory when the disk of the spool fails, so that a host whose disk dies is not silent.

It does what a Spool does, with a limit of its own. All that it holds is lost when the agent ends. It has a new id, so
Helen takes its sequences for those of another spool; what waited in the old one goes along as far as it can be read.
"""

from __future__ import annotations

import secrets
from collections import deque

from equus.spool.gaps import Gap
from equus.spool.segment import HEADER_SIZE, Record
from equus.spool.spool import Spool

CAP = 16 * 1024 * 1024  # bytes: some hours of 60 results a minute, 500 bytes each
_READ_SIZE = 1024 * 1024  # bytes that are read of a failed spool at once


class MemorySpool:
    """Holds results by their sequences, from 1. `fault` is the reason why they are not on a disk."""

    def __init__(self, fault: str, cap: int = CAP) -> None:
        self.id = secrets.token_hex(8)
        self.fault = fault
        self.cap = cap
        self.acked = 0
        self.next = 1
        self.size = 0  # bytes
        self._records: deque[Record] = deque()
        self._gap: Gap | None = None  # before the first record

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
        return len(self._records) + (self._gap is not None)

    @property
    def whole_from(self) -> int:
        """Return the sequence from which on no report is lost."""
        return 1 if self._gap is None else self._gap.last + 1

    def append(self, check: str, blob: bytes) -> int:
        """Keep one report and return its sequence. The oldest ones go if there are too many."""
        record = Record(self.next, check, blob)
        self.next += 1
        self._records.append(record)
        self.size += _size(record)
        while self.size > self.cap and len(self._records) > 1:
            self._drop_oldest()
        return record.sequence

    def sync(self) -> None:
        """Do nothing: there is no disk."""

    def acknowledge(self, sequence: int) -> None:
        """Forget all reports up to this sequence, because Helen has them."""
        self.acked = max(self.acked, min(sequence, self.last))
        while self._records and self._records[0].sequence <= self.acked:
            self.size -= _size(self._records.popleft())
        if self._gap is not None and self._gap.last <= self.acked:
            self._gap = None

    def read(self, after: int, limit: int) -> list[Record]:
        """Return the records after a sequence: at most `limit` bytes of blobs, but one record if there is any."""
        found: list[Record] = [self._gap.record()] if self._gap is not None and self._gap.last > after else []
        size = 0
        for record in self._records:
            if record.sequence <= after:
                continue
            size += _size(record)
            if found and size > limit:
                break
            found.append(record)
        return found

    def close(self) -> None:
        """Do nothing: what is held ends with the process."""

    def _drop_oldest(self) -> None:
        oldest = self._records.popleft()
        self.size -= _size(oldest)
        first = self._gap.first if self._gap is not None else oldest.sequence
        self._gap = Gap(first, oldest.sequence, "spool-full")


def in_place_of(spool: Spool, synced: int, unsynced: list[tuple[str, bytes]], error: OSError) -> MemorySpool:
    """Return a spool in memory with what waits in a spool whose disk has failed.

    `synced`: the last sequence that is surely on the disk. `unsynced`: the ids and blobs of the reports after it.
    """
    fresh = MemorySpool(error.strerror or str(error))
    for record in _readable(spool, synced, fresh.cap):
        fresh.append(record.check, record.blob)
    for check, blob in unsynced:
        fresh.append(check, blob)
    return fresh


def _readable(spool: Spool, synced: int, limit: int) -> list[Record]:
    """Return the unacknowledged records of a spool up to a sequence, as far as its disk answers."""
    records: list[Record] = []
    size, after = 0, spool.acked
    try:
        while size < limit and after < synced:
            more = [record for record in spool.read(after, _READ_SIZE) if record.sequence <= synced]
            if not more:
                break
            records += more
            size += sum(map(_size, more))
            after = more[-1].sequence
    except OSError:
        pass  # they stay there, for a start after the repair
    return records


def _size(record: Record) -> int:
    return len(record.blob) + HEADER_SIZE
