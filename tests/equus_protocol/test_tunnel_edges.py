"""Test tunnels at their edges: credit to the last byte, when more is allowed, and the steps of a stream."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from equus_protocol import messages as m
from equus_protocol.pieces import PIECE, join, split
from equus_protocol.tunnel_end import FULL, WINDOW, TunnelEnd
from equus_protocol.tunnel_streams import Pace, TunnelStream, TunnelStreams
from equus_protocol.tunnels import MAX_DESCRIPTION, MAX_FRAME, MAX_TUNNELS, MAX_WINDOW, Account, Tunnels


def opened(credit: int = 100, granted: int = 100) -> Tunnels:
    made = Tunnels()
    made.open[7] = Account(credit, granted)
    return made


FAULTS = [  # (kind, id, value, size, ours, slug)
    (m.Tunnel, 7, 0, 0, True, "unknown-message-id"), (m.Tunnel, 8, MAX_WINDOW, MAX_DESCRIPTION, True, None),
    (m.Tunnel, 8, 0, MAX_DESCRIPTION + 1, True, "blob-too-large"),
    (m.Tunnel, 8, MAX_WINDOW + 1, 0, False, "window-exceeded"),
    (m.Bytes, 8, 0, 1, True, "unknown-message-id"), (m.Bytes, 7, 0, 100, True, None),
    (m.Bytes, 7, 0, 101, True, "window-exceeded"),
    (m.Bytes, 7, 0, 0, True, "bad-int"), (m.Bytes, 7, 0, 200, False, None),
    (m.Bytes, 7, 0, 201, False, "window-exceeded"),
    (m.Bytes, 7, 0, MAX_FRAME + 1, True, "blob-too-large"), (m.Bytes, 7, 0, MAX_FRAME, True, "window-exceeded"),
    (m.Window, 7, MAX_WINDOW - 200, 0, True, None), (m.Window, 7, MAX_WINDOW - 199, 0, True, "window-exceeded"),
    (m.Window, 7, MAX_WINDOW - 100, 0, False, None), (m.Window, 7, MAX_WINDOW - 99, 0, False, "window-exceeded"),
    (m.Close, 7, "x", 0, True, None), (m.Close, 8, "x", 0, False, "unknown-message-id"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "number", "value", "size", "ours", "slug"), FAULTS)
def test_what_is_legal(kind: type, number: int, value: Any, size: int, ours: bool, slug: str | None) -> None:
    """Credit limits the bytes that this side sends, and the granted window those of the peer."""
    fault = opened(100, 200).fault(kind, number, value, size, ours)
    assert (None if fault is None else fault[0]) == slug


@pytest.mark.parametrize(("ours", "we", "they"), [(True, True, False), (False, False, True)])
def test_what_is_closed_by_one_side(ours: bool, we: bool, they: bool) -> None:
    """A side that has closed a tunnel sends nothing more, and the other may until it closes as well."""
    made = opened()
    made.note(m.Close(7, "x"), ours)
    assert made.open[7] == Account(100, 100, we, they)
    assert made.fault(m.Bytes, 7, 0, 1, ours) is not None and made.fault(m.Bytes, 7, 0, 1, not ours) is None
    made.note(m.Close(7, "x"), not ours)
    assert made.open == {} and Account() == Account(0, 0, False, False)


def test_accounts_follow_messages() -> None:
    """Accounts follow messages to the byte."""
    made = Tunnels()
    made.note(m.Tunnel(1, "ssh", 50, b"{}"), True)
    made.note(m.Tunnel(2, "ssh", 50, b"{}"), False)
    assert (made.open[1], made.open[2]) == (Account(0, 50), Account(50, 0))
    for message, ours in (
        (m.Window(1, 7), True),
        (m.Window(1, 9), False),
        (m.Bytes(1, b"abc"), True),
        (m.Bytes(1, b"ab"), False),
    ):
        made.note(message, ours)
    assert made.open[1] == Account(6, 55)
    for number in range(3, MAX_TUNNELS + 1):
        assert made.fault(m.Tunnel, number, 0, 0, True) is None
        made.note(m.Tunnel(number, "ssh", 0, b""), True)
    assert made.fault(m.Tunnel, 99, 0, 0, True) == ("too-many-outstanding", f"more than {MAX_TUNNELS} tunnels at once")


# ------------------------------------------------------------------------------------------------ one end


@pytest.mark.parametrize(("waiting", "credit", "sizes"), [
    (0, 9, []), (9, 0, []), (5, 9, [5]), (9, 5, [5]), (1, 1, [1]), (MAX_FRAME + 1, MAX_FRAME + 1, [MAX_FRAME, 1]),
])  # fmt: skip
def test_frames(waiting: int, credit: int, sizes: list[int]) -> None:
    """A frame has as many bytes as wait, as the credit allows, and as one message holds."""
    account = Account(credit)
    end, content = TunnelEnd(7, account), bytes(at % 251 for at in range(waiting))
    end.put(content)
    sent = b""
    for size in sizes:
        frame = end.frame()
        assert frame is not None and (frame.message_id, len(frame.blob)) == (7, size)
        account.credit -= size
        sent += frame.blob
    assert (end.frame(), sent, end.waiting) == (None, content[: len(sent)], waiting - len(sent))


@pytest.mark.parametrize(("size", "is_full"), [(FULL - 1, False), (FULL, True)])
def test_when_an_end_is_full(size: int, is_full: bool) -> None:
    """A tunnel's end is full with the bytes of four messages."""
    end = TunnelEnd(7, Account())
    end.put(b"x" * size)
    assert (end.is_full, FULL, WINDOW) == (is_full, 4 * MAX_FRAME, 262_144)


