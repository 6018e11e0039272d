"""Hands batches over from the writer thread to the caller's thread, a short slice of them in each of its turns.

A group of 2,000 records is 40 batches, of a millisecond each. Handed over in one turn they would keep the reactor from
its sockets for all that time, and a ping of an agent would wait.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from helen.journal.values import Batch

SLICE_SECONDS = 0.0005  # of batches in one turn; the batch that is at hand is finished
MOST_WAITING = 100  # batches: beyond it the writer waits, so that reading stops by the backlog of its queue
PAUSE_SECONDS = 0.001  # between two looks of a writer that waits


class HandOver:
    """Calls `on_durable` in the caller's thread with each batch, in the order of `send`; without a slice at the end.

    `is_closing` says that the journal is being closed: then all that waits is handed over in one turn.
    """

    def __init__(
        self,
        call_from_thread: Callable[..., Any],
        on_durable: Callable[[Batch], None],
        is_closing: Callable[[], bool],
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._call_from_thread = call_from_thread
        self._on_durable = on_durable
        self._is_closing = is_closing
        self._steady = steady
        self._waiting: deque[Batch] = deque()
        self._is_called = False  # a call of `_take` is on its way; two of them do no harm, none would
        self.sent = self.handed_over = 0  # counted by the writer thread, and by the caller's

    @property
    def has_some(self) -> bool:
        """Return True while a batch was sent and not handed over. Ask in the caller's thread."""
        return self.sent != self.handed_over

    def send(self, batch: Batch) -> None:
        """Send a batch to the caller's thread. Called by the writer thread, before its bytes count as written."""
        self.sent += 1
        self._waiting.append(batch)
        self._call()
        while len(self._waiting) > MOST_WAITING and not self._is_closing():
            time.sleep(PAUSE_SECONDS)

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._call_from_thread(self._take)

    def _take(self) -> None:
        until = self._steady() + SLICE_SECONDS
        try:
            while self._waiting:
                self.handed_over += 1
                self._on_durable(self._waiting.popleft())
                if self._steady() >= until and not self._is_closing():
                    break
        finally:
            self._is_called = False
            if self._waiting:  # looked at behind the line above: a batch that came in between has called, or is seen
                self._call()
