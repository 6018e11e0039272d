"""Queues records between the reactor thread and the writer thread. No locks beyond one event, no disk."""

from __future__ import annotations

import threading
from collections import deque
from math import inf

from helen.journal.values import Change, Entry, Floor

# Memory of a queued record besides its blob: the entry, its strings, its place in the queue.
RECORD_OVERHEAD = 512


class Intake:
    """Holds a queue that one thread fills and another empties. Each counts its own side, so no count needs a lock."""

    def __init__(self) -> None:
        self.records: deque[tuple[Entry | Change | Floor, int]] = deque()  # each with its size
        self._wake = threading.Event()
        self._wake_at: float = inf  # of `bytes_in`, from which on the thread that empties it is woken
        self.is_urgent = False  # somebody waits for an answer that a queued record is
        self.bytes_in = 0  # of all that was queued since the start, and of what was handed over of it
        self.bytes_out = 0
        self.closing = False

    @property
    def backlog_bytes(self) -> int:
        """The bytes that are queued or being written, and not handed over yet."""
        return self.bytes_in - self.bytes_out

    def __len__(self) -> int:
        return len(self.records)

    def push(self, record: Entry | Change | Floor, size: int) -> None:
        """Add one record with a blob of `size` bytes. Called by the reactor thread."""
        size += RECORD_OVERHEAD
        self.bytes_in += size
        self.records.append((record, size))
        if self.bytes_in >= self._wake_at:
            self._wake.set()

    def push_urgent(self, record: Entry | Change | Floor, size: int) -> None:
        """Add one record for which a caller waits, so that its group is written soon. Called by the reactor thread."""
        self.push(record, size)
        self.is_urgent = True
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
        self._wake_at = self.bytes_out + most_bytes
        if not self.is_urgent and not self.closing and self.bytes_in < self._wake_at:  # pushed since the clear
            self._wake.wait(seconds)
        self._wake_at = inf

    def take(self, most_bytes: int, most_records: int) -> tuple[list[Entry | Change | Floor], int]:
        """Return the next records, and their size for `done`. Called by the writer thread."""
        was_urgent, self.is_urgent = self.is_urgent, False  # first: what is pushed from here on may not be among them
        taken: list[Entry | Change | Floor] = []
        total = 0
        while self.records and total < most_bytes and len(taken) < most_records:
            record, size = self.records.popleft()
            taken.append(record)
            total += size
        if was_urgent and self.records:  # it may be among those that are left
            self.is_urgent = True
        return taken, total

    def done(self, size: int) -> None:
        """Count these bytes as handed over. Called by the writer thread."""
        self.bytes_out += size
