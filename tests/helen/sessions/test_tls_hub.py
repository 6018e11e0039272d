"""Tests the hub over real sockets: who is served when, what a fault ends, and what is left after many ends."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from helen_parts import Notebook
from hub_stage import Authority, Client, ReactorClock, Recorder, StillPort, serve_until

from equus_protocol import messages as m
from helen.sessions.fair_turns import CALM_STEP_SECONDS, STEP_SECONDS, FairTurns
from helen.sessions.hub_transport import HEAVY
from helen.sessions.listener import AgentListener
from helen.sessions.open_connections import OpenConnections
from helen.sessions.tls_hub import ACCEPTS, CALM_LOOK, LOOK_MOST, REST_SECONDS, TLSHub
from helen.turn_rotation import LONG_SLICE


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


class Recorders:
    """Stands in for the listener: it makes a Recorder for each that comes, or nothing while it is `full`."""

    def __init__(self) -> None:
        self.made: list[Recorder] = []
        self.full = False
        self.on_data: Callable[[Recorder, bytes], None] = lambda recorder, data: None

    def buildProtocol(self, address: Any) -> Recorder | None:
        if self.full:
            return None
        recorder = Recorder()
        recorder.on_data = lambda which, data: self.on_data(which, data)
        self.made.append(recorder)
        return recorder


class Home:
    """Holds a hub with its clock, its port and clients."""

    def __init__(self, authority: Authority, listener: Any = None) -> None:
        self.authority, self.clock, self.port = authority, ReactorClock(), StillPort()
        self.listener: Any = listener or Recorders()
        self.turns = FairTurns(self.clock, self.clock.seconds)
        self.hub = TLSHub(self.clock, self.port, authority.tls, self.listener, self.turns)
        self.hub.startReading()
        self.clients: list[Client] = []

    def dial(self, with_certificate: bool = False) -> Client:
        address = self.hub.getHost()
        connected = socket.create_connection((address.host, address.port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(connected, self.authority.context(with_certificate=with_certificate))
        self.clients.append(client)
        return client

    def until(self, condition: Callable[[], bool]) -> None:
        serve_until(self.hub, self.clock, self.clients, condition)

    def join(self, count: int) -> list[Client]:
        """Connect so many clients, one after the other, hands shaken at both ends, as agents that have said hello."""
        for _ in range(count):
            self.dial()
            self.until(lambda: self.clients[-1].is_trusted and self.listener.made[-1].events == ["trusted"])
            transport = self.listener.made[-1].transport
            transport.is_stranger = transport.is_heavy = False
        assert len(self.hub) == len(self.listener.made) == count
        return self.clients

    def say(self, client: Client, data: bytes) -> None:
        """Send it, and wait until the kernel has it for the hub."""
        client.say(data)
        client.put(client.records())
        assert select.select([self.hub.fileno()], [], [], 30)[0]

    def slowly(self, seconds: float) -> list[bytes]:
        """Have each chunk of an agent take so long. Returns a list that fills with the first bytes of each."""
        order: list[bytes] = []

        def slow(recorder: Recorder, data: bytes) -> None:
            order.append(data[:1])
            self.clock.rightNow += seconds

        self.listener.on_data = slow
        return order

    def say_much(self, clients: list[Client]) -> None:
        """Have each of the first agents say its number, as one who has sent much before."""
        for number, client in enumerate(clients):
            self.say(client, b"%d" % number)
            self.listener.made[number].transport.is_heavy = True

    def turn(self) -> None:
        """Do one turn of the reactor: the hub reads, then one of the rotation works."""
        self.hub.doRead()
        self.clock.advance(0)

    def close(self) -> None:
        for client in self.clients:
            client.socket.close()
        if self.port.is_listening:
            self.hub.stopListening()
        self.hub.connectionLost(None)


@pytest.fixture
def home(authority: Authority) -> Iterator[Home]:
    made = Home(authority)
    yield made
    made.close()


def test_an_agent_is_known_by_its_certificate_and_acknowledged(authority: Authority) -> None:
    """The connection works as over Twisted's transport: hello, a report, its ack, an end."""
    clock = ReactorClock()
    notebook = Notebook(clock)
    shown: list[Any] = []
    notebook.identify = lambda certificate, now: shown.append(certificate) or notebook.identity  # type: ignore[method-assign]
    notebook.on_heard = lambda connection, message: connection.send(m.Ack("s", message.sequence))
    home = Home(authority, AgentListener(clock, notebook, OpenConnections()))
    home.clock.advance(0)
    client = home.dial(with_certificate=True)
    home.until(lambda: client.is_trusted)
    client.say(b"hello 2 kit\nreport s 1 disk 2\n{}\n")
    home.until(lambda: notebook.turn() or b"ack s 1\n" in client.heard)
    assert notebook.events[:3] == ["arrived", m.Hello(2, "kit"), m.Report("s", 1, "disk", b"{}")]
    assert [certificate.subject for certificate in shown] == [authority.shown.subject] * 2
    client.socket.close()
    home.until(lambda: "gone" in notebook.events)
    assert notebook.events[-2:] == ["lost", "gone"]
    home.close()


