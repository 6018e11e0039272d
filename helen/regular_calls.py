"""Make calls at intervals, as long as Helen runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import Logger


class RegularCalls:
    """Holds the loops of one Helen, on the reactor's clock. `failed` is called with a Failure of a loop itself."""

    log = Logger()

    def __init__(self, reactor: Any, failed: Callable[[Any], None]) -> None:
        self._reactor, self._failed = reactor, failed
        self._loops: list[LoopingCall] = []

    def every(self, interval: float, call: Callable[[], object]) -> None:
        """Call it every `interval` seconds, after a failure as well: one bad agent must not end Helen."""

        def attempt() -> None:
            try:
                call()
            except Exception:
                self.log.failure("{call}", call=call)

        loop = LoopingCall(attempt)
        loop.clock = self._reactor
        loop.start(interval, now=False).addErrback(self._failed)
        self._loops.append(loop)

    def stop(self) -> None:
        """Make no further call."""
        for loop in self._loops:
            if loop.running:
                loop.stop()
