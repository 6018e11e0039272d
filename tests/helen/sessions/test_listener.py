"""Tests the listener: strangers are counted by network, deadlines are looked at, one bad connection hurts no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from helen_parts import Notebook, Transport
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError
from twisted.internet.protocol import connectionDone
from twisted.internet.task import Clock

from equus_protocol import messages as m
from helen.agents.roster import Roster
from helen.sessions.connection import AgentConnection
from helen.sessions.deadlines import HELLO_SECONDS
from helen.sessions.listener import ACCEPTS, TICK_SECONDS, AgentListener, TLSListener
from helen.sessions.open_connections import MAX_OF_ADDRESS, MAX_STRANGERS, MOST_EXPECTED, OpenConnections, network_of
from helen.sessions.stranger_lines import MOST, WINDOW
from helen.storage.agent_rows import Agent
from helen.wiring import _recall


class Home(Notebook):
    """Stands in for an owner that counts its connections."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.connections = OpenConnections()

    def arrived(self, connection: AgentConnection) -> None:
        self.connections.add(connection)

    def gone(self, connection: AgentConnection) -> None:
        self.connections.remove(connection)


@pytest.fixture
def home(clock: Clock) -> Home:
    return Home(clock)


@pytest.fixture
def door(home: Home) -> AgentListener:
    return AgentListener(home.clock, home, home.connections, encrypted=False)


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
    """One place is a /24 or a /64; an IPv4 address in IPv6 form is an IPv4 address."""
    assert network_of(host) == network


@pytest.mark.adversary(45)
def test_200_strangers_of_one_network(home: Home, door: AgentListener) -> None:
    """The oldest stranger goes for the next one, in that network only; one that is admitted or goes
    makes room (F55).
    """
    inside = [knock(door, f"192.0.2.{n}") for n in range(MAX_STRANGERS)]
    assert knock(door, "192.0.3.1") is not None
    assert home.connections.turned_away == 0
    assert knock(door, "192.0.2.250") is not None
    assert (inside[0].transport.ended, home.connections.turned_away) == ("aborted", 1)
    inside[1].connectionLost(None)
    assert knock(door, "192.0.2.251") is not None
    inside[2].admitted = True
    home.connections.admitted(inside[2])
    assert knock(door, "192.0.2.252") is not None
    assert [each.transport.ended for each in inside[1:]] == [None] * (MAX_STRANGERS - 1)
    assert home.connections.turned_away == 1


def test_20_strangers_of_one_address(home: Home, door: AgentListener) -> None:
    """The oldest stranger of an address makes room for its next one; others of its network lose nothing (F55)."""
    other = knock(door, "192.0.2.9")
    inside = [knock(door, "192.0.2.1") for _ in range(MAX_OF_ADDRESS)]
    assert [each.transport.ended for each in inside] == [None] * MAX_OF_ADDRESS
    assert [knock(door, "192.0.2.1") is None for _ in range(230)] == [False] * 230
    assert {each.transport.ended for each in inside} == {"aborted"}
    assert (other.transport.ended, home.connections.turned_away) == (None, 230)
    assert sum(map(len, home.connections._strangers.values())) == MAX_OF_ADDRESS + 1


def test_a_stranger_that_has_spoken_stays_before_those_that_are_silent(home: Home, door: AgentListener) -> None:
    """A good agent behind the address of silent sockets gets in, though it came before them (F55)."""
    agent = knock(door, "192.0.2.1")
    agent.dataReceived(b"hel")
    for _ in range(3 * MAX_OF_ADDRESS):
        knock(door, "192.0.2.1")
    assert agent.transport.ended is None
    agent.dataReceived(b"lo 2 kit;name=web-1\n")
    assert home.events[-1] == m.Hello(2, "kit;name=web-1")


def test_a_few_connections_are_accepted_in_a_turn(home: Home, door: AgentListener) -> None:
    """A few connections are accepted in a turn, or hundreds of a flood would hold up every agent (F55)."""
    port = SimpleNamespace(numberAccepts=500)
    door.accepts_on(port)
    assert knock(door) is not None
    assert port.numberAccepts == ACCEPTS


