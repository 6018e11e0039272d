"""Tests workers and clients that stood still, against a broker of raw frames.

A worker that may have been given up begins nothing until it knows; an answer that waits in the socket counts.
"""

from __future__ import annotations

import time

import pytest

from scale0 import client as client_module
from scale0.client import Client
from scale0.endpoint import requests as requests_module
from scale0.endpoint.effects import State
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.reader import Kind, Network
from scale0.worker import Worker

INTERVAL = 0.1  # seconds between heartbeats; a worker is given up after three


class RawBroker:
    """Admits each worker, and says nothing else by itself."""

    def __init__(self, pump) -> None:
        self.socket = Network.of(pump.reactor).socket(Kind.ROUTER, self._received)
        self.endpoint = self.socket.bind("tcp://127.0.0.1:*")
        self.lines: list[bytes] = []  # of those that said READY, newest last
        self.heard: list[str] = []
        self.asked: list[tuple[bytes, str]] = []
        self.admits = True

    def _received(self, frames: list[bytes], origin: object) -> None:
        message = wire.parse(frames[1:])
        self.heard.append(message.command)
        if message.command == "CHECKCONFIG" and self.admits:
            self.tell(frames[0], "CONFIGACK", config_version="0", hbeatinterval=INTERVAL, broker="b")
        elif message.command == "READY":
            self.lines.append(frames[0])
        elif message.command == "REQUEST":
            self.asked.append((frames[0], opt.decode_any(message.options)["id"]))

    def tell(self, line: bytes, command: str, *body: bytes, **options: object) -> None:
        self.socket.send([line, *wire.scale0(S0, command, opt.encode(options), body)])

    def give(self, line: bytes, *numbers: int) -> None:
        for number in numbers:
            self.tell(line, "REQUEST", b"?", id=f"{number:032x}", service="tea")


@pytest.fixture
def stage(pump):
    """Yield (broker, worker, what it has begun); the worker is ready."""
    begun: list[int] = []
    broker = RawBroker(pump)
    worker = Worker(
        pump.reactor, "w", [broker.endpoint], lambda r: begun.append(int(r.id, 16)) or b"!", 5, interval=INTERVAL
    )
    worker.offer("tea")
    worker.startService()
    pump.until(lambda: broker.lines)
    broker.tell(broker.lines[0], "HEARTBEAT", time=time.time(), config_version="0")
    yield broker, worker, begun
    worker.stopService()


def stand_still(intervals: float) -> None:
    time.sleep(intervals * INTERVAL)


END = {"code": 408, "message": "silent", "reason": "heartbeat_lost"}


@pytest.mark.parametrize("intervals", [3.5, 8.0])
def test_requests_of_a_broker_that_has_given_the_worker_up_are_not_begun(pump, stage, intervals):
    """Requests that lie in the socket before the end of the session are not begun: others have been
    given them (F87).
    """
    broker, worker, begun = stage
    [line] = broker.lines
    broker.give(line, 1, 2)
    broker.tell(line, "DISCONNECTERROR", **END)
    stand_still(intervals)
    pump.until(lambda: len(broker.lines) == 2)
    assert begun == [] and worker.inflight == 0
    broker.give(broker.lines[-1], 3)
    pump.until(lambda: begun == [3])


@pytest.mark.parametrize("intervals", [1.5, 3.5, 8.0])
def test_requests_of_a_broker_that_stood_still_as_well_are_begun(pump, stage, intervals):
    """Requests are begun in their order once a broker that stood still says that it counts on this worker (F87, F5)."""
    broker, _, begun = stage
    [line] = broker.lines
    broker.give(line, 1, 2)
    stand_still(intervals)
    pump.until(lambda: len(begun) == 2)
    assert begun == [1, 2] and set(broker.lines) == {line}
    pump.until(lambda: broker.heard.count("FINAL") == 2)


def test_a_request_that_is_cancelled_while_the_worker_is_in_doubt_is_not_begun(pump, stage):
    """A request that is cancelled meanwhile is not begun; the other one is (F87)."""
    broker, _, begun = stage
    [line] = broker.lines
    broker.give(line, 1, 2)
    broker.tell(line, "CANCEL", id=f"{1:032x}")
    stand_still(5.0)
    pump.until(lambda: begun)
    assert begun == [2]


def test_nothing_is_heard_on_the_old_socket_of_a_silent_broker(pump, stage):
    """The worker begins nothing that comes on the old socket, also when the broker speaks before a new call (F87)."""
    broker, worker, begun = stage
    broker.admits = False
    pump.until(lambda: worker.state is State.LOST)
    broker.give(broker.lines[0], 1)
    pump.sit(0.1)
    assert begun == []


@pytest.mark.parametrize("end", ["client", "worker"])
@pytest.mark.parametrize("seconds", [0.8, 1.6])
def test_an_answer_that_came_while_the_asker_stood_still_counts(pump, stage, monkeypatch, end, seconds):
    """The answer counts although its timeout is over, since the program itself stood still (F5)."""
    for module in (client_module, requests_module):
        monkeypatch.setattr(module, "GRACE", 0.1)
    broker, worker, _ = stage
    if end == "client":
        asker = Client(pump.reactor, "c", [broker.endpoint], interval=INTERVAL)
        asker.startService()
        pump.until(lambda: asker.state is State.ACTIVE)
        answer = asker.request("tea", b"?", timeout=0.3, idempotent=False)
    else:
        answer = worker.ask("tea", b"?", timeout=0.3)
    outcome: list = []
    answer.addBoth(outcome.append)
    pump.until(lambda: broker.asked)
    [(line, number)] = broker.asked
    broker.tell(line, "FINAL", b"!", id=number, code=200)
    time.sleep(seconds)
    pump.until(lambda: outcome)
    body = outcome[0].body if end == "client" else outcome[0]
    assert list(body) == [b"!"]
    if end == "client":
        asker.stopService()
    late = worker.ask("tea", b"?", timeout=0.05)
    with pytest.raises(requests_module.NotAnswered):
        pump.result(late)
