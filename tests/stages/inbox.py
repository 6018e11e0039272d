"""Stands for a reactor in tests that have none: what threads send back waits in an inbox until the test looks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

PATIENCE = 60.0  # seconds; only a broken thread comes near it


class Inbox:
    """Stands for reactor.callFromThread; `wait` turns it until a Deferred has fired."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()

    def __call__(self, function: Callable[..., Any], *args: Any) -> None:
        self._calls.put((function, args))

    def wait(self, deferred: Deferred[Any]) -> Any:
        """Return the Deferred's value, or raise its failure."""
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        while not outcome:
            function, args = self._calls.get(timeout=PATIENCE)
            function(*args)
        if isinstance(outcome[0], Failure):
            outcome[0].raiseException()
        return outcome[0]

    def take_one(self) -> None:
        """Make the next call, once it comes."""
        function, args = self._calls.get(timeout=PATIENCE)
        function(*args)

    def turn(self) -> None:
        """Make the calls that wait already."""
        with contextlib.suppress(Empty):
            while True:
                function, args = self._calls.get_nowait()
                function(*args)
