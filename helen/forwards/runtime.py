"""Holds what the work of a forward needs of the process that it runs in."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

THREADS = 2  # that read and write for forwards at a time: each holds one batch, and Helen has other work for them


@define(eq=False)
class Runtime:
    """Holds the reactor and the clocks of all forwards. `wall`: unix seconds; `chance`: 0 to 1."""

    reactor: Any
    wall: Callable[[], float] = time.time
    chance: Callable[[], float] = random.random
    defer: Callable[..., Deferred[Any]] = deferToThread
    _threads: DeferredSemaphore = field(factory=lambda: DeferredSemaphore(THREADS))

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        """Call a function that takes its time in a thread; THREADS of them at a time."""
        return self._threads.run(self.defer, function, *arguments)

    def pause(self, seconds: float) -> Deferred[None]:
        """Wait so long."""
        paused: Deferred[None] = deferLater(self.reactor, seconds, lambda: None)
        return paused
