"""Tests that durable groups reach the caller's thread in order, a slice in each of its turns, acknowledgements
first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from journal_running import entry

from helen.journal.hand_over import ACKS_OF_A_BATCH, HandOver
from helen.journal.intake import Queued
from helen.journal.values import Ack, Batch


class Turns:
    """Play the caller's thread: its calls wait for `turn`, and each step takes `cost` seconds of its clock."""

    def __init__(self, cost: float) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.later: deque[Callable[[], None]] = deque()
        self.now, self.cost = 0.0, cost
        self.taken: list[int | str] = []
        self.broken: set[int] = set()
        self.is_closing = self.is_pressed = False
        self.made = HandOver(
            self.calls.append, self.acked, self.digest, lambda: self.is_closing, self.later.append, lambda: self.now,
            is_pressed=lambda: self.is_pressed,
        )  # fmt: skip

    def acked(self, batch: Batch) -> None:
        self.now += self.cost
        self.taken.append(f"{batch.acks[0].sequence} to {batch.acks[-1].sequence}")

    def digest(self, waiting: deque[Queued]) -> None:
        self.now += self.cost
        number = waiting.popleft().at
        self.taken.append(number)
        if number in self.broken:
            raise ValueError(number)

    def send(self, *numbers: int) -> None:
        self.made.records([Queued(b"", 0, number, entry(number), number) for number in numbers])

    def acks(self, *numbers: int) -> None:
        self.made.acks([Ack("web-1", "s", number) for number in numbers])

    def turn(self) -> list[int | str]:
        """Do one turn, and return what was handed over in it."""
        before = len(self.taken)
        (self.calls or self.later).popleft()()
        return self.taken[before:]

    @property
    def waits(self) -> bool:
        return bool(self.calls or self.later)


@pytest.mark.parametrize(
    ("cost", "turns"),
    [
        (0.0001, [[1, 2, 3, 4, 5], [6, 7]]),
        (0.0002, [[1, 2, 3], [4, 5, 6], [7]]),
        (0.003, [[1], [2], [3], [4], [5], [6], [7]]),
    ],
)
def test_a_slice_in_each_turn(cost: float, turns: list[list[int]]) -> None:
    """Each turn takes at least one step, in order and within its time; no call is left after the last record."""
    one = Turns(cost)
    one.send(1, 2, 3, 4, 5, 6, 7)
    assert (len(one.calls), len(one.later)) == (1, 0)
    for turn in turns:
        assert one.turn() == turn
        assert len(one.calls) == 0
    assert not one.waits
    one.send(8)
    assert (one.turn(), one.waits) == ([8], False)


def test_while_agents_flood_records_wait_for_their_turn() -> None:
    """While agents flood, the turn in which the writer calls has acks alone, and records wait for a turn of the
    rotation."""
    one = Turns(0.0003)
    one.is_pressed = True
    one.send(1, 2)
    one.acks(*range(ACKS_OF_A_BATCH * 3))
    assert (len(one.calls), len(one.later)) == (1, 0)
    assert one.turn() == ["0 to 49", "50 to 99"]
    assert (len(one.calls), len(one.later)) == (0, 1)
    assert one.turn() == ["100 to 149", 1]
    assert (one.turn(), one.waits) == ([2], False)


def test_at_the_end_nothing_waits_for_its_turn() -> None:
    one = Turns(0.003)
    one.is_pressed = one.is_closing = True
    one.send(1, 2)
    assert (one.turn(), one.waits) == ([1, 2], False)


def test_acks_come_before_all_records() -> None:
    """Acks come before all records, in batches of bounded size, also those of a group that became durable later."""
    one = Turns(0.003)
    one.acks(1, 2)
    one.send(1, 2)
    assert one.turn() == ["1 to 2"]
    one.acks(*range(3, 4 + ACKS_OF_A_BATCH))
    one.send(3)
    assert [one.turn() for _ in range(5)] == [["3 to 52"], ["53 to 53"], [1], [2], [3]]
    one.acks()
    assert not one.waits


def test_a_fault_with_one_record_holds_up_no_other() -> None:
    """A fault with one record is raised to the caller, which gets the next record in its next turn."""
    one = Turns(0.0)
    one.broken = {2}
    one.send(1, 2, 3)
    with pytest.raises(ValueError, match="2"):
        one.turn()
    assert one.turn() == [3]
    assert not one.waits


def test_a_fault_with_acks_while_agents_flood_holds_up_nothing() -> None:
    """A fault with acks while agents flood is raised, and the records are handed over in the next turn."""
    one = Turns(0.0003)
    one.is_pressed = True
    one.acked = one.made._on_durable = lambda batch: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    one.send(1)
    one.acks(1)
    with pytest.raises(ZeroDivisionError):
        one.turn()
    assert (one.turn(), one.waits) == ([1], False)


def test_all_at_the_end() -> None:
    """A journal that closes hands over all acks and records in one turn, and nothing waits after it."""
    one = Turns(0.003)
    one.send(1, 2, 3)
    one.acks(1)
    one.is_closing = True
    assert one.turn() == ["1 to 1", 1, 2, 3]
    assert not one.waits
