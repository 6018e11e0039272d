"""What is to happen when, for tens of thousands of sessions and requests at once. Pure: told the time, never asks.

A wheel of coarse slots: setting, moving and cancelling are dictionary operations, so that a request which is answered
in time (nearly all) leaves nothing behind. A heap of deadlines would keep each dead entry until its hour.
"""

from __future__ import annotations

import heapq
from math import ceil
from typing import Any

RESOLUTION = 0.01  # seconds; nothing of ours is due more exactly, and nothing fires early
FAR = 10.0  # seconds from which on slots are as wide as COARSE: fifteen minutes of fine ones would be 90,000
COARSE = 50  # of RESOLUTION

Key = tuple[Any, ...]  # what it is, and about whom


class Timers:
    def __init__(self) -> None:
        self._slots: dict[int, dict[Key, None]] = {}
        self._order: list[int] = []  # a heap of the slots that were ever opened and have not been passed
        self._when: dict[Key, int] = {}
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, key: Key) -> bool:
        return key in self._when

    def set(self, key: Key, when: float) -> None:
        """Fire `key` at `when`, and no longer at what it was set to before."""
        slot = ceil(when / RESOLUTION)
        if when - self._now > FAR:
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
        slot = self._when.pop(key, None)
        if slot is not None:
            self._slots[slot].pop(key, None)

    def due(self, now: float) -> list[Key]:
        """All keys whose time has come, oldest first; they are no longer set."""
        self._now = now
        keys: list[Key] = []
        while self._order and self._order[0] * RESOLUTION <= now:
            keys += self._slots.pop(heapq.heappop(self._order))
        for key in keys:
            del self._when[key]
        return keys

    def next(self) -> float | None:
        """When to look again."""
        while self._order and not self._slots[self._order[0]]:
            del self._slots[heapq.heappop(self._order)]
        return self._order[0] * RESOLUTION if self._order else None
