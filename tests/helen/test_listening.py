"""The door: strangers are counted by network, deadlines are looked at, one bad connection hurts no other."""

from __future__ import annotations

from typing import Any

import pytest
from helen_parts import Notebook, Transport
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.task import Clock

from helen.connection import HELLO_SECONDS, AgentConnection
from helen.listening import MAX_STRANGERS, TICK_SECONDS, AgentDoor, TLSDoor, network_of


class Home(Notebook):
    """A house with a door."""

    door: AgentDoor

    def arrived(self, connection: AgentConnection) -> None:
        self.door.arrived(connection)

    def gone(self, connection: AgentConnection) -> None:
        self.door.gone(connection)


@pytest.fixture
def door(clock: Clock) -> AgentDoor:
    home = Home(clock)
    home.door = AgentDoor(clock, home, encrypted=False)
    return home.door


def knock(door: Any, host: str = "192.0.2.1") -> AgentConnection | None:
    kind = IPv6Address if ":" in host else IPv4Address
    address = kind("TCP", host, 5)
    connection = door.buildProtocol(address)
    if connection is not None:
        transport = Transport(peerAddress=address)
        connection.makeConnection(transport)
    return connection


@pytest.mark.parametrize(
    ("host", "network"),
    [("192.0.2.77", "192.0.2.0/24"), ("::ffff:192.0.2.77", "192.0.2.0/24"), ("2001:db8::1:2", "2001:db8::/64"),
     ("unix", "unix")],
)  # fmt: skip
def test_what_one_place_is(host: str, network: str) -> None:
    """A /24, a /64; an IPv4 address in IPv6 clothes is an IPv4 address."""
    assert network_of(host) == network


def test_200_strangers_of_one_network(door: AgentDoor) -> None:
    """The next one is a closed socket, there and only there; whoever is admitted or goes makes room."""
    inside = [knock(door, f"192.0.2.{n % 250}") for n in range(MAX_STRANGERS)]
    assert knock(door) is None
    assert knock(door, "192.0.3.1") is not None
    assert door.turned_away == 1
    inside[0].connectionLost(None)
    assert knock(door) is not None
    assert knock(door) is None
    inside[1].admitted = True
    door.no_stranger(inside[1])
    assert knock(door) is not None


def test_counts_come_back_to_nothing(door: AgentDoor) -> None:
    """Whatever becomes of a connection."""
    connections = [knock(door) for _ in range(4)]
    connections[0].admitted = True
    door.no_stranger(connections[0])
    for connection in connections:
        connection.connectionLost(None)
        connection.connectionLost(None)
    assert (door.connections, door._strangers) == (set(), {})


def test_the_tick(door: AgentDoor, clock: Clock) -> None:
    """One timer for all of them."""
    door.startFactory()
    connection = knock(door)
    assert len(clock.getDelayedCalls()) == 1
    for _ in range(round(HELLO_SECONDS / TICK_SECONDS)):
        clock.advance(TICK_SECONDS)
    assert connection.transport.value() == b"error hello-timeout\n"
    door.stopFactory()
    assert clock.getDelayedCalls() == []


def test_a_fault_in_one_connection(door: AgentDoor, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped; the tick goes on for the others."""
    bad, good = knock(door), knock(door)
    monkeypatch.setattr(bad, "sweep", lambda now, wall: 1 / 0)
    door.startFactory()
    for _ in range(round(HELLO_SECONDS / TICK_SECONDS)):
        clock.advance(TICK_SECONDS)
    assert (bad.transport.ended, good.transport.value()) == ("aborted", b"error hello-timeout\n")
    door.stopFactory()


def test_a_stranger_too_many_under_tls(door: AgentDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twisted's own factory would wrap nothing, and break at the first byte."""

    class Creator:
        def serverConnectionForTLS(self, protocol: Any) -> Any:
            raise AssertionError("nobody gets that far")

    monkeypatch.setattr("helen.listening.MAX_STRANGERS", 0)
    monkeypatch.setattr("helen.listening.TLSDoor.__init__", lambda self, creator, door: None)
    outer = TLSDoor(Creator(), door)
    outer.wrappedFactory = door
    assert outer.buildProtocol(IPv4Address("TCP", "192.0.2.1", 5)) is None
