"""A reactor of the tests' own, driven by hand: nothing here runs the global one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.epollreactor import EPollReactor

from scale0.reader import Network

PATIENCE = 5.0  # seconds for what must come


class Pump:
    """Turns a reactor until something holds."""

    def __init__(self) -> None:
        self.reactor = EPollReactor()
        self.reactor.startRunning(installSignalHandlers=False)

    def until(self, condition: Callable[[], Any], within: float = PATIENCE) -> Any:
        deadline = time.monotonic() + within
        while not (found := condition()):
            assert time.monotonic() < deadline, f"not within {within:g} s"
            self.reactor.iterate(0.02)
        return found

    def sit(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.reactor.iterate(0.01)

    def result(self, deferred: Any) -> Any:
        """What a Deferred comes to; its failure is raised."""
        outcome: list[Any] = []
        deferred.addBoth(outcome.append)
        self.until(lambda: outcome)
        if hasattr(outcome[0], "raiseException"):
            outcome[0].raiseException()
        return outcome[0]


@pytest.fixture(scope="session")
def _reactor() -> Iterator[Pump]:
    pump = Pump()
    yield pump
    pump.reactor.stop()
    pump.reactor.iterate(0)
    pump.reactor.iterate(0)


@pytest.fixture
def pump(_reactor: Pump) -> Iterator[Pump]:
    """The reactor; a case's sockets are closed after it."""
    yield _reactor
    _reactor.result(Network.of(_reactor.reactor).close())


@pytest.fixture
def network(pump: Pump) -> Network:
    return Network.of(pump.reactor)
