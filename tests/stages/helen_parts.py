"""Runs Helen without a reactor: a transport in memory, an agent made of the same Conversation, a store
that is pumped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from helen.identity.authority import Identity
from helen.sessions.connection import AgentConnection, Clocks

PATIENCE = 60.0  # seconds; only a broken thread comes near it
WALL = 1_800_000_000.0  # unix seconds when a Clock says 0
FULL = 65_536  # bytes with which Twisted's own transports pause their producer


class Transport(StringTransport):
    """Remembers how it was ended. With `stuck` it keeps what is written, as a peer that doesn't read makes it do."""

    ended: str | None = None
    stuck = False
    waiting = 0

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.stuck:
            self.waiting += len(data)
            if self.waiting > FULL and self.producer is not None:
                self.producer.pauseProducing()

    def drain(self) -> None:
        self.waiting = 0
        if self.producer is not None:
            self.producer.resumeProducing()

    def loseConnection(self) -> None:
        self.ended = self.ended or "lost"
        super().loseConnection()

    def abortConnection(self) -> None:
        self.ended = "aborted"
        self.disconnecting = True

    def resumeProducing(self) -> None:
        if not self.disconnecting and self.ended is None:
            super().resumeProducing()

    def unregisterProducer(self) -> None:
        if self.producer is not None:
            super().unregisterProducer()

    @property
    def is_paused(self) -> bool:
        return self.producerState == "paused"


class Notebook:
    """Stands in for a ConnectionOwner, and writes down what it is told. `on_hello` says what becomes of an agent."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: list[Any] = []
        self.dirty: list[AgentConnection] = []
        self.late: list[AgentConnection] = []
        self.identity: Identity | Exception = Identity("web-1", "k" * 64, WALL + 1e6)
        self.on_hello: Callable[[AgentConnection], None] = lambda connection: connection.admit()
        self.on_heard: Callable[[AgentConnection, Any], None] = lambda connection, message: None

    def clocks(self) -> Clocks:
        return Clocks(WALL + self.clock.seconds(), self.clock.seconds())

    def steady(self) -> float:
        return self.clock.seconds()

    def identify(self, certificate: Any, now: float) -> Identity:
        if isinstance(self.identity, Exception):
            raise self.identity
        return self.identity

    def arrived(self, connection: AgentConnection) -> None:
        self.events.append("arrived")

    def gone(self, connection: AgentConnection) -> None:
        self.events.append("gone")

    def lost(self, connection: AgentConnection) -> None:
        self.events.append("lost")

    def hello(self, connection: AgentConnection, hello: m.Hello) -> None:
        self.events.append(hello)
        self.on_hello(connection)

    def heard_part(self, connection: AgentConnection) -> None:
        self.events.append("part")

    def heard(self, connection: AgentConnection, message: m.Message) -> None:
        self.events.append(message)
        self.on_heard(connection, message)

    report = result = heard
    contested = ()

    def heard_from(self, connection: AgentConnection) -> None:
        pass

    def refused(self, connection: AgentConnection, slug: str) -> None:
        pass

    def failed(self, connection: AgentConnection, failure: Failure) -> None:
        self.events.append(failure.type)

    def drained(self, connection: AgentConnection) -> None:
        self.events.append("drained")

    def enrol(self, connection: AgentConnection, message: m.Enrol) -> None:
        self.events.append(message)

    def overspent(self, connection: AgentConnection) -> bool:
        return False

    def has_time(self) -> bool:
        return True

    def soon(self, connection: AgentConnection) -> None:
        self.dirty.append(connection)

    def later(self, connection: AgentConnection) -> None:
        self.late.append(connection)

    def turn(self) -> None:
        """Take one turn of the reactor."""
        late, self.late = self.late, []
        dirty, self.dirty = self.dirty, []
        for connection in late:
            connection.listen()
        for connection in dirty:
            connection.flush()


class Peer:
    """Is the agent's side of one connection to its owner `house`, over a transport in memory."""

    def __init__(
        self, house: Any, clock: Clock, name: str = "web-1", version: int = 2, encrypted: bool = False
    ) -> None:
        self.clock = clock
        self.house = house
        self.name = name
        self.version = version
        self.conversation = Conversation(Role.EQUUS)
        self.transport = Transport()
        self.connection = AgentConnection(house, encrypted)
        self.connection.makeConnection(self.transport)

    def hello(self) -> Peer:
        self.say(m.Hello(self.version, f"0.1.0;name={self.name}"))
        return self

    def say(self, *messages: m.Message) -> None:
        """Send all of these messages in one chunk."""
        self.raw(b"".join(self.conversation.send(message) for message in messages))

    def raw(self, data: bytes) -> None:
        self.connection.dataReceived(data)

    def hear(self) -> list[m.Message]:
        """Return what Helen has said since the last time."""
        data = self.transport.value()
        self.transport.clear()
        self.conversation.feed(data)
        heard = []
        while (message := self.conversation.next_message()) is not None:
            heard.append(message)
        return heard

    def pass_time(self, seconds: float, step: float = 0.5) -> None:
        """Let the clock run, and look at this connection's deadlines as the door does."""
        until = self.clock.seconds() + seconds
        while self.clock.seconds() < until - 1e-9:
            self.clock.advance(min(step, until - self.clock.seconds()))
            now = self.house.clocks()
            self.connection.sweep(now.steady, now.wall)
            if self.transport.disconnecting and self.transport.ended == "aborted":
                break

    def hang_up(self) -> None:
        self.connection.connectionLost(Failure(ConnectionError("hung up")))


@attrs.define(eq=False)
class FakeLink:
    """Stands in for a connection, as the roster sees it."""

    name: str = "web-1"
    version: int = 2
    address: str = "192.0.2.1"
    closing: bool = False
    held: bool = False
    said: list[Any] = attrs.field(factory=list)

    def ping(self) -> None:
        self.said.append("ping")

    def admit(self) -> None:
        self.said.append("admit")

    def refuse(self, slug: str, why: str) -> None:
        self.said.append(slug)
        self.closing = True

    def drop(self, why: str) -> None:
        self.said.append("drop")
        self.closing = True
