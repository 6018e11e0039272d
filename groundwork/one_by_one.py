"""Runs calls that take their time one after the other, as a lock does that each of them holds.

Twisted's DeferredLock calls the next one while the one before is still on the stack: where some 120 end at once, as
those do that are refused, Python's stack is full, and the lock stays held. Here they are run by a loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

T = TypeVar("T")


class OneByOne:
    """Runs one call at a time, in the order in which they were given."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Awaitable[Any]], Deferred[Any]]] = deque()
        self._is_running = False

    def run(self, call: Callable[[], Awaitable[T]]) -> Deferred[T]:
        """Return a Deferred of what `call()` gives or raises, once all calls before it have ended."""
        done: Deferred[T] = Deferred()
        self._waiting.append((call, done))
        if not self._is_running:
            Deferred.fromCoroutine(self._run_all())
        return done

    async def _run_all(self) -> None:
        self._is_running = True
        while self._waiting:
            call, done = self._waiting.popleft()
            try:
                found = await call()
            except Exception:
                done.errback()
            else:
                done.callback(found)
        self._is_running = False
