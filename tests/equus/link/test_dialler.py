"""Test dialling with a reactor in memory: which server, when, and the sentence about each failure."""

import random

import pytest
from twisted.internet import error
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure

from equus.link.connection import Connection
from equus.link.dialler import Dialler
from equus.link.route import Route
from equus.settings import parse_server
from equus_protocol import messages as m

A, B = parse_server("127.0.0.1:1001"), parse_server("127.0.0.2:1002")


class Longest(random.Random):
    def uniform(self, a, b):
        return b


class Caller:
    """Does what agent.py does with a link, and no more."""

    def __init__(self, ear, trust=lambda server: None):
        self.reactor = MemoryReactorClock()
        self.route = Route([A, B], rng=Longest())
        self.failures = 0
        self.ear = ear
        ear.lost = lambda connection, reason: self.route.ended(self.reactor.seconds())
        self.dialler = Dialler(self.reactor, self.route, trust, self._make, self._failed)
        self.dialler.start()

    def _make(self):
        return Connection(self.ear, self.reactor, lambda c: c.send(m.Hello(2, "0.1")), is_secure=False)

    def _failed(self):
        self.failures += 1

    @property
    def dialled(self):
        return [port for _, port, *_ in self.reactor.tcpClients]  # every name is 127.0.0.1 in memory

    def refuse(self):
        factory = self.reactor.tcpClients[-1][2]
        factory.clientConnectionFailed(self.reactor.connectors[-1], Failure(error.ConnectionRefusedError()))


@pytest.fixture
def sentences():
    seen = []

    def observe(event):
        if str(event.get("log_namespace")).startswith("equus"):
            seen.append(event["log_format"].format(**event))

    globalLogPublisher.addObserver(observe)
    yield seen
    globalLogPublisher.removeObserver(observe)


def test_the_next_server_is_dialled_after_the_wait(ear, sentences):
    """The servers are dialled in order with the waits of the route, and each failure is explained."""
    caller = Caller(ear)
    assert caller.dialled == [A.port]
    caller.refuse()
    caller.reactor.pump([0.1] * 9)
    assert len(caller.dialled) == 1
    caller.reactor.pump([0.1] * 6)  # the endpoint itself looks at its attempts every 0.3 s
    assert caller.dialled[1:] == [B.port]
    caller.refuse()
    caller.reactor.pump([0.1] * 25)
    assert caller.dialled[2:] == [A.port]
    assert caller.failures == 2
    assert sentences[0].startswith("cannot reach 127.0.0.1:1001: nothing listens there")


def test_a_trust_that_can_not_be_made_is_a_failure_like_others(ear, sentences):
    """A CA that cannot be read counts as a failure to connect, and the dialling goes on."""

    def broken(server):
        raise ValueError("no such CA")

    caller = Caller(ear, broken)
    caller.reactor.advance(1)
    caller.reactor.advance(2)
    assert (caller.failures, caller.dialled) == (3, [])
    assert sentences[0] == "cannot reach 127.0.0.1:1001: no such CA"


def test_stopping_while_dialling_is_no_failure(ear, sentences):
    """Stopping while dialling is no failure: nothing is logged, and nothing is dialled again."""
    caller = Caller(ear)
    stopped = []
    caller.dialler.stop().addCallback(stopped.append)
    caller.reactor.advance(600)
    assert (stopped, caller.failures, sentences, len(caller.dialled)) == ([None], 0, [], 1)