def test_those_that_went_for_others_are_counted_and_not_logged(
    home: Home, door: AgentListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers that went for others are counted, as a line for each would fill the disk; a dropped one
    has its line.
    """
    lines: list[str] = []
    monkeypatch.setattr(AgentConnection, "log", SimpleNamespace(info=lambda text, **fields: lines.append(text)))
    connections = [knock(door) for _ in range(MAX_OF_ADDRESS + 7)]
    assert (lines, home.connections.turned_away) == ([], 7)
    connections[-1].drop("a reason")
    assert len(lines) == 1


def test_strangers_cause_some_lines_in_a_minute(
    home: Home, door: AgentListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one after a minute says how many were left out; an agent with a name has its lines all the same."""
    lines: list[str] = []

    def note(text: str, **fields: Any) -> None:
        lines.append(text.format(**fields))

    monkeypatch.setattr(AgentConnection, "log", SimpleNamespace(info=note))

    def garbage() -> None:
        stranger = knock(door)
        stranger.dataReceived(b"garbage\n")
        stranger.connectionLost(None)

    for _ in range(MOST + 7):
        garbage()
    assert len(lines) == MOST
    assert set(lines) == {lines[0]} and lines[0].startswith("a stranger at 192.0.2.1: error unknown-command")
    agent = knock(door)
    agent.name = "web-1"
    agent.drop("a reason")
    assert lines[MOST:] == ["web-1 at 192.0.2.1: dropped: a reason"]
    home.clock.advance(WINDOW - 0.1)
    garbage()
    assert len(lines) == MOST + 1
    home.clock.advance(0.1)
    garbage()
    assert lines[-1].endswith("(and 8 more lines about strangers were left out)") and len(lines) == MOST + 2


def test_the_fullest_address_of_a_network_makes_room(home: Home, door: AgentListener) -> None:
    """Ten addresses that hold all places of a network lose them to an eleventh, one by one (F55)."""
    hostile = [knock(door, f"192.0.2.{n // MAX_OF_ADDRESS}") for n in range(MAX_STRANGERS)]
    good = [knock(door, f"192.0.2.{n}") for n in range(100, 120)]
    assert [each.transport.ended for each in good] == [None] * 20
    assert sum(each.transport.ended == "aborted" for each in hostile) == 20


def test_the_quota_of_strangers_is_a_setting(home: Home) -> None:
    """A site behind one address may have more, on both sides of the figure."""
    home.connections = OpenConnections(3)
    door = AgentListener(home.clock, home, home.connections, encrypted=False)
    inside = [knock(door) for _ in range(3)]
    assert inside[0].transport.ended is None
    knock(door)
    assert [each.transport.ended for each in inside] == ["aborted", None, None]


def test_counts_come_back_to_nothing(home: Home, door: AgentListener) -> None:
    """Counts come back to nothing however a connection ends."""
    connections = [knock(door) for _ in range(4)]
    connections[0].admitted = True
    home.connections.admitted(connections[0])
    for connection in connections:
        connection.connectionLost(None)
        connection.connectionLost(None)
    assert (len(home.connections), home.connections._strangers) == (0, {})


def test_waiting_until_none_is_left(home: Home, door: AgentListener) -> None:
    """The Deferred fires with the last connection that goes, or at once without any; a waiter that gives up is
    forgotten.
    """
    assert home.connections.when_none().called
    connections = [knock(door), knock(door)]
    none, other = home.connections.when_none(), home.connections.when_none()
    other.addErrback(lambda failure: failure.trap(CancelledError)).cancel()
    connections[0].connectionLost(None)
    assert not none.called
    connections[1].connectionLost(None)
    assert none.called


def test_the_tick(door: AgentListener, clock: Clock) -> None:
    """One timer serves all connections."""
    door.startFactory()
    connection = knock(door)
    assert len(clock.getDelayedCalls()) == 1
    for _ in range(round(HELLO_SECONDS / TICK_SECONDS)):
        clock.advance(TICK_SECONDS)
    assert connection.transport.value() == b"error hello-timeout\n"
    door.stopFactory()
    assert clock.getDelayedCalls() == []


def test_a_tick_takes_turns(home: Home, door: AgentListener, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick looks at some connections in a turn, each once, and at none that has ended meanwhile."""
    waiting = [knock(door, f"192.0.{n}.1") for n in range(10)]
    looked, turns = list[AgentConnection](), list[int]()

    def sweep(self: AgentConnection, now: float, wall: float) -> None:
        looked.append(self)

    monkeypatch.setattr(AgentConnection, "sweep", sweep)
    monkeypatch.setattr(home, "steady", lambda: len(looked) / 1_000)
    door.sweep()
    ended = next(each for each in waiting if each is not None and each not in looked)
    ended.connectionLost(connectionDone)
    while clock.calls:
        turns.append(len(looked))
        door.sweep()  # the next tick, which comes too early
        clock.calls.pop(0).func()  # one turn: `advance` would go on until no call is left
    assert turns == [3, 6]
    assert (len(looked), set(looked)) == (9, {each for each in waiting if each is not ended})
    door.sweep()
    door.stopFactory()
    assert (len(looked), clock.getDelayedCalls()) == (12, [])


def test_a_fault_in_one_connection(door: AgentListener, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection with a fault is dropped; the tick goes on for the others."""
    bad, good = knock(door), knock(door)
    monkeypatch.setattr(bad, "sweep", lambda now, wall: 1 / 0)
    door.startFactory()
    for _ in range(round(HELLO_SECONDS / TICK_SECONDS)):
        clock.advance(TICK_SECONDS)
    assert (bad.transport.ended, good.transport.value()) == ("aborted", b"error hello-timeout\n")
    door.stopFactory()


def test_a_stranger_too_many_under_tls(door: AgentListener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twisted's own factory would wrap nothing, and break at the first byte."""

    class Creator:
        def serverConnectionForTLS(self, protocol: Any) -> Any:
            raise AssertionError("nobody gets that far")

    monkeypatch.setattr("helen.sessions.open_connections.MAX_STRANGERS", 0)
    monkeypatch.setattr("helen.sessions.listener.TLSListener.__init__", lambda self, creator, door: None)
    outer = TLSListener(Creator(), door)
    outer.wrappedFactory = door
    assert outer.buildProtocol(IPv4Address("TCP", "192.0.2.1", 5)) is None


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1"])
def test_a_site_behind_one_address_comes_back_as_a_whole(home: Home, door: AgentListener, address: str) -> None:
    """Each agent of the site has a place after a restart, beside those that anybody has there."""
    for number in range(300):
        home.connections.came_from(f"agent-{number}", address)
    agents = [knock(door, address) for _ in range(300 + MAX_OF_ADDRESS)]
    assert {each.transport.ended for each in agents} == {None}
    assert knock(door, address) is not None
    assert [each.transport.ended for each in agents[:2]] == ["aborted", None]
    assert home.connections.turned_away == 1


def test_places_follow_the_agents(home: Home, door: AgentListener) -> None:
    """One that moves, is revoked or forgotten leaves no place behind; no more than MOST_EXPECTED are ever added."""
    for number in range(MOST_EXPECTED + 7):
        home.connections.came_from(f"agent-{number}", "192.0.2.1")
    most = MOST_EXPECTED + MAX_OF_ADDRESS
    inside = [knock(door) for _ in range(most + 1)]
    assert [each.transport.ended for each in inside] == ["aborted"] + [None] * most
    for connection in inside:
        connection.connectionLost(None)
    for number in range(MOST_EXPECTED + 7):
        home.connections.came_from(f"agent-{number}", "192.0.2.2" if number < 5 else "")
    inside = [knock(door) for _ in range(MAX_OF_ADDRESS + 1)]
    moved = [knock(door, "192.0.2.2") for _ in range(MAX_OF_ADDRESS + 6)]
    assert [sum(each.transport.ended == "aborted" for each in them) for them in (inside, moved)] == [1, 1]
    assert home.connections._expected == {"192.0.2.2": 5, "192.0.2.0/24": 5}


def test_a_start_expects_the_agents_of_before(home: Home, door: AgentListener) -> None:
    """The database has where each was last; one that is revoked is not expected back."""
    roster = Roster(lambda agent: None, lambda agent, link: None)
    sessions: Any = SimpleNamespace(roster=roster, connections=home.connections)
    for number in range(40):
        _recall(sessions, Agent(f"agent-{number}", 1.0, 2.0 if number >= 30 else None, 3.0, "192.0.2.1", {}))
    agents = [knock(door) for _ in range(30 + MAX_OF_ADDRESS + 1)]
    assert [each.transport.ended for each in agents] == ["aborted"] + [None] * (30 + MAX_OF_ADDRESS)
    assert sorted(name for name, agent in roster.agents.items() if agent.revoked_at) == [
        f"agent-{number}" for number in range(30, 40)
    ]
