"""Test tunnels between a Helen and an agent in memory: turns, slow readers, both ways of ending, and the bytes that are
held.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.tunnel_end import FULL, WINDOW
from equus_protocol.tunnel_streams import TunnelStream, TunnelStreams
from equus_protocol.tunnels import MAX_FRAME


class Local:
    """Stand in for a local side, and keep all that it is told."""

    def __init__(self) -> None:
        self.came = bytearray()
        self.is_paused = self.is_lost = False

    def write(self, data: bytes) -> None:
        self.came += data

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False

    def loseConnection(self) -> None:
        self.is_lost = True


class Side:
    """Play one side of the connection with its tunnels, and take the reactor's turns by hand."""

    def __init__(self, role: Role) -> None:
        self.conversation = Conversation(role)
        self.out: list[bytes] = []
        self.said: list[m.Message] = []
        self.takes = True  # the connection takes bytes
        self.soon: list[Callable[[], None]] = []
        self.streams = TunnelStreams(self.conversation, self.say, lambda: self.takes, self.soon.append)

    def say(self, message: m.Message) -> None:
        self.out.append(self.conversation.send(message))
        self.said.append(message)

    def turn(self) -> None:
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()


class Stage:
    """Hold both sides of tunnels; `run` lets them take turns until nothing moves."""

    def __init__(self) -> None:
        self.helen, self.agent = Side(Role.HELEN), Side(Role.EQUUS)
        self.opened: list[TunnelStream] = []
        self.agent.say(m.Hello(2, "kit"))
        self.run()
        self.helen.say(m.Schedule(1, b"[]"))
        self.run()

    def run(self, turns: int = 10_000) -> None:
        for _ in range(turns):
            if not (self.helen.out or self.agent.out or self.helen.soon or self.agent.soon):
                return
            for one, other in ((self.helen, self.agent), (self.agent, self.helen)):
                one.turn()
                data, one.out[:] = b"".join(one.out), []
                other.conversation.feed(data)
                while (message := other.conversation.next_message()) is not None:
                    if isinstance(message, m.Tunnel):
                        self.opened.append(other.streams.add(message.message_id))
                    elif isinstance(message, m.Bytes | m.Window | m.Close):
                        other.streams.heard(message)

    def open(self, number: int = 7) -> tuple[TunnelStream, TunnelStream, Local, Local]:
        """Open a tunnel, and return Helen's and the agent's stream, and their local sides."""
        self.helen.say(m.Tunnel(number, "ssh", 0, b"{}"))
        ours, locals_ = self.helen.streams.add(number), (Local(), Local())
        ours.on_open = lambda: ours.attach(locals_[0])
        self.run()
        self.opened[-1].attach(locals_[1])
        self.run()
        assert ours.is_open
        return ours, self.opened[-1], *locals_


def test_bytes_go_both_ways() -> None:
    """More than a window in each direction arrives whole, and is counted."""
    stage = Stage()
    ours, theirs, here, there = stage.open()
    up, down = bytes(range(256)) * 3_000, b"down" * 200_000
    ours.read(up)
    theirs.read(down)
    stage.run()
    assert (bytes(there.came), bytes(here.came)) == (up, down)
    assert (ours.sent, ours.received) == (theirs.received, theirs.sent) == (len(up), len(down))


def test_a_reader_that_is_slow_stops_the_other_side_and_goes_on() -> None:
    """A choked stream has at most a window on the way, and the local side that writes is paused until it goes on."""
    stage = Stage()
    ours, theirs, here, there = stage.open()
    ours.choke()
    total = 0
    while not there.is_paused:
        theirs.read(bytes(65_536))
        total += 65_536
        stage.run()
        assert total <= WINDOW + FULL + 65_536
    assert len(here.came) == WINDOW
    ours.unchoke()
    stage.run()
    assert not there.is_paused
    assert len(here.came) == total


def test_a_connection_that_is_full_gets_nothing_more() -> None:
    """No frame is sent while the connection holds bytes, and the frames go when it is woken."""
    stage = Stage()
    _, theirs, here, _ = stage.open()
    stage.agent.takes = False
    theirs.read(b"waits")
    stage.run()
    assert here.came == b""
    stage.agent.takes = True
    stage.agent.streams.wake()
    stage.run()
    assert here.came == b"waits"


