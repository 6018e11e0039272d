"""Test tunnels of docs/protocol.rst: what is legal in one, and what holds of every stream through one."""

from __future__ import annotations

import random
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError
from equus_protocol.tunnel_end import FULL, WINDOW, TunnelEnd
from equus_protocol.tunnels import MAX_DESCRIPTION, MAX_FRAME, MAX_TUNNELS, MAX_WINDOW, Account


class Pair:
    """Hold a Helen and an agent after hello, and the messages that each has heard."""

    def __init__(self) -> None:
        self.ends = {role: Conversation(role) for role in Role}
        self.say(Role.EQUUS, m.Hello(2, "kit"))
        self.say(Role.HELEN, m.Schedule(1, b"[]"))

    def say(self, role: Role, message: m.Message, cuts: tuple[int, ...] = ()) -> None:
        """Send a message to the other side, which hears the same, cut anywhere."""
        data = self.ends[role].send(message)
        at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        other = self.ends[role.peer]
        for start, end in pairwise(at):
            other.feed(data[start:end])
            if end < len(data):
                assert other.next_message() is None
        assert other.next_message() == message

    def account(self, role: Role, message_id: int = 7) -> Account:
        return self.ends[role].tunnels.open[message_id]


def opened(window: int = 100, back: int = 100) -> Pair:
    """Return a pair with tunnel 7, in which the agent may send `window` bytes and Helen `back`."""
    pair = Pair()
    pair.say(Role.HELEN, m.Tunnel(7, "ssh", window, b"{}"))
    pair.say(Role.EQUUS, m.Window(7, back))
    return pair


def test_limits() -> None:
    """The limits of tunnels are those of section 8 of docs/protocol.rst."""
    assert (MAX_TUNNELS, MAX_FRAME, MAX_WINDOW, MAX_DESCRIPTION) == (16, 16_384, 1_048_576, 4_096)
    assert WINDOW <= MAX_WINDOW


ILLEGAL = [  # what it is, lines in raw bytes, the slug
    ("bytes of no tunnel", b"bytes 8 1\n", "unknown-message-id"),
    ("a window of no tunnel", b"window 8 1\n", "unknown-message-id"),
    ("a close of no tunnel", b"close 8 done\n", "unknown-message-id"),
    ("one byte more than the credit", b"bytes 7 101\n", "window-exceeded"),
    ("no bytes", b"bytes 7 0\n", "bad-int"),
    ("one byte more than a message holds", b"bytes 7 16385\n", "blob-too-large"),
    ("nothing allowed", b"window 7 0\n", "bad-int"),
    ("too much allowed", b"window 7 1048477\n", "window-exceeded"),
    ("the whole range of numbers", b"window 7 2147483647\n", "window-exceeded"),
    ("a second close", b"close 7 done\nclose 7 done\n", "unknown-message-id"),
    ("bytes after a close", b"close 7 done\nbytes 7 1\n", "unknown-message-id"),
    ("a window after a close", b"close 7 done\nwindow 7 1\n", "unknown-message-id"),
]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(("data", "slug"), [case[1:] for case in ILLEGAL], ids=[case[0] for case in ILLEGAL])
def test_what_a_peer_may_not_do_in_a_tunnel(role: Role, data: bytes, slug: str) -> None:
    """An illegal line in a tunnel is refused before a byte of its blob is kept, on both sides alike."""
    ours = opened().ends[role]
    ours.feed(data)
    with pytest.raises(RemoteProtocolError) as failure:
        while ours.next_message() is not None:
            pass
    assert failure.value.slug == slug


@pytest.mark.parametrize("message", [
    m.Bytes(8, b"x"), m.Bytes(7, b""), m.Bytes(7, b"x" * 101), m.Bytes(7, b"x" * 16_385), m.Window(7, 0),
    m.Window(7, MAX_WINDOW - 99), m.Window(8, 1), m.Close(8, "done"),
])  # fmt: skip
@pytest.mark.parametrize("role", Role)
def test_what_we_may_not_do_in_a_tunnel(role: Role, message: m.Message) -> None:
    """A wrong message in a tunnel is refused before it is sent, and changes no account."""
    pair = opened()
    with pytest.raises(LocalProtocolError):
        pair.ends[role].send(message)
    assert pair.account(role) == Account(100, 100)


