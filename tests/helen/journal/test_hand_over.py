"""Batches reach the caller's thread in order, a slice in each of its turns; without a caller the writer waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import pytest

from helen.journal import hand_over
from helen.journal.hand_over import HandOver
from helen.journal.values import Ack, Batch


class Turns:
    """The caller's thread: its calls wait for `turn`, and each batch takes `cost` seconds of its clock."""

    def __init__(self, cost: float) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.now, self.cost = 0.0, cost
        self.taken: list[int] = []
        self.broken: set[int] = set()
        self.is_closing = False
        self.made = HandOver(self.calls.append, self.take, lambda: self.is_closing, lambda: self.now)

    def take(self, batch: Batch) -> None:
        self.now += self.cost
        [ack] = batch.acks
        self.taken.append(ack.sequence)
        if ack.sequence in self.broken:
            raise ValueError(ack.sequence)

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.made.send(Batch(acks=(Ack("web-1", "s", number),)))

    def turn(self) -> list[int]:
        """Do one turn, and return what was handed over in it."""
        before = len(self.taken)
        self.calls.popleft()()
        return self.taken[before:]


@pytest.mark.parametrize(
    ("cost", "turns"),
    [
        (0.0001, [[1, 2, 3, 4, 5], [6, 7]]),
        (0.0002, [[1, 2, 3], [4, 5, 6], [7]]),
        (0.003, [[1], [2], [3], [4], [5], [6], [7]]),
    ],
)
def test_a_slice_in_each_turn(cost: float, turns: list[list[int]]) -> None:
    """At least one batch, and in order; there is one call at a time, and none when nothing waits."""
    one = Turns(cost)
    one.send(1, 2, 3, 4, 5, 6, 7)
    assert len(one.calls) == 1
    for turn in turns:
        assert one.made.has_some
        assert one.turn() == turn
    assert (list(one.calls), one.made.has_some) == ([], False)
    one.send(8)
    assert (one.turn(), one.made.has_some) == ([8], False)


def test_a_fault_with_one_batch_holds_up_no_other() -> None:
    """The caller hears of it, and has the next one in its next turn."""
    one = Turns(0.0)
    one.broken = {2}
    one.send(1, 2, 3)
    with pytest.raises(ValueError, match="2"):
        one.turn()
    assert one.turn() == [3]
    assert not one.made.has_some


def test_all_at_the_end() -> None:
    """What follows the end of the journal in the same thread finds nothing that waits."""
    one = Turns(0.003)
    one.send(1, 2, 3)
    one.is_closing = True
    assert one.turn() == [1, 2, 3]
    assert not one.calls


def test_a_writer_waits_for_a_slow_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits has a bound, so that the backlog grows and reading stops; a journal that closes waits for nobody."""
    monkeypatch.setattr(hand_over, "MOST_WAITING", 3)
    one = Turns(0.003)
    writer = threading.Thread(target=one.send, args=range(1, 10), daemon=True)
    writer.start()
    for number in range(1, 10):
        while not one.calls:
            writer.join(0.001)
        assert one.turn() == [number]
        assert one.made.sent - number <= 4
    writer.join(60.0)
    assert not writer.is_alive()
    one.is_closing = True
    one.send(*range(10, 20))
    assert one.turn() == list(range(10, 20))
