"""The queue between the reactor thread and the writer thread. No locks beyond a doorbell, no disk."""

from __future__ import annotations

import threading
from collections import deque

from helen.journal.values import Change, Entry, Floor

# What a queued record costs in memory besides its blob: the entry, its strings, its place in the queue.
RECORD_OVERHEAD = 512


class Intake:
    """Filled by one thread, emptied by another; each counts its own side, so `backlog_bytes` needs no lock."""

    def __init__(self) -> None:
        self._records: deque[tuple[Entry | Change | Floor, int]] = deque()
        self._bell = threading.Event()
        self._bytes_in = 0
        self._bytes_out = 0
        self.closing = False

    @property
    def backlog_bytes(self) -> int:
        """Bytes that are here or in the writer's hands and not handed over yet."""
        return self._bytes_in - self._bytes_out

    def __len__(self) -> int:
        return len(self._records)

    def push(self, record: Entry | Change | Floor, size: int) -> None:
        """Reactor thread: add one record whose blob has `size` bytes."""
        size += RECORD_OVERHEAD
        self._bytes_in += size
        self._records.append((record, size))
        if not self._bell.is_set():
            self._bell.set()

    def close(self) -> None:
        """Any thread: nothing is pushed after this."""
        self.closing = True
        self._bell.set()

    def wait(self, seconds: float | None) -> bool:
        """Writer thread: until something is there, the intake closes, or time is up. True if something is there."""
        if not self._records and not self.closing:
            self._bell.clear()
            if not self._records and not self.closing:  # pushed between the look and the clear
                self._bell.wait(seconds)
        return bool(self._records)

    def take(self, most_bytes: int, most_records: int) -> tuple[list[Entry | Change | Floor], int]:
        """Writer thread: the next records, and their size for `done`."""
        taken: list[Entry | Change | Floor] = []
        total = 0
        while self._records and total < most_bytes and len(taken) < most_records:
            record, size = self._records.popleft()
            taken.append(record)
            total += size
        return taken, total

    def done(self, size: int) -> None:
        """Writer thread: these bytes are handed over."""
        self._bytes_out += size
