"""A Helen made of the same Conversation, over a transport in memory; a sandbox that answers when it is told to."""

import json

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from equus.connection import Connection
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role


class Transport(StringTransport):
    """Remembers how it was ended, and ends at once."""

    ended = None

    def loseConnection(self):
        self.ended = self.ended or "lost"
        super().loseConnection()

    def abortConnection(self):
        self.ended = "aborted"
        self.disconnecting = True

    def resumeProducing(self):
        if not self.disconnecting and self.ended is None:
            super().resumeProducing()


class Ear:
    """A Listener that writes down what it is told."""

    def __init__(self):
        self.events = []

    def accepted(self, connection):
        self.events.append("accepted")

    def heard(self, connection, message):
        self.events.append(message)

    def writable(self, connection):
        self.events.append("writable")

    def lost(self, connection, reason):
        self.events.append("lost")


class Helen:
    """The other end of one Connection."""

    def __init__(self, clock, listener, version=2):
        self.clock = clock
        self.conversation = Conversation(Role.HELEN)
        self.transport = Transport()
        greet = lambda connection: connection.send(m.Hello(version, "0.1"))  # noqa: E731
        self.equus = Connection(listener, clock, greet, is_secure=False)
        self.equus.makeConnection(self.transport)

    def say(self, *messages):
        """All of them in one segment; what comes back in this turn."""
        self.say_bytes(b"".join(self.conversation.send(message) for message in messages))
        return self.hear()

    def say_bytes(self, data):
        self.equus.dataReceived(data)

    def hear(self):
        """What the agent has said since the last time."""
        self.clock.advance(0)
        self.conversation.feed(self.transport.value())
        self.transport.clear()
        heard = []
        while (message := self.conversation.next_message()) is not None:
            heard.append(message)
        return heard


class FakeRun:
    def __init__(self, runner, job, done):
        self.runner, self.job, self._done = runner, job, done
        self.reason = None

    def finish(self, **document):
        self.runner.running.remove(self)
        self._done(json.dumps({"status": "ok", "check": self.job.check, "code": self.job.code, **document}).encode())

    def cancel(self, reason="cancelled"):
        if self in self.runner.running:
            self.reason = reason
            self.finish(status="unknown", reason=reason)


class FakeRunner:
    """Runs nothing; tests finish what was started. Files with `broken` in them don't compile."""

    isolation, kills, waiting = "strong", 0, 0

    def __init__(self):
        self.running, self.inspected, self.stopped = [], [], False

    def run(self, job, done):
        self.running.append(FakeRun(self, job, done))
        return self.running[-1]

    def inspect(self, source, libraries, done):
        self.inspected.append(source)
        done({"error": "'=' expected", "line": 1} if b"broken" in source else {"summary": "good"})

    def reload(self, policy):
        self.policy = policy

    def stop(self):
        self.stopped = True
        for run in list(self.running):
            run.cancel()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ear():
    return Ear()


@pytest.fixture
def runner():
    return FakeRunner()


@pytest.fixture
def meet(clock):
    """Makes a Helen with an agent's connection: meet(listener, version=2)."""
    return lambda listener, version=2: Helen(clock, listener, version)