def test_tunnels_take_turns() -> None:
    """A tunnel with much to send gives way after each message, and other messages go between two."""
    stage = Stage()
    (_, much, _, _), (_, little, _, _) = stage.open(7), stage.open(8)
    stage.agent.said.clear()
    much.read(bytes(3 * MAX_FRAME))
    little.read(b"x")
    stage.agent.turn()
    stage.agent.say(m.Ping(1))
    stage.run()
    words = [(type(each), getattr(each, "message_id", 0)) for each in stage.agent.said]
    assert words == [(m.Bytes, 7), (m.Bytes, 8), (m.Ping, 1), (m.Bytes, 7), (m.Bytes, 7)]


def test_when_a_connection_fills_up_in_the_middle_of_a_turn_the_others_are_first_next_time() -> None:
    """A connection that fills up in a turn begins the next turn with the tunnels that had none."""
    stage = Stage()
    (_, one, _, _), (_, other, _, _) = stage.open(7), stage.open(8)
    stage.agent.said.clear()
    one.read(bytes(2 * MAX_FRAME))
    other.read(bytes(2 * MAX_FRAME))
    room = iter([True, False, True, False, True, False, True, False])
    stage.agent.streams._may_send = lambda: next(room, True)
    for _ in range(4):
        stage.agent.streams.wake()
        stage.agent.turn()
    assert [each.message_id for each in stage.agent.said if isinstance(each, m.Bytes)] == [7, 8, 7, 8]


@pytest.mark.parametrize("ends", ["helen", "agent"])
def test_a_stream_that_ends_is_sent_to_its_end(ends: str) -> None:
    """Bytes that were read before an end arrive, then both sides close, and the id is free."""
    stage = Stage()
    ours, theirs, here, there = stage.open()
    reasons: list[str] = []
    ours.on_end = theirs.on_end = reasons.append
    one, other = (ours, there) if ends == "helen" else (theirs, here)
    one.read(b"x" * 300_000)
    one.ended()
    stage.run()
    assert len(other.came) == 300_000
    assert other.is_lost
    assert reasons == ["done", "done"]
    assert not stage.helen.conversation.tunnels.open
    assert not stage.agent.conversation.tunnels.open
    assert (len(stage.helen.streams), len(stage.agent.streams)) == (0, 0)
    stage.open(7)


def test_both_sides_close_at_once() -> None:
    """Both sides may close at once: each hears the other's close, and the bytes that were not sent are lost."""
    stage = Stage()
    ours, theirs, here, there = stage.open()
    theirs.read(b"lost")
    ours.close("cut")
    theirs.close("changed")
    stage.run()
    assert here.is_lost and there.is_lost
    assert (len(stage.helen.streams), len(stage.agent.streams)) == (0, 0)


def test_a_tunnel_that_is_refused() -> None:
    """A refused tunnel has the agent's reason, and a local side that is attached later ends at once."""
    stage = Stage()
    stage.helen.say(m.Tunnel(3, "ssh", 0, b"{}"))
    ours, reasons = stage.helen.streams.add(3), []
    ours.on_end = reasons.append
    stage.run()
    stage.opened[-1].close("denied")
    stage.run()
    late = Local()
    ours.attach(late)
    ours.read(b"late")
    assert (reasons, late.is_lost, ours.is_open, ours.step()) == (["denied"], True, False, False)


def test_a_lost_connection_ends_all() -> None:
    """A lost connection ends all streams: each hears it once, and nothing is sent."""
    stage = Stage()
    (one, _, here, _), (other, _, _, _) = stage.open(7), stage.open(8)
    reasons: list[str] = []
    one.on_end = other.on_end = reasons.append
    stage.helen.said.clear()
    stage.helen.streams.over()
    stage.helen.streams.over()
    assert (reasons, stage.helen.said, here.is_lost) == (["connection-lost"] * 2, [], True)


def test_closing_all_says_why() -> None:
    """Closing all tunnels sends the reason for each."""
    stage = Stage()
    stage.open(7)
    stage.open(8)
    stage.agent.said.clear()
    stage.agent.streams.close_all("changed")
    stage.run()
    assert stage.agent.said == [m.Close(7, "changed"), m.Close(8, "changed")]
    assert len(stage.helen.streams) == 0
