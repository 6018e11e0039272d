"""Watch the reactor and the clock while Helen runs, and log what they did."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from twisted.logger import Logger

from groundwork.clock_watch import NEWS_SECONDS, Jump
from helen import garbage_looks, reactor_looks
from helen.parts import Parts
from helen.processor_wait import ProcessorWait
from helen.reactor_looks import ReactorLooks


class ReactorWatch:
    """Looks how late the reactor is, where the clock has gone, and what the garbage collector may look at."""

    log = Logger()

    def __init__(self, parts: Parts, reactor: Any) -> None:
        self._parts, self._reactor = parts, reactor

    def begin(self, every: Callable[[float, Callable[[], object]], None]) -> None:
        """Look from now on. If the kernel does not tell how long a thread waits for a processor, log it."""
        kernel = ProcessorWait()
        if kernel.times() is None:
            self.log.info(
                "the kernel does not tell how long a thread waits for a processor (/proc/self/task/{tid}/schedstat):"
                " /metrics has how late the reactor is, and not what of that Helen held it",
                tid=threading.get_native_id(),
            )  # fmt: skip
        self._looks = ReactorLooks(self._parts.telemetry, self._reactor.seconds, kernel.times)
        self._looks.watch(self._reactor)
        every(reactor_looks.LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Observe how late this call is, before it does anything that takes time."""
        self._looks.look()
        self._parts.clock.look()
        garbage_looks.look()

    def jumped(self, jump: Jump) -> None:
        """Log a step of the clock, or a sleep; a short stall of a busy machine is no news."""
        if jump.stepped:
            self.log.warn(
                "the clock was set {way} by {seconds:,.0f} s. Helen goes on by the new time; planned downtimes and"
                " what expires follow in an hour, if it stands", way="back" if jump.stepped < 0.0 else "ahead",
                seconds=abs(jump.stepped),
            )  # fmt: skip
        if jump.slept >= NEWS_SECONDS:
            self.log.warn("Helen stood still for {seconds:,.0f} s: no check is late for that", seconds=jump.slept)
