"""Hands durable groups over from the writer thread to the caller's thread, a short slice of them in each of its turns.

Acknowledgements of all groups come first: none waits for more than one step of JSON. A group of 2,000 records takes 60
ms to read; in one turn they would keep the reactor from its sockets for all that time, and a ping of an agent would
wait. While agents flood, records wait for their turn in rotation; else the turn in which the writer calls would have
theirs beside the work of another.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from helen.journal.intake import Queued
from helen.journal.values import Ack, Batch

SLICE_SECONDS = 0.0005  # of work in one turn; the step that is at hand is finished
ACKS_OF_A_BATCH = 50  # a quarter of a millisecond


class HandOver:
    """Calls `on_durable` in the caller's thread with acks, and `digest` with records; without a slice at the end.

    Both come in the order in which they were sent. `digest(waiting)` takes some records from the left of a deque, one
    step of less than a millisecond. `later` calls a function in a further turn of that thread. `is_closing` says that
    the journal is being closed: then all that waits is handed over in one turn. `is_pressed` says that agents flood.
    """

    def __init__(
        self,
        call_from_thread: Callable[..., Any],
        on_durable: Callable[[Batch], None],
        digest: Callable[[deque[Queued]], object],
        is_closing: Callable[[], bool],
        later: Callable[[Callable[[], None]], object] | None = None,
        steady: Callable[[], float] = time.monotonic,
        slice_seconds: Callable[[], float] = lambda: SLICE_SECONDS,
        is_pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._call_from_thread = call_from_thread
        self._later = later or call_from_thread
        self._slice_seconds = slice_seconds
        self._is_pressed = is_pressed
        self._on_durable = on_durable
        self._digest = digest
        self._is_closing = is_closing
        self._steady = steady
        self._acks: deque[Ack] = deque()
        self._records: deque[Queued] = deque()
        self._is_called = False  # a call of `_take` is on its way; two of them do no harm, none would

    def acks(self, acks: list[Ack]) -> None:
        """Send the acks of a group. Called by the writer thread."""
        if acks:
            self._acks.extend(acks)
            self._call()

    def records(self, group: list[Queued]) -> None:
        """Send the records of a group, after its acks. Called by the writer thread."""
        self._records.extend(group)
        self._call()

    def _call(self) -> None:
        """Ask for a turn, unless one is asked for; at the end again, since what follows the close has to come after."""
        if not self._is_called or self._is_closing():
            self._is_called = True
            self._call_from_thread(self._arrive)

    def _arrive(self) -> None:
        """Begin in the turn in which the call of the writer thread came, with the acks alone while agents flood."""
        if self._is_pressed() and not self._is_closing():
            until = self._steady() + self._slice_seconds()
            try:
                while self._acks and self._steady() < until:
                    self._step()
            finally:
                self._later(self._take)
        else:
            self._take()

    def _take(self) -> None:
        until = self._steady() + self._slice_seconds()
        try:
            while self._acks or self._records:
                self._step()
                if self._steady() >= until and not self._is_closing():
                    break
        finally:
            self._is_called = False
            # Looked at behind the line above: what came in between has called, or is seen.
            if (self._acks or self._records) and not self._is_called:
                self._is_called = True
                self._later(self._take)

    def _step(self) -> None:
        """Do one step of what waits: acks, if there are any."""
        if self._acks:
            acks = [self._acks.popleft() for _ in range(min(ACKS_OF_A_BATCH, len(self._acks)))]
            self._on_durable(Batch(acks=tuple(acks)))
        else:
            self._digest(self._records)
