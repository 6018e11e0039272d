"""Queues encoded records between the caller's thread and the writer thread. No locks beyond one event, no disk."""

from __future__ import annotations

import threading
from collections import deque
from math import inf

import msgspec

from helen.journal.sealing import ClosingWal
from helen.journal.values import Change, Entry, Floor, StoredResult

# Memory of a queued record besides its blob: the entry, its strings, its bytes for the WAL, its place in the queue.
RECORD_OVERHEAD = 512


class Queued(msgspec.Struct, gc=False):
    """Holds a record on its way: `data` for the WAL, and `high`, the sequence to acknowledge once that is durable.

    Behind the data of a result its blob goes into the WAL; it is the record's own, not a copy. A record that is there
    already has no data and `at` 0. `size` counts in the backlog. `stored` is the result, where
    the writer thread has read a great document. With a `salt` the data lack their frame: the writer thread makes it of
    a great blob, since the sum of its bytes would hold the reactor.
    """

    data: bytes
    size: int
    at: int
    record: Entry | Change | Floor | ClosingWal
    high: int
    stored: StoredResult | None = None
    salt: int | None = None


class Intake:
    """Holds a queue that one thread fills and another empties. Each counts its own side, so no count needs a lock.

    The caller's thread counts what was queued and what was delivered, the writer thread what it has taken.
    """

    def __init__(self) -> None:
        self.records: deque[Queued] = deque()
        self._wake = threading.Event()
        self._wake_at: float = inf  # of `bytes_in`, from which on the thread that empties it is woken
        self.is_urgent = False  # somebody waits for an answer that a queued record is
        self.bytes_in = self.count_in = 0  # of all that was queued since the start
        self.bytes_taken = 0  # of what the writer thread has taken of it
        self.bytes_out = self.count_out = 0  # of what was delivered of it
        self.closing = False

    @property
    def backlog_bytes(self) -> int:
        """Return the bytes that are queued or being written, and not delivered yet."""
        return self.bytes_in - self.bytes_out

    @property
    def queued_bytes(self) -> int:
        """Return the bytes that the writer thread has not taken yet."""
        return self.bytes_in - self.bytes_taken

    def __len__(self) -> int:
        return len(self.records)

    def push(self, queued: Queued, *, is_urgent: bool = False) -> None:
        """Add one record; an urgent one is written soon, since a caller waits for it. Called by the caller's thread."""
        queued.size += RECORD_OVERHEAD
        self.bytes_in += queued.size
        self.count_in += 1
        self.records.append(queued)
        if is_urgent:
            self.is_urgent = True
        if self.bytes_in >= self._wake_at or (is_urgent and self._wake_at < inf):
            # Once for each wait: to set an event costs six calls, and that thread may not get the interpreter for a
            # while. Before the event, for behind it that thread may wait anew.
            self._wake_at = inf
            self._wake.set()

    def close(self) -> None:
        """End the queue: nothing is pushed after this. Any thread may call it."""
        self.closing = True
        self._wake.set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until a record is queued, the queue ends, or these seconds are over. True if a record is queued."""
        if not self.records and not self.closing:
            self._wake.clear()
            self._wake_at = 0
            if not self.records and not self.closing:  # pushed between the look and the clear
                self._wake.wait(seconds)
            self._wake_at = inf
        return bool(self.records)

    def wait_for_urgent(self, seconds: float, most_bytes: int) -> None:
        """Wait until an urgent record or so many bytes are queued, the queue ends, or these seconds are over."""
        self._wake.clear()
        self._wake_at = self.bytes_taken + most_bytes
        if not self.is_urgent and not self.closing and self.bytes_in < self._wake_at:  # pushed since the clear
            self._wake.wait(seconds)
        self._wake_at = inf

    def take(self, most_bytes: int, most_records: int) -> list[Queued]:
        """Return the next records, those of one WAL. Called by the writer thread."""
        was_urgent, self.is_urgent = self.is_urgent, False  # first: what is pushed from here on may not be among them
        taken: list[Queued] = []
        records, total = self.records, 0
        while records and total < most_bytes and len(taken) < most_records:
            queued = records.popleft()
            taken.append(queued)
            total += queued.size
            if type(queued.record) is ClosingWal:
                break
        self.bytes_taken += total
        if was_urgent and records:  # it may be among those that are left
            self.is_urgent = True
        return taken

    def done(self, queued: Queued) -> None:
        """Count a record as delivered. Called by the caller's thread."""
        self.bytes_out += queued.size
        self.count_out += 1