@pytest.mark.parametrize(("granted", "more"), [(0, 100), (50, 50), (51, None), (100, None), (49, 51)])
def test_when_more_is_allowed(granted: int, more: int | None) -> None:
    """More is allowed once half of the window is used up, and never after an end."""
    end = TunnelEnd(7, Account(0, granted), 100)
    assert end.taken() == (None if more is None else m.Window(7, more))
    for closed in (Account(9, 0, True, False), Account(9, 0, False, True)):
        over = TunnelEnd(7, closed, 100)
        over.put(b"x")
        assert (over.taken(), over.frame()) == (None, None)


# ------------------------------------------------------------------------------------------------ streams


class Local:
    def __init__(self) -> None:
        self.did: list[Any] = []

    def write(self, data: bytes) -> None:
        self.did.append(data)

    def pauseProducing(self) -> None:
        self.did.append("pause")

    def resumeProducing(self) -> None:
        self.did.append("resume")

    def loseConnection(self) -> None:
        self.did.append("lose")


class One:
    """Hold a stream, the messages that it sent, and how often it asked for a turn; its account follows by itself."""

    def __init__(self, credit: int = 0, granted: int = 0) -> None:
        self.tunnels = opened(credit, granted)
        self.account = self.tunnels.open[7]
        self.sent: list[Any] = []
        self.wakes = 0
        self.stream = TunnelStream(7, self.account, self._send, self._wake)
        self.ends: list[str] = []
        self.stream.on_end = self.ends.append
        self.local = Local()

    def _send(self, message: Any) -> None:
        self.sent.append(message)
        self.tunnels.note(message, True)

    def _wake(self) -> None:
        self.wakes += 1


def test_a_stream_that_is_attached_allows_the_first_bytes() -> None:
    """A stream that is attached allows the first bytes, or ends the local side if it is over."""
    one = One()
    one.stream.attach(one.local)
    assert (one.sent, one.local.did, one.stream.is_open, one.stream.is_over) == (
        [m.Window(7, WINDOW)],
        [],
        False,
        False,
    )
    one.stream.close("x")
    late = Local()
    one.stream.attach(late)
    assert (late.did, one.local.did, one.ends, one.sent[1:]) == (["lose"], ["lose"], ["x"], [m.Close(7, "x")])
    one.stream.close("y")
    one.stream.finish("z")
    assert (one.ends, len(one.sent)) == (["x"], 2)


def test_a_local_side_that_is_quicker_is_paused_once() -> None:
    """A local side that is quicker is paused once, until the end is not full any more."""
    one = One(credit=MAX_FRAME + 10)
    one.stream.attach(one.local)
    one.stream.read(b"x" * (FULL - 1))
    assert (one.local.did, one.wakes) == ([], 1)
    one.stream.read(b"x")
    one.stream.read(b"x")
    assert (one.local.did, one.wakes) == (["pause"], 3)
    assert one.stream.step() is True
    assert (one.local.did, one.stream.sent) == (["pause", "resume"], MAX_FRAME)
    assert one.stream.step() is False
    assert (one.stream.sent, one.account.credit) == (MAX_FRAME + 10, 0)


def test_what_waits_is_sent_before_the_end() -> None:
    """The end of the local side closes the tunnel once no byte waits, and waits itself without credit."""
    one = One(credit=3)
    one.stream.read(b"abcde")
    one.stream.ended()
    assert (one.stream.step(), one.stream.is_over, one.wakes) == (False, False, 2)
    one.account.credit += 9
    assert (one.stream.step(), one.stream.is_over, one.ends) == (False, True, ["done"])
    assert one.sent == [m.Bytes(7, b"abc"), m.Bytes(7, b"de"), m.Close(7, "done")]
    assert one.stream.step() is False
    one.stream.read(b"late")
    assert (len(one.sent), one.stream._end.waiting) == (3, 0)


