"""Notice a process that no longer answers, by pings that are sent as long as its answers are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Seconds between two pings. An answer takes 0.1 ms, and some hundred ms on a machine that is four times overloaded.
PING_EVERY = 2.5
# Pings in a row without an answer. One is not enough: after a pause of the whole machine our timer may fire before the
# other process runs at all.
MOST_UNANSWERED = 2


class Heartbeat:
    """Calls `send_ping` every PING_EVERY seconds while `needed` is true, and `silent` once if no answer comes."""

    def __init__(
        self, reactor: Any, send_ping: Callable[[], object], needed: Callable[[], bool], silent: Callable[[], None]
    ) -> None:
        self._reactor, self._send_ping, self._needed, self._silent = reactor, send_ping, needed, silent
        self._unanswered = 0
        self._timer: Any = None

    def begin(self) -> None:
        """Start the pings, unless they have been started."""
        if self._timer is None:
            self._unanswered = 0
            self._ping()

    def answered(self) -> None:
        """Take note of an answer."""
        self._unanswered = 0

    def stop(self) -> None:
        """Stop the pings: the process has ended, or its answers are not needed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ping(self) -> None:
        self._unanswered += 1
        self._send_ping()
        self._timer = self._reactor.callLater(PING_EVERY, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._unanswered >= MOST_UNANSWERED:
            self._silent()
        elif self._unanswered or self._needed():
            self._ping()
