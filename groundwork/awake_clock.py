"""Tells monotonic seconds without those in which the process stood still, for deadlines of silence.

A process that was stopped, a machine that slept or a reactor that was held up has read nothing meanwhile: that a peer
was not heard in this time says nothing about the peer. By this clock no such time has passed, so every deadline moves
by the length of the stall, and what waits in the sockets is read before the next look at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LATE_SECONDS = 2.0  # without a look, from which a pause counts as a stall: a reactor under load is late by less


class AwakeClock:
    """Counts the seconds in which the process was awake. Its owner looks at it regularly, by `seconds` itself.

    `steady` returns monotonic seconds. `late`: seconds between two looks from which the pause counts as a stall; it is
    some times the interval of the owner's tick. `slept`: seconds of all stalls so far.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic, late: float = LATE_SECONDS) -> None:
        self.slept = 0.0
        self._steady = steady
        self._late = late
        self._looked_at = steady()

    def seconds(self) -> float:
        """Return the seconds of now. After a stall it is the same figure as before it: deadlines have moved along."""
        now = self._steady()
        pause = now - self._looked_at
        self._looked_at = now
        if pause >= self._late:
            self.slept += pause
        return now - self.slept
