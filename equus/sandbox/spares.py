"""Keep workers ready for the next runs: forked, confined, and waiting for the one job that each of them will get.

A run that finds one waits neither for the fork nor for the filter. A spare has no job, no secret, and no descriptors
but its own two. It is given to one run and to no other; all of them go once something changes that they were made
with: the policy, the list of calls, the zygote.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

from attrs import define

# Two: while one works, the next run finds another, and the zygote makes a third.
SPARES = 2


@define(eq=False)
class Worker:
    """Holds the agent's side of one worker: the sockets of its job and of its calls, its pidfd once that is known."""

    number: int
    job: socket.socket
    calls: socket.socket
    is_asked_for: bool = True  # the zygote has got the message; False: it can't be reached
    pidfd: int | None = None

    def close(self) -> None:
        """Kill the worker if it is known, and close all. One that starts later finds its socket closed, and ends."""
        if self.pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            os.close(self.pidfd)
            self.pidfd = None
        self.job.close()
        self.calls.close()


class Spares:
    """Holds the workers without a run.

    launch: asks the zygote for a worker, as launch(number, job, calls) with the descriptors of the worker's ends; it
    returns False if the zygote can't be reached. most: how many are kept ready.
    """

    def __init__(self, launch: Callable[[int, int, int], bool], most: int = SPARES) -> None:
        self._launch = launch
        self._most = most
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Worker] = {}

    @property
    def ready(self) -> int:
        """Return how many have been forked and wait for a job."""
        return sum(worker.pidfd is not None for worker in self._waiting.values())

    def take(self) -> Worker:
        """Return the oldest spare that lives, or a new worker if there is none.

        The kernel kills spares first where memory is short, and says so later. Raises OSError if no descriptors are
        left.
        """
        while self._waiting:
            worker = self._waiting.pop(next(iter(self._waiting)))
            if worker.pidfd is None or not _has_ended(worker.pidfd):
                return worker
            worker.close()
        return self._make()

    def fill(self) -> None:
        """Ask for as many as are missing, as far as there are descriptors and a zygote."""
        while len(self._waiting) < self._most:
            try:
                worker = self._make()
            except OSError:
                return
            if not worker.is_asked_for:
                worker.close()
                return
            self._waiting[worker.number] = worker

    def started(self, number: int, pidfd: int) -> bool:
        """Take the pidfd of a spare; return False if this is none."""
        worker = self._waiting.get(number)
        if worker is None:
            return False
        worker.pidfd = pidfd
        return True

    def ended(self, number: int) -> bool:
        """Forget a spare that has ended or was not made; return False if this is none.

        No other is made in its place until the next run is over: what ended it may end that one as well.
        """
        worker = self._waiting.pop(number, None)
        if worker is None:
            return False
        worker.close()
        return True

    def discard(self) -> None:
        """End all of them."""
        for worker in self._waiting.values():
            worker.close()
        self._waiting.clear()

    def _make(self) -> Worker:
        job, its_job = socket.socketpair()
        with its_job:
            try:
                calls, its_calls = socket.socketpair()
            except OSError:
                job.close()
                raise
            with its_calls:
                number = next(self._numbers)
                return Worker(number, job, calls, self._launch(number, its_job.fileno(), its_calls.fileno()))


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
