"""Tells the time by which tasks live: seconds that pass evenly, whatever becomes of the wall clock, and over restarts.

Delays, backoffs, time limits and the time for which results are kept are lengths. By the wall clock a step back would
hold them all up for as long as the step, and a step ahead would end them all at once. This time goes on from where the
store was left, by the monotonic clock. In a new store it equals unix seconds; the difference is known to the broker,
which shows times by the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from attrs import frozen

DOWNTIME_MOST = 3_600.0  # seconds of a standstill that count: beyond that the wall clock may just be wrong


@frozen
class KeptClock:
    """Holds what the store keeps of the clock.

    `seen`: task-clock seconds when it was last written; `ahead`: unix seconds minus task-clock seconds.
    """

    seen: float
    ahead: float


class TaskClock:
    """Returns task-clock seconds when it is called, from any thread.

    `skipped` are the seconds since the last run, by the wall clock, that do not count: those beyond DOWNTIME_MOST.
    """

    def __init__(
        self,
        kept: KeptClock | None,
        steady: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._steady, self._begun, self.skipped = steady, steady(), 0.0
        if kept is None:
            self._first = wall()
            return
        gap = max(wall() - kept.ahead - kept.seen, 0.0)
        self.skipped = max(gap - DOWNTIME_MOST, 0.0)
        self._first = kept.seen + gap - self.skipped

    def __call__(self) -> float:
        return self._first + self._steady() - self._begun