class CountedSet:
    """Wraps the hub's set, and counts changes of what is waited for."""

    def __init__(self, real: Any) -> None:
        self._real, self.changes = real, 0

    def modify(self, descriptor: int, events: int) -> None:
        self.changes += 1
        self._real.modify(descriptor, events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_a_short_pause_costs_no_system_call(home: Home) -> None:
    """Nothing is changed before bytes come within the pause; then they wait in the kernel, and no turn is for them."""
    (client,) = home.join(1)
    transport, recorder = home.listener.made[0].transport, home.listener.made[0]
    counted: Any = CountedSet(home.hub._epoll)
    home.hub._epoll = counted
    for _ in range(3):
        transport.pauseProducing()
        transport.resumeProducing()
        home.say(client, b"x")
        home.hub.doRead()
    assert (recorder.heard, counted.changes) == (b"xxx", 0)
    transport.pauseProducing()
    home.say(client, b"y")
    home.hub.doRead()
    home.hub.doRead()
    assert (recorder.heard, counted.changes) == (b"xxx", 1)
    assert not select.select([home.hub.fileno()], [], [], 0)[0]
    transport.resumeProducing()
    home.hub.doRead()
    assert (recorder.heard, counted.changes) == (b"xxxy", 2)


@pytest.mark.parametrize("is_pressed", [True, False])
def test_turns_go_round(home: Home, is_pressed: bool) -> None:
    """One waiting agent that takes all the time of a turn is served in each turn, and none twice."""
    if is_pressed:
        home.turns.rotation.press()  # then it is served in the turn that those who wait have in the rotation
    many = home.join(3)
    order = home.slowly(2 * CALM_STEP_SECONDS)
    home.say_much(many)
    home.hub.doRead()
    assert len(order) == (0 if is_pressed else 1)
    home.clock.advance(0)
    for count in (2, 3):
        home.turn()
        assert len(order) == count
    assert sorted(order) == [b"0", b"1", b"2"]


def test_an_agent_that_speaks_does_not_wait_for_all_that_wait(home: Home) -> None:
    """An agent that speaks is served before a hundred that wait, also while none floods."""
    *many, seldom = home.join(6)
    order = home.slowly(CALM_LOOK / 2)
    home.say_much(many)
    home.hub.doRead()
    home.say(seldom, b"s")
    home.hub.doRead()
    home.hub.doRead()
    assert len(order) <= 4 and b"s" in order


def test_an_agent_that_seldom_speaks_comes_before_those_that_wait(home: Home) -> None:
    """A seldom agent comes before three that wait, where two fill a turn; the one that has waited longest follows."""
    home.turns.rotation.press()  # turns are short then
    *many, seldom = home.join(6)
    order = home.slowly(0.6 * STEP_SECONDS)
    for number, client in enumerate(many):
        home.say(client, b"%d" % number)
    home.hub.doRead()
    assert len(order) == 2
    home.say(seldom, b"s")
    waited = list(home.hub._late)
    home.hub.doRead()
    assert (len(waited), order[2], len(order)) == (3, b"s", 4)
    assert list(home.hub._late) == waited[1:]
    home.hub.doRead()
    assert sorted(order) == [b"0", b"1", b"2", b"3", b"4", b"s"]


@pytest.mark.parametrize("is_pressed", [True, False])
def test_many_that_speak_at_once_wait_for_no_turn_in_the_rotation(home: Home, is_pressed: bool) -> None:
    """A thousand that said little are served several in a turn while one agent floods."""
    many = home.join(12)
    if is_pressed:
        home.turns.rotation.press()
    order = home.slowly(0.3 * (STEP_SECONDS if is_pressed else CALM_STEP_SECONDS))
    for client in many:
        home.say(client, b"x")
    for count in (4, 8, 12):
        home.hub.doRead()
        assert len(order) == count
    assert not home.hub._late


def test_of_agents_that_wait_none_waits_for_the_others_alone(home: Home) -> None:
    """In each turn one that has sent much, and one that is late, are served beside those that speak now."""
    heavy, late, new = home.join(3)
    order = home.slowly(2 * CALM_STEP_SECONDS)
    for name, client in ((b"h", heavy), (b"l", late)):
        home.say(client, name)
    home.listener.made[0].transport.is_heavy = True
    home.hub._late[home.listener.made[1].transport] = select.EPOLLIN
    home.say(new, b"n")
    home.hub._look()
    home.hub.doRead()
    assert order == [b"n", b"h", b"l"]


def test_of_those_that_speak_now_the_one_comes_first_that_was_served_longest_ago(home: Home) -> None:
    """Connections of the turn before come after the others, in whichever order the kernel names them."""
    home.turns.rotation.press()
    many = home.join(4)
    order: list[bytes] = []
    home.listener.on_data = lambda recorder, data: order.append(data)
    for number in (2, 0, 3, 1):
        home.say(many[number], b"%d" % number)
        home.hub.doRead()
        home.clock.advance(LOOK_MOST)
    assert order == [b"2", b"0", b"3", b"1"]
    for number in range(4):
        home.say(many[number], b"%d" % number)
    home.hub.doRead()
    assert order[4:] == [b"2", b"0", b"3", b"1"]


def test_one_who_sends_much_waits_for_those_who_send_little(home: Home) -> None:
    """An agent that sends much takes turns with all that works long."""
    home.turns.rotation.press()
    great, small = home.join(2)
    order: list[str] = []
    names = dict(zip(home.listener.made, ("great", "small"), strict=True))

    def noted(recorder: Recorder, data: bytes) -> None:
        order.append(names[recorder])
        home.clock.rightNow += 2 * STEP_SECONDS

    home.listener.on_data = noted
    home.say(great, b"x" * HEAVY)
    home.hub.doRead()
    assert [recorder.transport.is_heavy for recorder in names] == [True, False]
    order.clear()
    for client in (great, small):
        home.say(client, b"x")
    home.hub.doRead()
    assert order == ["small"]
    home.clock.advance(0)
    assert order == ["small", "great"]


def test_the_first_words_of_an_agent_are_those_of_a_stranger(home: Home) -> None:
    """The first words cost as much as a handshake, and have the turn of one while agents flood."""
    agent = home.join(1)[0]
    new = home.dial()
    home.until(lambda: new.is_trusted and home.listener.made[1].events == ["trusted"])
    home.turns.rotation.press()
    transport = home.listener.made[1].transport
    home.say(new, b"hello")
    home.say(agent, b"x")
    home.hub.doRead()
    assert (home.listener.made[0].heard, home.listener.made[1].heard, transport.is_stranger) == (b"x", b"", True)
    home.clock.advance(0)
    assert (home.listener.made[1].heard, transport.is_stranger) == (b"hello", False)
    home.say(new, b", again")
    home.hub.doRead()
    assert home.listener.made[1].heard == b"hello, again"


def test_a_look_that_took_long_does_not_put_off_the_next_one(home: Home) -> None:
    """A look may have waited for another thread, and its length is not counted for the next one."""
    home.turns.rotation.press()
    waiting, seldom = home.join(2)
    home.say(seldom, b"a")
    home.hub.doRead()
    real: Any = home.hub._epoll

    class Slow:
        def poll(self, *given: Any) -> Any:
            home.clock.advance(0.005)
            return real.poll(*given)

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    home.hub._epoll = Slow()  # type: ignore[assignment]
    home.say(waiting, b"w")
    home.listener.made[0].transport.is_heavy = True
    home.hub._look()
    assert len(home.hub._waiting) == 1
    home.say(seldom, b"s")
    home.hub.doRead()
    assert home.listener.made[1].heard == b"a"
    home.hub._waiting[home.listener.made[0].transport] = select.EPOLLIN
    home.clock.advance(LOOK_MOST)
    home.hub.doRead()
    assert home.listener.made[1].heard == b"as"


def test_agents_come_before_strangers_and_strangers_come(home: Home) -> None:
    """Three that shake hands wait for an agent; each turn takes one of them all the same."""
    agent = home.join(1)[0]
    strangers = [home.dial() for _ in range(3)]
    home.until(lambda: len(home.hub) == 4)
    order = shaking(home, strangers)
    home.listener.on_data = lambda recorder, data: (order.append("agent"), home.clock.advance(2 * CALM_STEP_SECONDS))
    home.say(agent, b"x")
    home.hub.doRead()
    assert order == ["agent", "stranger"]
    home.until(lambda: all(stranger.is_trusted for stranger in strangers))


def test_while_agents_flood_strangers_have_a_turn_among_all_that_works_long(home: Home) -> None:
    """One handshake or one accept is done in a turn, by turns: the others of the rotation come between."""
    agent = home.join(1)[0]
    strangers = [home.dial() for _ in range(3)]
    home.until(lambda: len(home.hub) == 4)
    home.turns.rotation.press()
    order = shaking(home, strangers)
    home.say(agent, b"x")
    for _ in range(2):
        home.dial()
    rotation = home.turns.rotation
    for _ in range(2):
        rotation.soon(lambda: order.append("another"))
    home.hub.doRead()
    assert order == ["agent"]
    counts = []
    for _ in range(4):
        home.clock.advance(0)
        counts.append((order.count("stranger"), len(home.hub)))
        rotation.press()
        home.hub.doRead()
    assert order[:4] == ["agent", "another", "another", "stranger"]
    assert counts == [(1, 4), (1, 5), (2, 5), (2, 6)]
    home.until(lambda: len(home.hub) == 6 and all(stranger.is_trusted for stranger in strangers))


def shaking(home: Home, strangers: list[Client]) -> list[str]:
    """Have strangers begin their handshakes. Returns a list that fills with those who are served."""
    order: list[str] = []
    home.listener.on_data = lambda recorder, data: order.append("agent")
    for stranger in strangers:
        stranger.step()
    served = home.hub._serve

    def noting(transport: Any, event: int) -> None:
        if not transport.is_trusted:
            order.append("stranger")
        served(transport, event)

    home.hub._serve = noting  # type: ignore[method-assign]
    return order


def test_a_flood_of_connections_comes_a_few_in_a_turn(home: Home) -> None:
    """Each costs half a millisecond before its first byte (F55)."""
    for _ in range(2 * ACCEPTS + 1):
        home.dial()
    counts = []
    while len(home.hub) < 2 * ACCEPTS + 1:
        assert select.select([home.hub.fileno()], [], [], 30)[0]
        home.hub.doRead()
        counts.append(len(home.hub))
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) == ACCEPTS