def test_the_last_byte_of_the_credit_and_the_greatest_window() -> None:
    """A frame that uses the whole credit and the greatest window are legal."""
    pair = opened(window=MAX_FRAME)
    pair.say(Role.EQUUS, m.Bytes(7, b"x" * MAX_FRAME))
    pair.say(Role.HELEN, m.Window(7, MAX_WINDOW))
    assert (pair.account(Role.EQUUS).credit, pair.account(Role.HELEN).granted) == (MAX_WINDOW, MAX_WINDOW)


@pytest.mark.parametrize(("line", "slug"), [
    (b"tunnel 7 ssh 1 2\n{}\n", "unknown-message-id"),
    (b"tunnel 9 ssh 1 2\n{}\n", "unknown-message-id"),
    (b"check load 7 2\n{}\n", "unknown-message-id"),
    (b"tunnel 8 ssh 1048577 2\n", "window-exceeded"),
    (b"tunnel 8 ssh 1 4097\n", "blob-too-large"),
])  # fmt: skip
def test_what_helen_may_not_open(line: bytes, slug: str) -> None:
    """A tunnel with an id in use, or with too great a window, is refused; ids of checks and tunnels are one set."""
    pair = opened()
    pair.say(Role.HELEN, m.Check("load", 9, b"{}"))
    ours = pair.ends[Role.EQUUS]
    ours.feed(line)
    with pytest.raises(RemoteProtocolError) as failure:
        ours.next_message()
    assert failure.value.slug == slug
    for message in (m.Tunnel(7, "ssh", 1, b""), m.Tunnel(9, "ssh", 1, b""), m.Check("load", 7, b"")):
        with pytest.raises(LocalProtocolError):
            pair.ends[Role.HELEN].send(message)


def test_one_tunnel_too_many() -> None:
    """At most 16 tunnels are open, and a place is free once both sides have closed."""
    pair = Pair()
    for number in range(MAX_TUNNELS):
        pair.say(Role.HELEN, m.Tunnel(number, "ssh", 1, b""))
    one_more = m.Tunnel(99, "ssh", 1, b"")
    pair.say(Role.HELEN, m.Close(0, "done"))
    with pytest.raises(LocalProtocolError):
        pair.ends[Role.HELEN].send(one_more)
    pair.say(Role.EQUUS, m.Close(0, "done"))
    pair.say(Role.HELEN, one_more)
    agent = pair.ends[Role.EQUUS]
    agent.feed(b"tunnel 100 ssh 1 0\n\n")
    with pytest.raises(RemoteProtocolError) as failure:
        agent.next_message()
    assert failure.value.slug == "too-many-outstanding"


def test_what_was_on_the_way_when_a_tunnel_was_closed_is_no_fault() -> None:
    """Bytes and windows that crossed a close are no fault and are heard, and the id is free once both sides have
    closed.
    """
    pair = opened()
    crossed = [pair.ends[Role.EQUUS].send(message) for message in (m.Bytes(7, b"abc"), m.Window(7, 3))]
    pair.say(Role.HELEN, m.Close(7, "cut"))
    helen = pair.ends[Role.HELEN]
    helen.feed(b"".join(crossed))
    assert [helen.next_message(), helen.next_message()] == [m.Bytes(7, b"abc"), m.Window(7, 3)]
    pair.say(Role.EQUUS, m.Close(7, "done"))
    assert not helen.tunnels.open
    assert not pair.ends[Role.EQUUS].tunnels.open
    pair.say(Role.HELEN, m.Tunnel(7, "ssh", 1, b""))


@pytest.mark.parametrize("line", [b"tunnel 1 ssh 1 0\n\n", b"bytes 1 1\nx\n", b"window 1 1\n", b"close 1 done\n"])
def test_peers_of_version_1_know_no_tunnels(line: bytes) -> None:
    """A peer of version 1 refuses the words of tunnels as unknown commands."""
    agent = Conversation(Role.EQUUS)
    agent.send(m.Hello(1, "kit"))
    agent.feed(line)
    with pytest.raises(RemoteProtocolError) as failure:
        agent.next_message()
    assert failure.value.slug == "unknown-command"


# ------------------------------------------------------------------------------------------------ whole streams


