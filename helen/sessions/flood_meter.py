"""Tells by what an agent sends whether it floods: a slice that ended too early may as well be the machine's doing.

A slice ends by the clock. If Helen waits for a processor meanwhile, it ends behind a few results of an agent that sends
as agents do. So a slice that ended is judged by its messages and bytes, and one alone with few of both is no flood.
"""

from __future__ import annotations

FLOOD_BYTES = 16_384  # since all was read last: some forty results, where agents send up to a few dozen at once
FLOOD_MESSAGES = 128  # of slices that ended too early, within one window
FLOOD_SLICES = 8  # that ended too early within one window, however little was in them: each message may take long
WINDOW_SECONDS = 0.25


class FloodMeter:
    """Counts the slices of one agent that ended before all that it sent was handled. Others cost nothing here."""

    __slots__ = ("_began", "_messages", "_slices")

    def __init__(self) -> None:
        self._began = -WINDOW_SECONDS  # monotonic seconds
        self._messages = self._slices = 0

    def is_flood(self, messages: int, octets: int, now: float) -> bool:
        """Count a slice in which so many messages were handled, and return True if the agent floods.

        `octets` are the bytes that the agent has sent since all was read last. `now` is in monotonic seconds.
        """
        if now - self._began >= WINDOW_SECONDS:
            self._began, self._messages, self._slices = now, 0, 0
        self._messages += messages
        self._slices += 1
        return octets >= FLOOD_BYTES or self._messages >= FLOOD_MESSAGES or self._slices >= FLOOD_SLICES