def test_no_room(home: Home) -> None:
    """One for whom the listener has no place is closed at once, and the others are served."""
    agent = home.join(1)[0]
    home.listener.full = True
    stranger = home.dial()
    home.until(lambda: stranger.has_ended)
    home.say(agent, b"still here")
    home.until(lambda: home.listener.made[0].heard == b"still here")
    assert len(home.hub) == 1


def test_without_descriptors(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """With EMFILE none is accepted for a second, and the hub does not spin; connected agents go on."""
    agent = home.join(1)[0]
    real, tries = home.port.socket, []

    class Short:
        def accept(self) -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise OSError(errno.EMFILE, "Too many open files")
            return real.accept()

    monkeypatch.setattr(home.port, "socket", Short())
    waiting = home.dial()
    assert select.select([home.hub.fileno()], [], [], 30)[0]
    home.hub.doRead()
    assert (len(tries), select.select([home.hub.fileno()], [], [], 0)[0]) == (1, [])
    home.say(agent, b"x")
    home.until(lambda: home.listener.made[0].heard == b"x")
    home.clock.advance(REST_SECONDS)
    home.until(lambda: waiting.is_trusted)
    monkeypatch.undo()


def test_a_fault_ends_one_connection(home: Home) -> None:
    """A fault in a protocol of ours is logged there, ends its connection, and the others don't notice."""
    bad, good = home.join(2)

    def faulty(recorder: Recorder, data: bytes) -> None:
        if data == b"bad":
            raise RuntimeError("a fault of a protocol")

    home.listener.on_data = faulty
    home.say(bad, b"bad")
    home.until(lambda: bad.has_ended)
    home.say(good, b"good")
    home.until(lambda: home.listener.made[1].heard == b"good")
    assert home.listener.made[0].events == ["trusted", "lost: ConnectionAborted"]


def test_a_connection_that_cannot_be_begun(home: Home) -> None:
    """A connection that cannot be begun, for want of memory for instance, is closed; others are served as before."""
    agent = home.join(1)[0]
    real, tries = home.hub._creator, []

    class Short:
        def serverConnectionForTLS(self, transport: Any) -> Any:
            tries.append(1)
            if len(tries) == 1:
                raise MemoryError
            return real.serverConnectionForTLS(transport)

    home.hub._creator = Short()
    unlucky = home.dial()
    home.until(lambda: unlucky.has_ended)
    home.say(agent, b"still here")
    home.until(lambda: home.listener.made[0].heard == b"still here")
    later = home.dial()
    home.until(lambda: later.is_trusted)
    assert (len(tries), len(home.hub)) == (2, 2)


def test_the_end_of_the_port(home: Home) -> None:
    """Nobody is let in; who is connected stays; with the last of them the hub leaves the reactor."""
    agent = home.join(1)[0]
    assert home.clock.readers == {home.hub}
    home.hub.stopListening()
    with pytest.raises(OSError):
        home.dial()
    home.say(agent, b"x")
    home.until(lambda: home.listener.made[0].heard == b"x")
    agent.socket.close()
    home.until(lambda: home.hub.fileno() == -1)
    assert home.clock.readers == set()
    assert home.listener.made[0].events == ["trusted", "lost: ConnectionLost"]


def test_the_end_of_the_reactor(home: Home) -> None:
    """Everybody is told at once at the end of the reactor: there are no turns any more."""
    home.join(2)
    home.hub.connectionLost(None)
    assert [recorder.events for recorder in home.listener.made] == [["trusted", "lost: ConnectionAborted"]] * 2
    assert (home.clock.readers, len(home.hub)) == (set(), 0)


def test_many_ends_are_told_in_several_turns(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends are told as far as a turn's time goes; nobody is let in meanwhile, and a fault with one is of that one."""
    home.join(12)
    told, turns, later = list[int](), list[int](), list[Callable[[], None]]()

    def lose(number: int) -> None:
        told.append(number)
        home.clock.rightNow += LONG_SLICE / 2.5
        if number == 1:
            raise RuntimeError("a fault of a protocol")

    with monkeypatch.context() as patch:
        patch.setattr(home.clock, "callLater", lambda seconds, function: later.append(function) or function)
        for number, recorder in enumerate(home.listener.made):
            recorder.connectionLost = lambda reason, number=number: lose(number)
            recorder.transport.abortConnection()
        newcomer = home.dial()
        while later:
            home.hub.doRead()
            assert len(home.listener.made) == 12
            later.pop()()
            turns.append(len(told))
    assert (turns, told) == ([3, 6, 9, 12], list(range(12)))
    home.until(lambda: newcomer.is_trusted)


def test_ends_that_nobody_was_told_of_before_the_reactor_ended(home: Home) -> None:
    home.join(2)
    home.listener.made[0].transport.abortConnection()
    home.hub.connectionLost(None)
    assert [recorder.events for recorder in home.listener.made] == [["trusted", "lost: ConnectionAborted"]] * 2
    assert home.clock.getDelayedCalls() == []


def sockets() -> set[str]:
    """Return the open sockets of this process by the kernel's names, as descriptors of other tests come and go."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {each for each in found if each.startswith("socket:")}


def test_nothing_is_left_of_many_ends(home: Home) -> None:
    """Connections that end anywhere: descriptors, tables and protocols are as before. bench/cuts.py makes 10,000."""
    chance = random.Random(7)
    home.join(1)[0].socket.close()
    home.until(lambda: len(home.hub) == 0)
    home.clients.clear()
    gc.collect()
    before = sockets()
    for number in range(60):
        client = home.dial()
        stream = b""
        if number % 3 == 1:
            stream = client.hello()
        elif number % 3 == 2:
            home.until(lambda: home.clients[-1].is_trusted)
            client.say(b"some bytes of a line")
            stream = client.records()
        client.put(stream[: chance.randrange(len(stream) + 1)])
        (client.reset if number % 2 else client.socket.close)()
    home.until(lambda: len(home.listener.made) == 61 and len(home.hub) == 0)
    home.clock.advance(0)
    lost = [[str(event).partition(":")[0] for event in each.events].count("lost") for each in home.listener.made]
    assert lost == [1] * 61
    home.clients.clear()
    gc.collect()
    assert sockets() - before == set()
    assert (home.hub._events, home.hub._strangers, home.hub._waiting, list(home.hub._new)) == ({}, {}, {}, [])
    assert home.hub._late == {}