class Side:
    """Play one side of a tunnel, with a stream to send and a reader that reads only now and then."""

    def __init__(self, pair: Pair, role: Role, stream: bytes, window: int) -> None:
        self.pair, self.role, self.left = pair, role, stream
        self.end = TunnelEnd(7, pair.account(role), window)
        self.window = window
        self.came = bytearray()
        self.held = 0

    def read_stream(self, size: int) -> None:
        if not self.end.is_full:
            self.end.put(self.left[:size])
            self.left = self.left[size:]

    def send(self, cuts: tuple[int, ...]) -> m.Bytes | None:
        frame = self.end.frame()
        if frame is not None:
            self.pair.say(self.role, frame, cuts)
        return frame

    def take(self) -> None:
        self.held = 0
        more = self.end.taken()
        if more is not None:
            self.pair.say(self.role, more)


@settings(max_examples=60, deadline=None, database=None)
@given(
    st.binary(max_size=3_000), st.binary(max_size=3_000), st.integers(20, 700), st.integers(20, 700),
    st.integers(0, 2**32),
)  # fmt: skip
def test_every_stream_comes_out_as_it_went_in(down: bytes, up: bytes, window: int, back: int, seed: int) -> None:
    """Every stream comes out as it went in, whatever the windows, cuts and steps are, and no credit is ever
    negative.
    """
    rng, pair = random.Random(seed), opened(window, back)
    agent, helen = Side(pair, Role.EQUUS, down, back), Side(pair, Role.HELEN, up, window)
    for _ in range(20_000):
        side = rng.choice([agent, helen])
        other = helen if side is agent else agent
        step = rng.randrange(3)
        if step == 0:
            side.read_stream(rng.randrange(1, 400))
        elif step == 1:
            frame = side.send((rng.randrange(500), rng.randrange(500)))
            if frame is not None:
                other.came += frame.blob
                other.held += len(frame.blob)
                assert other.held <= other.window
        else:
            side.take()
        for each in (agent, helen):
            account = pair.account(each.role)
            assert account.credit >= 0
            assert 0 <= account.granted <= each.window
            assert each.end.waiting < FULL + 400
        if len(agent.came) == len(up) and len(helen.came) == len(down):
            break
    assert (bytes(helen.came), bytes(agent.came)) == (down, up)


def test_a_reader_that_takes_nothing_stops_the_stream_and_costs_a_window() -> None:
    """A reader that takes nothing stops a stream of 64 MiB, and the held bytes are a window and one read."""
    pair = opened(window=WINDOW)
    end, chunk = TunnelEnd(7, pair.account(Role.EQUUS)), bytes(65_536)
    held: list[m.Message] = []
    tracemalloc.start()
    try:
        for _ in range(1_024):
            if not end.is_full:
                end.put(chunk)
            while (frame := end.frame()) is not None:
                pair.say(Role.EQUUS, frame)
                held.append(frame)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(len(each.blob) for each in held if isinstance(each, m.Bytes)) == WINDOW
    assert pair.account(Role.EQUUS).credit == 0
    assert end.waiting < FULL + len(chunk)
    assert peak < WINDOW + 4 * (FULL + len(chunk))


def test_windows_are_few() -> None:
    """A megabyte that is read at once costs eight window messages, one for each half of the window."""
    pair = opened(window=WINDOW)
    sender, reader = TunnelEnd(7, pair.account(Role.EQUUS)), TunnelEnd(7, pair.account(Role.HELEN))
    windows = 0
    for _ in range(64):
        sender.put(bytes(MAX_FRAME))
        frame = sender.frame()
        assert frame is not None
        pair.say(Role.EQUUS, frame)
        more = reader.taken()
        if more is not None:
            windows += 1
            pair.say(Role.HELEN, more)
    assert windows == 8


def test_an_end_is_silent_once_either_side_has_closed() -> None:
    """An end sends and allows nothing once either side has closed."""
    for closer in Role:
        pair = opened(window=MAX_FRAME, back=MAX_FRAME)
        end = TunnelEnd(7, pair.account(Role.EQUUS))
        end.put(b"late")
        pair.say(closer, m.Close(7, "done"))
        assert (end.frame(), end.taken()) == (None, None)