def test_a_side_that_takes_nothing_allows_nothing() -> None:
    """A local side that is paused gets its bytes and allows no more until it goes on."""
    one = One(granted=WINDOW)
    one.stream.attach(one.local)
    assert one.sent == []
    pace = Pace(one.stream)
    pace.pauseProducing()
    blob = b"x" * MAX_FRAME
    for _ in range(WINDOW // MAX_FRAME):
        one.tunnels.note(m.Bytes(7, blob), False)
        one.stream.heard(m.Bytes(7, blob))
    assert (one.sent, len(one.local.did), one.stream.received) == ([], 16, WINDOW)
    pace.resumeProducing()
    pace.stopProducing()
    assert one.sent == [m.Window(7, WINDOW)]
    for _ in range(8):
        one.tunnels.note(m.Bytes(7, blob), False)
        one.stream.heard(m.Bytes(7, blob))
    assert one.sent[1:] == [m.Window(7, WINDOW // 2)]


def test_the_first_window_opens_a_stream() -> None:
    """The first window opens a stream, each one asks for a turn, and after its end nothing does."""
    one, opens = One(), list[int]()
    one.stream.on_open = lambda: opens.append(one.wakes)
    for _ in range(2):
        one.stream.heard(m.Window(7, 5))
    assert (opens, one.wakes, one.stream.is_open) == ([0], 2, True)
    one.stream.heard(m.Close(7, "why"))
    assert (one.ends, one.sent) == (["why"], [m.Close(7, "why")])
    one.stream.heard(m.Window(7, 5))
    one.stream.heard(m.Bytes(7, b"x"))
    assert (one.wakes, one.stream.received) == (2, 0)


# ------------------------------------------------------------------------------------------------ all of them


class Many:
    def __init__(self, count: int) -> None:
        self.tunnels = Tunnels()
        self.sent: list[Any] = []
        self.soon: list[Callable[[], None]] = []
        self.may_send: Callable[[], bool] = lambda: True
        conversation: Any = SimpleNamespace(tunnels=self.tunnels)
        self.streams = TunnelStreams(conversation, self._send, lambda: self.may_send(), self.soon.append)
        for number in range(count):
            self.tunnels.open[number] = Account(10**6, 10**6)
            self.streams.add(number)

    def _send(self, message: Any) -> None:
        self.sent.append(message)
        self.tunnels.note(message, True)

    def turn(self) -> None:
        self.soon.pop(0)()


def test_one_turn_at_a_time() -> None:
    """One turn is scheduled however often it is asked for, and another one if there is more to send."""
    many = Many(2)
    for number in range(2):
        many.streams._streams[number].read(b"x" * (MAX_FRAME + 1))
    assert len(many.soon) == 1
    many.turn()
    assert [(each.message_id, len(each.blob)) for each in many.sent] == [(0, MAX_FRAME), (1, MAX_FRAME)]
    many.turn()
    assert [(each.message_id, len(each.blob)) for each in many.sent[2:]] == [(0, 1), (1, 1)]
    assert many.soon == []


def test_a_connection_that_fills_up_goes_on_with_those_that_had_none() -> None:
    """A connection that fills up goes on with the streams that had no turn, in their order."""
    many = Many(3)
    for number in range(3):
        many.streams._streams[number].read(b"x" * 3 * MAX_FRAME)
    many.may_send = lambda: len(many.sent) < 1
    many.turn()
    assert ([each.message_id for each in many.sent], many.soon) == ([0], [])
    many.may_send = lambda: len(many.sent) < 3
    many.streams.wake()
    many.turn()
    assert [each.message_id for each in many.sent] == [0, 1, 2]


def test_tunnels_that_are_closed_are_dropped() -> None:
    """A tunnel that both sides closed is dropped, and an unknown one is passed over."""
    many = Many(2)
    many.streams.heard(m.Close(9, "x"))
    many.tunnels.note(m.Close(0, "x"), False)
    many.streams.heard(m.Close(0, "x"))
    assert (len(many.streams), many.sent) == (1, [m.Close(0, "x")])
    many.streams.close_all("end")
    assert (many.sent[1:], len(many.streams)) == ([m.Close(1, "end")], 1)
    ends: list[str] = []
    many.streams._streams[1].on_end = ends.append
    other = Many(1)
    other.streams._streams[0].on_end = ends.append
    other.streams.over()
    assert (ends, len(other.streams), other.sent) == (["connection-lost"], 0, [])


# ------------------------------------------------------------------------------------------------ pieces


@pytest.mark.parametrize(("size", "names"), [
    (0, ["a"]), (PIECE, ["a"]), (PIECE + 1, ["a/00", "a/01"]), (2 * PIECE, ["a/00", "a/01"]),
    (2 * PIECE + 1, ["a/00", "a/01", "a/02"]),
])  # fmt: skip
def test_pieces(size: int, names: list[str]) -> None:
    """A file is split into as many pieces as it needs, and joined again."""
    content = bytes(size)
    pieces = split({"a": content})
    assert ([*pieces], join(pieces)) == (names, {"a": content})
    assert max(map(len, pieces.values())) <= PIECE


@pytest.mark.parametrize("pieces", [
    {"a/01": b"x"}, {"a/00": b"x", "a/02": b"y"}, {"a": b"x", "a/00": b"y"}, {"a/00": b"x", "a/000": b"y"},
])  # fmt: skip
def test_pieces_that_are_not_whole(pieces: dict[str, bytes]) -> None:
    """Pieces with one missing or one too many are refused."""
    with pytest.raises(ValueError, match=r"are not whole|is there twice"):
        join(pieces)
