"""Turns a reactor of the tests' own by hand: nothing here runs the global one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from patience import Patience
from twisted.internet.defer import maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.logger import LogEvent, globalLogPublisher

from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security
from scale0.wire.reader import Network

PATIENCE = 60.0  # seconds for what must come; only what is broken comes near it


class Pump:
    """Turns a reactor until something holds."""

    def __init__(self) -> None:
        self.reactor = EPollReactor()
        self.reactor.startRunning(installSignalHandlers=False)

    def until(self, condition: Callable[[], Any], within: float = PATIENCE) -> Any:
        bound = Patience(within)
        while not (found := condition()):
            assert bound.lasts(), f"not within {within:g} s"
            self.reactor.iterate(0.02)
        return found

    def sit(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.reactor.iterate(0.01)

    def result(self, deferred: Any) -> Any:
        """Return what a Deferred comes to; its failure is raised."""
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
    """Return the reactor; a case's sockets are closed after it."""
    yield _reactor
    _reactor.result(Network.of(_reactor.reactor).close())


@pytest.fixture
def network(pump: Pump) -> Network:
    return Network.of(pump.reactor)


class Brokers:
    """Starts the brokers of one case, in this process and on free ports."""

    def __init__(self, pump: Pump, folder: Path) -> None:
        self._pump, self._folder = pump, folder
        self._started: list[BrokerService] = []

    def start(
        self, identity: str = "broker", security: Security | None = None, is_open: bool = True, **config: Any
    ) -> BrokerService:
        """Start a broker with the beat of the tests, active unless the configuration says otherwise.

        `is_open`: services of agents need no key with a role.
        """
        ports = dict.fromkeys(("frontend_port", "backend_port", "peer_port", "config_pub_port"), 0)
        tree = {"identity": identity, "default_heartbeat_interval": 1.0} | ports | config
        file = self._folder / f"{identity}.json"
        file.write_bytes(msgspec.json.encode(tree))
        service = BrokerService(self._pump.reactor, file, self._folder / identity, security, is_open=is_open)
        service.startService()
        self._started.append(service)
        return service

    def stop(self, service: BrokerService) -> None:
        self._started.remove(service)
        self._pump.result(maybeDeferred(service.stopService))

    def stop_all(self) -> None:
        for service in list(self._started):
            self.stop(service)


@pytest.fixture
def brokers(pump: Pump, tmp_path: Path) -> Iterator[Brokers]:
    brokers = Brokers(pump, tmp_path)
    yield brokers
    brokers.stop_all()


@pytest.fixture
def events() -> Iterator[list[LogEvent]]:
    """Return the list of events that are logged while a case runs."""
    found: list[LogEvent] = []
    globalLogPublisher.addObserver(found.append)
    yield found
    globalLogPublisher.removeObserver(found.append)
