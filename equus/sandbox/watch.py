"""Whether a process still answers, asked as long as somebody depends on it. What its silence means, others say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Seconds between two questions. An answer takes 0.1 ms, and some hundred on a machine that is four times overloaded.
ASK_EVERY = 2.5
# Questions in a row without an answer. One is not enough: when a whole machine stood still, our timer may be the first
# thing that runs again.
SILENT = 2


class Watch:
    """Asks by `ask`, and calls `silent` once for a process that has not answered."""

    def __init__(
        self, reactor: Any, ask: Callable[[], object], needed: Callable[[], bool], silent: Callable[[], None]
    ) -> None:
        self._reactor, self._ask, self._needed, self._silent = reactor, ask, needed, silent
        self._unanswered = 0
        self._timer: Any = None

    def begin(self) -> None:
        """Somebody depends on it from now on, if nobody did before."""
        if self._timer is None:
            self._unanswered = 0
            self._question()

    def answered(self) -> None:
        self._unanswered = 0

    def stop(self) -> None:
        """Nobody does any more, or it is known to have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _question(self) -> None:
        self._unanswered += 1
        self._ask()
        self._timer = self._reactor.callLater(ASK_EVERY, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._unanswered >= SILENT:
            self._silent()
        elif self._unanswered or self._needed():
            self._question()
