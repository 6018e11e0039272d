"""Looks four times a second how late the reactor is, and how much of that Helen itself has held it.

A look that is late says that something lasted: a step of Helen, another of its threads, which held the interpreter, or
the kernel, which gave the processor to others. Only the last one is no fault of Helen, so it is counted apart.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import frozen

from helen.processor_wait import ThreadTimes
from helen.telemetry import Look, Telemetry

LOOK_SECONDS = 0.25  # between two looks
READ_SECONDS = 0.005  # between two readings of the kernel's figures: with 0.001 they cost a calm Helen 4 % of its CPU


@frozen
class Reading:
    """Holds the kernel's figures of the reactor's thread at a moment, monotonic seconds."""

    at: float
    times: ThreadTimes


def held(lag: float, before: ThreadTimes, now: ThreadTimes) -> float:
    """Return how many seconds of `lag` were Helen's own. `before` was read when the turn of the reactor began.

    All that is no wait for a processor is: run time, and time in which other threads had the interpreter. Since the
    turn may have begun before the look was due, waits of that time could be taken away wrongly. So what the thread
    ran in the turn counts in any case.
    """
    return max(lag - (now.waited - before.waited), min(lag, now.ran - before.ran), 0.0)


class ReactorLooks:
    """Observes the lag of the reactor for Telemetry. `read` returns the times of the reactor's thread, or None.

    All of it is called in that thread. `steady` is the reactor's clock, in monotonic seconds.
    """

    def __init__(
        self, telemetry: Telemetry, steady: Callable[[], float], read: Callable[[], ThreadTimes | None]
    ) -> None:
        self._telemetry, self._steady, self._read = telemetry, steady, read
        self._start = self._due = steady() + LOOK_SECONDS
        self._next_reading = 0.0
        self._readings: deque[Reading] = deque(maxlen=2)

    def watch(self, reactor: Any) -> None:
        """Read the kernel's figures at the begin of each turn of the reactor, before it waits for events."""
        wait = reactor.doIteration
        before_turn = self.before_turn

        def iterate(timeout: float | None) -> None:
            before_turn()
            wait(timeout)

        reactor.doIteration = iterate

    def before_turn(self) -> None:
        """Read, unless that was done a moment ago: turns of a busy reactor are short, and there are thousands."""
        now = self._steady()
        if now < self._next_reading:
            return
        self._next_reading = now + READ_SECONDS
        if (times := self._read()) is not None:
            self._readings.append(Reading(now, times))
        else:
            self._next_reading = math.inf

    def look(self) -> None:
        """Observe how late this call is. One that comes after a long pause is one call, not as many as were due."""
        now = self._steady()
        lag = max(0.0, now - self._due)
        held_seconds, waited = self._held(lag)
        self._telemetry.looked(Look(lag, held_seconds), waited)
        passed = max(0, int((now - self._start) / LOOK_SECONDS))
        self._due = self._start + (passed + 1) * LOOK_SECONDS

    def _held(self, lag: float) -> tuple[float | None, float | None]:
        """Return what Helen held of the lag, and all that the thread has ever waited; None where that is not told."""
        times = self._read()
        if times is None:
            self._readings.clear()
            return None, None
        before = next((each for each in reversed(self._readings) if each.at <= self._due), None)
        return (lag if before is None else held(lag, before.times, times)), times.waited
