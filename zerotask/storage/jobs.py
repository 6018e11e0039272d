"""Hands the store's jobs from the thread of the callbacks to a thread that works on them."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks.ledger import Ledger

HANDED_BACK_WAIT = 10.0  # seconds; a reactor that runs no callback for so long is in greater trouble

Job = Callable[[Ledger, float], Any]  # the second argument is the time, task-clock seconds
Done = Callable[[Any, RpcError | None], None]


class PendingJob(Struct):
    """Holds a job on its way, and its value or its error. `number` counts writes, and is 0 for a read."""

    job: Job
    done: Done
    durable: bool
    value: Any = None
    error: RpcError | None = None
    number: int = 0

    def run(self, ledger: Ledger, now: float) -> None:
        """Run the job and keep its value, or the RpcError that it raises. `now`: task-clock seconds."""
        self.value = self.error = None
        try:
            self.value = self.job(ledger, now)
        except RpcError as error:
            self.error = error

    def fail(self, error: RpcError) -> None:
        """Replace the value by an error."""
        self.value, self.error = None, error


def internal_error() -> RpcError:
    """Return the error of a job that raised what no job should raise."""
    return RpcError(errors.INTERNAL, "the broker failed; its log says how")


class JobQueue:
    """Queues jobs for one thread, which takes them in batches.

    `ahead` is the number of batches with answers that the reactor may not have taken yet: results wait on disk, not in
    memory, for a reactor that is slow to send them.
    """

    def __init__(self, most: int, ahead: int) -> None:
        self._most = most  # jobs in one batch
        self._ahead = threading.Semaphore(ahead)
        self._outbox: list[PendingJob] = []  # not handed over yet
        self._queue: queue.SimpleQueue[list[PendingJob]] = queue.SimpleQueue()  # an empty list is the end
        self._rest: deque[PendingJob] = deque()
        self._ended = False

    def put(self, pending: PendingJob) -> bool:
        """Add a job; return True if it is the first since the last `flush`, which has to follow."""
        self._outbox.append(pending)
        return len(self._outbox) == 1

    def flush(self) -> None:
        """Hand the added jobs over, all at once: they wake the other thread once."""
        if self._outbox:
            outbox, self._outbox = self._outbox, []
            self._queue.put(outbox)

    def pass_on(self, pending: PendingJob) -> None:
        """Add a job from another thread, behind those that were handed over."""
        self._queue.put([pending])

    def end(self) -> None:
        """Hand over what is left, and the end."""
        self.flush()
        self._queue.put([])

    def take(self, timeout: float | None) -> list[PendingJob] | None:
        """Return the next batch; an empty one after `timeout` seconds without a job, None at the end.

        Blocks; for the thread that works on the jobs.
        """
        try:
            while len(self._rest) < self._most and not self._ended:
                more = self._queue.get_nowait() if self._rest else self._queue.get(timeout=timeout)
                self._rest.extend(more)
                self._ended = not more
        except queue.Empty:
            pass
        batch = [self._rest.popleft() for _ in range(min(len(self._rest), self._most))]
        return None if not batch and self._ended else batch

    def wait_for_room(self) -> Callable[[], None]:
        """Wait until the reactor has taken the answers of all but `ahead` batches.

        Returns a function that has to be called when it takes the answers of the next one.
        """
        return self._ahead.release if self._ahead.acquire(timeout=HANDED_BACK_WAIT) else do_nothing


def do_nothing() -> None:
    """Do nothing, in place of a callback."""
