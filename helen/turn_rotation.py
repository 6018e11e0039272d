"""Gives each turn of the reactor to one of those that have long work, in rotation.

Each of them works for a slice and then lets others go on. If all worked in the same turn, a ping of an agent would wait
for the sum of them; so it waits for one. Slices are short while an agent floods, and longer at other times: each turn
of the reactor costs 50 us. It has the interface of a reactor that its callers need.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

SHORT_SLICE = 0.0005  # seconds of work in one turn
LONG_SLICE = 0.002
PRESSED_SECONDS = 1.0  # for which slices are short after an agent has flooded


class WaitingCall:
    """Holds a call that was not made yet, with the interface of a delayed call of the reactor."""

    def __init__(self, function: Callable[..., object], given: tuple[Any, ...]) -> None:
        self.timer: Any = None
        self._function, self._given = function, given
        self._is_active = True

    def active(self) -> bool:
        """Return True until the call is made or cancelled."""
        return self._is_active

    def cancel(self) -> None:
        """Take the call back. One that was made or cancelled already is left as it is."""
        self._is_active = False
        if self.timer is not None and self.timer.active():
            self.timer.cancel()

    def make(self) -> None:
        """Make the call."""
        self._is_active = False
        self._function(*self._given)


class TurnRotation:
    """Makes one of the waiting calls in each turn of the reactor, the first that came first.

    `pressed_until` is by the clock `steady`, monotonic seconds: until then slices are short.
    """

    def __init__(self, reactor: Any, steady: Callable[[], float] = time.monotonic) -> None:
        self.pressed_until = 0.0
        self._reactor = reactor
        self._steady = steady
        self._waiting: deque[WaitingCall] = deque()
        self._next: Any = None

    def press(self) -> None:
        """Take note that an agent floods."""
        self.pressed_until = self._steady() + PRESSED_SECONDS

    def is_pressed(self) -> bool:
        """Return True while an agent floods, and for PRESSED_SECONDS after it."""
        return self._steady() < self.pressed_until

    def slice_seconds(self) -> float:
        """Return how long each may work in its turn."""
        return SHORT_SLICE if self._steady() < self.pressed_until else LONG_SLICE

    def callLater(self, seconds: float, function: Callable[..., object], *given: Any) -> WaitingCall:
        """Make the call in its turn, after so many seconds."""
        call = WaitingCall(function, given)
        if seconds > 0.0:
            call.timer = self._reactor.callLater(seconds, self._is_due, call)
        else:
            self._join(call)
        return call

    def soon(self, function: Callable[..., object]) -> WaitingCall:
        """Make the call in its turn."""
        return self.callLater(0.0, function)

    def _is_due(self, call: WaitingCall) -> None:
        """Make a call whose time has come: in this turn if no other call waits, else in its own."""
        if self._next is None:
            call.make()
        else:
            self._join(call)

    def _join(self, call: WaitingCall) -> None:
        self._waiting.append(call)
        if self._next is None:
            self._next = self._reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._next = None
        waiting = self._waiting
        while waiting:
            call = waiting.popleft()
            if call.active():
                break
        else:
            return
        if waiting:  # before the call, which may raise
            self._next = self._reactor.callLater(0, self._turn)
        call.make()
