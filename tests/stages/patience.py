"""Bounds how long a test waits for another thread or process; only what is broken comes near the bound."""

from __future__ import annotations

import time

LONGEST_STEP = 1.0  # seconds between two looks; what is longer has stood still itself
MOST_STOPS = 3  # steps of which no more than that is counted; where all are so long, it is the look that is slow


class Patience:
    """Counts the seconds in which this process runs: where all of them stood still, nothing could have happened.

    The longest steps alone are taken for such times. Else looks of 20 s each would have twenty minutes of 60 s, and
    pytest ends the whole process after 420 s of one test.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._passed, self._looked = 0.0, time.monotonic()
        self._longest: list[float] = []

    def lasts(self) -> bool:
        """Return whether there is time left; to be asked at least once a second."""
        now = time.monotonic()
        step, self._looked = now - self._looked, now
        self._passed += step
        self._longest = sorted([*self._longest, step])[-MOST_STOPS:]
        return self._passed - sum(max(0.0, each - LONGEST_STEP) for each in self._longest) < self.seconds
