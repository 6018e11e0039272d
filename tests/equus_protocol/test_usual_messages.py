"""Test that reports and results whose words were read before are read in a shorter way, which gives the same for any
bytes.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equus_protocol import messages as m
from equus_protocol.codec import LENGTHS, STRINGS, Role
from equus_protocol.conversation import Conversation
from equus_protocol.errors import LocalProtocolError, RemoteProtocolError

WORDS = [b"s", b"disk", b"load"]
commands = st.sampled_from([b"report"] * 6 + [b"result"] * 6 + [b"loaded", b"ping", b"Report", b"error", b"", b"fetch"])
words = st.sampled_from([*WORDS * 4, b"", b"new", b"\xff", b"a\x01", b"w" * 256, "ü".encode(), b"disk\r"])
numbers = st.sampled_from(
    [b"1", b"2", b"3", b"7", b"0", b"01", b"-1", b"+5", b"1_0", "٣".encode(), b"", b"999999999", b"2147483647",
     b"2147483648", b"99999999999", b"1\r"]
)  # fmt: skip
blobs = st.sampled_from([b"", b"{}", b"a\nb", b"report s 1 disk 2", b"\n", b"x" * 300])
ends = st.sampled_from([b"\n"] * 8 + [b"", b"x\n", b"\r\n"])


@st.composite
def written(draw: Any) -> bytes:
    """Give a report, a result, or something near to one."""
    command, blob = draw(commands), draw(blobs)
    fields = [draw(words), draw(numbers), draw(words)] if command != b"result" else [draw(numbers), draw(words)]
    length = draw(st.sampled_from([b"%d" % len(blob)] * 8 + [b"0", b"00", b"2", b"1048577", b"-2", b"2\r", b""]))
    return b" ".join([command, *fields, length]) + b"\n" + blob + draw(ends)


def known(is_short: bool) -> Conversation:
    """Return a conversation in version 2 with three checks outstanding. With a trace everything goes the long way."""
    ours = Conversation(Role.HELEN)
    for word in WORDS:
        STRINGS[word]
    for length in range(301):
        LENGTHS[b"%d" % length]
    ours.feed(b"hello 2 kit\n")
    ours.next_message()
    ours.outstanding.update({1: "disk", 2: "load", 999_999_999: "s"})
    if not is_short:
        ours.trace_to(lambda line: None)
    return ours


def outcome(ours: Conversation, chunks: list[bytes], messages: int, octets: int) -> list[Any]:
    """Return what each turn gave, and what is known of the conversation after it."""
    found: list[Any] = []
    for chunk in chunks:
        ours.feed(chunk)
        while True:
            try:
                for message in ours.turn(messages, octets):
                    found.append(message)
            except RemoteProtocolError as failure:
                return [*found, failure.slug, failure.detail, dict(ours.outstanding)]
            found.append((ours.more, ours.unread, ours.unfinished, ours.speaks_v2, dict(ours.outstanding)))
            if not ours.more:
                break
    return found


@settings(deadline=None, max_examples=400)
@given(
    st.lists(written(), max_size=8).map(b"".join), st.lists(st.integers(0, 600), max_size=4),
    st.sampled_from([1, 2, 256]), st.sampled_from([1, 40, 262_144]),
)  # fmt: skip
def test_both_ways_give_the_same(stream: bytes, cuts: list[int], messages: int, octets: int) -> None:
    """Both ways give the same messages, faults, open requests and unread bytes, and end each turn at the same place."""
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[begin:end] for begin, end in itertools.pairwise(places)]
    assert outcome(known(True), chunks, messages, octets) == outcome(known(False), chunks, messages, octets)


def by_records(ours: Conversation, chunks: list[bytes]) -> list[Any]:
    """Return the same as `outcome`, with each chunk that is one message of known words read as a record."""
    found: list[Any] = []
    for chunk in chunks:
        message = ours.usual.take(chunk)
        if message is None:
            found += outcome(ours, [chunk], 256, 262_144)
            if isinstance(found[-1], dict):
                return found
        else:
            found += [message, *outcome(ours, [b""], 256, 262_144)]
    return found


@settings(deadline=None, max_examples=300)
@given(st.lists(written(), max_size=6))
def test_records_give_the_same(chunks: list[bytes]) -> None:
    """Records that are read by themselves give the same messages, faults and state of the conversation."""
    assert by_records(known(True), chunks) == outcome(known(False), chunks, 256, 262_144)


@pytest.mark.parametrize("name", ["disk", "new", "ü", "", "a b", "w" * 256, "\ud800"])
@pytest.mark.parametrize("message_id", [0, 1, 4, 2**31 - 1, 2**31, -1])
@pytest.mark.parametrize("state", ["free", "full", "before hello"])
def test_a_check_is_sent_the_same_way(name: str, message_id: int, state: str) -> None:
    """The short way and `send` give the same bytes or the same error, and leave the same checks outstanding."""
    found = []
    for is_short in (True, False):
        ours = Conversation(Role.HELEN) if state == "before hello" else known(True)
        if state == "full":
            ours.outstanding.update(dict.fromkeys(range(100, 161), "disk"))
        try:
            said: Any = ours.check(name, message_id, b"{}") if is_short else ours.send(m.Check(name, message_id, b"{}"))
        except LocalProtocolError as error:
            said = str(error)
        found.append((said, dict(ours.outstanding)))
    assert found[0] == found[1]


def test_every_cut_of_good_ones() -> None:
    """Good messages are read the same from any two or three pieces."""
    stream = b"report s 1 disk 2\n{}\nresult 2 load 3\na\nb\nreport s 2 load 0\n\nresult 1 disk 2\n{}\n"
    whole = outcome(known(False), [stream], 256, 262_144)
    assert [type(each) for each in whole[:4]] == [m.Report, m.Result, m.Report, m.Result]
    for cut in range(len(stream) + 1):
        parts = [stream[:cut], stream[cut : cut + 5], stream[cut + 5 :]]
        heard = [each for each in outcome(known(True), parts, 256, 262_144) if not isinstance(each, tuple)]
        assert heard == whole[:4]


def test_a_result_asked_for_in_the_middle_of_a_turn() -> None:
    """A check that is sent in the middle of a turn counts at once, so that its result may be in the same chunk."""
    ours = known(True)
    ours.feed(b"report s 1 disk 2\n{}\nresult 5 disk 2\n{}\n")
    heard = []
    for message in ours.turn():
        heard.append(message)
        if isinstance(message, m.Report):
            ours.send(m.Check("disk", 5, b""))
    assert (heard[1], 5 in ours.outstanding) == (m.Result(5, "disk", b"{}"), False)


def test_hanging_up_in_the_middle_of_a_turn() -> None:
    """After the conversation hangs up in the middle of a turn, no further message is heard."""
    ours = known(True)
    ours.feed(b"report s 1 disk 2\n{}\n" * 3)
    heard = []
    for message in ours.turn():
        heard.append(message)
        ours.hang_up()
    assert (len(heard), ours.unread) == (1, 0)


@pytest.mark.parametrize(("line", "calls"), [(b"report s %d disk 2\n{}\n", 3), (b"result %d disk 2\n{}\n", 3)])
def test_calls_of_a_message(line: bytes, calls: int) -> None:
    """Three Python functions run for each message of known words, which is what makes the way short."""
    ours = known(True)
    ours.outstanding.clear()
    ours.outstanding.update(dict.fromkeys(range(1, 101), "disk"))
    ours.feed(b"".join(line % number for number in range(1, 101)))
    counted = 0

    def count(_frame: Any, event: str, _given: Any) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        heard = list(ours.turn())
    finally:
        sys.setprofile(before)
    assert len(heard) == 100
    assert counted // 100 <= calls + 1  # a generator that goes on is a call, too
