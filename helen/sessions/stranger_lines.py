"""Bounds the lines of the log that strangers cause: each costs its author a handshake, and Helen's disk 200 bytes.

Pure: the clock is an argument, in monotonic seconds.
"""

from __future__ import annotations

from collections import deque

MOST = 60  # lines in a minute; those that are left out are counted all the same
WINDOW = 60.0  # seconds


class StrangerLines:
    """Says which lines are written."""

    def __init__(self) -> None:
        self._written: deque[float] = deque(maxlen=MOST)
        self._left_out = 0

    def take(self, now: float) -> str | None:
        """Return what a line about a stranger ends with, empty or how many were left out; None: it is left out."""
        if len(self._written) == MOST and now - WINDOW < self._written[0] <= now:
            self._left_out += 1
            return None
        self._written.append(now)
        left_out, self._left_out = self._left_out, 0
        return f" (and {left_out} more lines about strangers were left out)" if left_out else ""
