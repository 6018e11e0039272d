"""Tests messages that wait for the wire: what is kept, in which order it goes, and the counts that must
come out even.
"""

from __future__ import annotations

import attrs
import pytest

from scale0.wire import unsent
from scale0.wire.unsent import HeldMessages, LargeFrames, Sent


@attrs.define
class Tracker:
    """Stands for what libzmq gives for a large frame."""

    done: bool = False


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (unsent.HELD_MESSAGES, unsent.HELD_BYTES, unsent.LARGE) == (10_000, 67_108_864, 65_536)
    assert (unsent.UNREAD_BYTES, unsent.LARGE_PEERS) == (67_108_864, 1_000)


def test_messages_are_kept_up_to_a_number_and_a_size(monkeypatch) -> None:
    monkeypatch.setattr(unsent, "HELD_MESSAGES", 3)
    monkeypatch.setattr(unsent, "HELD_BYTES", 10)
    held = HeldMessages()
    assert held.add(b"a", [b"123", b"4"]) and held.add(b"b", [b"56789"])
    assert not held.add(b"a", [b"12"]) and (held.count, held.bytes) == (2, 9)
    assert held.add(b"c", [b"0"]) and (held.count, held.bytes) == (3, 10)
    assert not held.add(b"c", []) and (b"c" in held, b"d" in held) == (True, False)
    held.clear()
    assert (held.count, held.bytes, b"a" in held) == (0, 0, False)


def test_each_key_is_sent_in_order_as_far_as_its_pipe_takes_it() -> None:
    held, sent = HeldMessages(), []
    for key, text in ((b"a", b"a1"), (b"b", b"b1"), (b"a", b"a2"), (b"b", b"b2"), (b"c", b"c1"), (b"c", b"c2")):
        held.add(key, [text])
    outcomes = {b"a1": Sent.OK, b"a2": Sent.FULL, b"b1": Sent.FULL, b"c1": Sent.GONE}

    def send(frames):
        sent.append(frames[0])
        return outcomes[frames[0]]

    assert held.flush(send)
    assert sent == [b"a1", b"a2", b"b1", b"c1"]
    assert (held.count, held.bytes) == (3, 6) and [key in held for key in (b"a", b"b", b"c")] == [True, True, False]
    assert not held.flush(lambda frames: Sent.FULL) and held.count == 3
    sent.clear()
    assert held.flush(lambda frames: sent.append(frames[0]) or Sent.OK)
    assert sent == [b"a2", b"b1", b"b2"] and (held.count, held.bytes, b"a" in held) == (0, 0, False)
    assert not held.flush(send)


def test_large_frames_are_counted_until_they_are_delivered() -> None:
    frames, first, second = LargeFrames(), Tracker(), Tracker()
    assert frames.waiting(b"a") == 0
    frames.add(b"a", first, 70)
    frames.add(b"a", second, 80)
    frames.add(b"b", Tracker(), 90)
    assert (frames.waiting(b"a"), frames.waiting(b"b")) == (150, 90)
    first.done = True
    assert frames.waiting(b"a") == 80
    second.done = True
    assert (frames.waiting(b"a"), frames.waiting(b"b")) == (0, 90)
    frames.clear()
    assert frames.waiting(b"b") == 0


@pytest.mark.parametrize("most, left", [(2, {b"a", b"b"}), (1, {b"a"})])
def test_peers_that_received_theirs_are_forgotten_once_there_are_many(monkeypatch, most, left) -> None:
    monkeypatch.setattr(unsent, "LARGE_PEERS", most)
    frames = LargeFrames()
    frames.add(b"a", Tracker(), 70)
    frames.add(b"b", Tracker(done=True), 70)
    frames.forget_delivered()
    assert set(frames._by_peer) == left
