"""Keeps the timers of tens of thousands of sessions and requests. Pure: the time is an argument of each call.

A wheel of coarse slots: setting, moving and cancelling are dictionary operations, so that a request that is answered
in time (nearly all) leaves nothing behind. A heap of deadlines would keep each dead entry until its deadline.
"""

from __future__ import annotations

import heapq
from math import ceil
from typing import Any

RESOLUTION = 0.01  # seconds; no timer needs to be more exact, and none fires early
FAR = 10.0  # seconds from which on slots are as wide as COARSE: fifteen minutes of fine ones would be 90,000
COARSE = 50  # of RESOLUTION

Key = tuple[Any, ...]  # the kind of timer, and its subject


class Timers:
    """Maps keys to times of one clock, monotonic seconds, and returns those that are due."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[Key, None]] = {}
        self._order: list[int] = []  # a heap of the slots that were ever opened and have not been passed
        self._when: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, key: Key) -> bool:
        return key in self._when

    def set(self, key: Key, when: float, now: float) -> None:
        """Let `key` be due at `when` instead of the time that it was set to before; `now` tells what is far.

        Both are monotonic seconds.
        """
        slot = ceil(when / RESOLUTION)
        if when - now > FAR:
            slot += -slot % COARSE
        old = self._when.get(key)
        if old == slot:
            return
        if old is not None:
            self._slots[old].pop(key, None)
        self._when[key] = slot
        keys = self._slots.get(slot)
        if keys is None:
            keys = self._slots[slot] = {}
            heapq.heappush(self._order, slot)
        keys[key] = None

    def cancel(self, key: Key) -> None:
        """Forget a key; one that is not set is no error."""
        slot = self._when.pop(key, None)
        if slot is not None:
            self._slots[slot].pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Return the keys that are due at `now`, monotonic seconds, oldest first; they are no longer set."""
        keys: list[Key] = []
        while self._order and self._order[0] * RESOLUTION <= now:
            keys += self._slots.pop(heapq.heappop(self._order))
        for key in keys:
            del self._when[key]
        return keys

    def next(self) -> float | None:
        """Return the time at which the next key is due, monotonic seconds, or None."""
        while self._order and not self._slots[self._order[0]]:
            del self._slots[heapq.heappop(self._order)]
        return self._order[0] * RESOLUTION if self._order else None
