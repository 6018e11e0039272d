"""Test silent sockets by the thousand, and links that end at any byte."""

from __future__ import annotations

from pathlib import Path

import pytest
import session_stage
from helen_parts import Notebook, Peer, Transport
from journal_running import Running
from journal_running import blob as result
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from equus_protocol import messages as m
from helen.journal.values import Entry
from helen.sessions.connection import AgentConnection
from helen.sessions.deadlines import HANDSHAKE_SECONDS, HELLO_SECONDS
from helen.sessions.listener import TICK_SECONDS, AgentListener
from helen.sessions.open_connections import OpenConnections

# ---------------------------------------------------------------------------------------------- silence


class Owner(Notebook):
    """Stand in for Helen as the owner of connections, and count them as Helen does."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.connections = OpenConnections()

    def arrived(self, connection: AgentConnection) -> None:
        self.connections.add(connection)

    def gone(self, connection: AgentConnection) -> None:
        self.connections.remove(connection)


@pytest.mark.adversary(45)
@pytest.mark.parametrize(("encrypted", "seconds"), [(True, HANDSHAKE_SECONDS), (False, HELLO_SECONDS)])
def test_two_thousand_silent_sockets(clock: Clock, encrypted: bool, seconds: float) -> None:
    """Two thousand silent sockets are closed at their deadline and none before, and an agent among them notices
    nothing.
    """
    owner = Owner(clock)
    listener = AgentListener(clock, owner, owner.connections, encrypted=encrypted)
    agent = Peer(owner, clock, "honest").hello()
    listener.startFactory()
    silent = []
    for n in range(2_000):
        address = IPv4Address("TCP", f"192.0.{n % 20}.{n // 20 % 10}", 5)
        connection = listener.buildProtocol(address)
        assert connection is not None
        connection.makeConnection(Transport(peerAddress=address))
        silent.append(connection)
    assert owner.connections.turned_away == 0
    waited = 0.0
    while waited + TICK_SECONDS < seconds:
        clock.advance(TICK_SECONDS)
        waited += TICK_SECONDS
        if not encrypted:
            for dripping in silent[::2]:
                dripping.dataReceived(b"h")
    assert {connection.transport.ended for connection in silent} == {None}
    agent.conversation.speaks_v2 = True
    agent.say(report := m.Report("s", 1, "cpu", result()))
    clock.advance(2 * TICK_SECONDS)
    assert {connection.transport.ended for connection in silent} == {"aborted" if encrypted else "lost"}
    assert (agent.transport.ended, owner.events.count(report)) == (None, 1)
    listener.stopFactory()


# ---------------------------------------------------------------------------------------------- cuts


class OnDisk(session_stage.FakeJournal):
    """Run the real journal under the sessions of the stage: `fsync` waits for its threads and reports their batches."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.running = Running(folder).open()
        self.asked, self.told = 0, 0

    def append(self, entry: Entry) -> bool:
        self.asked += 1
        return self.running.journal.append(entry)

    def fsync(self) -> None:
        if self.asked:
            self.running.until(lambda: len(self.running.batches) > self.told)
        self.asked = 0
        batches = self.running.batches[self.told :]
        self.told += len(batches)
        for batch in batches:
            self.house.results.on_durable(batch)


class Agent:
    """Play the agent's end: it numbers its results, and forgets one only for an ack that it has heard."""

    def __init__(self, home: session_stage.Home) -> None:
        self.home, self.acked = home, 0

    def connect(self) -> Peer:
        peer = Peer(self.home.house, self.home.clock).hello()
        peer.conversation.speaks_v2 = True
        self.home.turn()
        peer.hear()
        return peer

    def said(self, peer: Peer) -> bytes:
        """Return the three results that are not acknowledged, as bytes."""
        reports = (m.Report("s", self.acked + n, "cpu", result(took=n)) for n in (1, 2, 3))
        return b"".join(peer.conversation.send(report) for report in reports)

    def hear(self, data: bytes) -> None:
        """Take the acks of whole lines; what was cut says nothing."""
        for line in data.split(b"\n")[:-1]:
            if line.startswith(b"ack s "):
                self.acked = max(self.acked, int(line.split()[2]))


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDisk:
    made = OnDisk(tmp_path)
    monkeypatch.setattr(session_stage, "FakeJournal", lambda: made)
    return made


@pytest.mark.adversary(50)
def test_a_link_that_is_cut_at_every_byte(disk: OnDisk, clock: Clock) -> None:
    """Each acknowledged result is on disk once, whichever byte is the last that either end hears."""
    home = session_stage.Home(clock)
    agent = Agent(home)
    heard_at_most, cuts = len(b"ack s 1000\n"), 0
    for is_ours in (True, False):
        at = 0
        while True:
            peer = agent.connect()
            data = agent.said(peer)
            end = len(data) if is_ours else heard_at_most
            peer.raw(data[:at] if is_ours else data)
            home.turn()
            disk.fsync()
            home.turn()
            answer = peer.transport.value()
            agent.hear(answer if is_ours else answer[:at])
            peer.connection.connectionLost(None)
            cuts += 1
            if at > end:
                break
            at += 1
    assert cuts > 200
    peer = agent.connect()
    peer.raw(agent.said(peer))
    home.turn()
    disk.fsync()
    disk.running.journal.close()
    sealed = Running(disk.running.state).open()  # a start puts what was left into a segment
    sealed.journal.close()
    numbers = [row["sequence"] for row in sealed.rows()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= agent.acked > 100
