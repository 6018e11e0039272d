"""A store without a reactor: what its thread sends back waits in an inbox until the test looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from helen.store import Store

PATIENCE = 20.0  # seconds; only a broken thread comes near it


class Inbox:
    """Stands for reactor.callFromThread; `wait` turns it until a Deferred has fired."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()

    def __call__(self, function: Callable[..., Any], *args: Any) -> None:
        self._calls.put((function, args))

    def wait(self, deferred: Deferred[Any]) -> Any:
        """The Deferred's value; its failure is raised."""
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        while not outcome:
            function, args = self._calls.get(timeout=PATIENCE)
            function(*args)
        if hasattr(outcome[0], "raiseException"):
            outcome[0].raiseException()
        return outcome[0]


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def store(tmp_path: Path, inbox: Inbox) -> Iterator[Store]:
    """An open store in tmp_path."""
    store = Store(tmp_path, inbox)
    store.open(now=1_000.0)
    yield store
    if store.is_open:
        inbox.wait(store.close())
