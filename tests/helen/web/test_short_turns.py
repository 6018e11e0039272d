"""Tests that long work takes turns of a few milliseconds, by a clock that each step moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, Cooperator

from helen.web.connections import short_turns
from helen.web.connections.short_turns import TURN_SECONDS, budget, take_turns


class Works:
    """Do steps that take some seconds of a clock, and note the turn of the reactor of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
        self.clock, self.now, self.cost, self.turn = Clock(), 0.0, cost, 0
        self.steps_of: dict[int, int] = {}
        made = Cooperator(lambda: budget(lambda: self.now), lambda step: self.clock.callLater(1.0, step))
        monkeypatch.setattr(short_turns, "_cooperator", made)

    def steps(self, number: int) -> Iterator[None]:
        for _ in range(number):
            self.now += self.cost
            self.steps_of[self.turn] = self.steps_of.get(self.turn, 0) + 1
            yield

    def run(self, *numbers: int) -> list[int]:
        """Take so many steps, of as many works at one time; return how many each turn of the reactor took."""
        done = [Deferred.fromCoroutine(take_turns(self.steps(number))) for number in numbers]
        for self.turn in range(1_000):
            self.clock.advance(1.0)
        assert all(each.called for each in done)
        return list(self.steps_of.values())


@pytest.mark.parametrize(("cost", "a_turn"), [(0.3 * TURN_SECONDS, 4), (1.1 * TURN_SECONDS, 1), (5 * TURN_SECONDS, 1)])
def test_a_turn_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch, cost: float, a_turn: int) -> None:
    """A turn ends with its budget, which all waiting works share."""
    assert set(Works(monkeypatch, cost).run(8, 8, 8)) == {a_turn}


def test_a_turn_and_a_step_are_shorter_than_what_a_page_may_hold_the_reactor() -> None:
    """A turn with a last step is shorter than 5 ms, even on a slow machine."""
    assert TURN_SECONDS + short_turns.ROWS_A_STEP * 40e-6 <= 0.005
