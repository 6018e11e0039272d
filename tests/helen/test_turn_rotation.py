"""Tests that one of those that work long has each turn of the reactor, in rotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from helen.turn_rotation import LONG_SLICE, PRESSED_SECONDS, SHORT_SLICE, TurnRotation


class Worker:
    """Works in so many turns, and asks for each of them when the one before is over."""

    def __init__(self, rotation: TurnRotation, log: list[str], name: str, turns: int) -> None:
        self.rotation, self.log, self.name, self.left = rotation, log, name, turns

    def __call__(self) -> None:
        self.log.append(self.name)
        self.left -= 1
        if self.left:
            self.rotation.soon(self)


class Turning(Clock):
    """Is a reactor that does in the next turn what is asked for in one, where `Clock` does it in the same."""

    def __init__(self) -> None:
        super().__init__()
        self.soon: list[Callable[[], Any]] = []

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        if delay:
            return super().callLater(delay, callable, *args, **kw)
        self.soon.append(lambda: callable(*args, **kw))
        return self

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for call in soon:
            call()


def turns(clock: Turning, log: list[str]) -> list[list[str]]:
    """Return the work of each turn until nothing waits any more."""
    found = []
    while clock.soon:
        before = len(log)
        clock.turn()
        found.append(log[before:])
    return found


def test_one_works_in_each_turn() -> None:
    """One works in each turn, however much each of them has; the last one has all turns that are left."""
    clock, log = Turning(), list[str]()
    rotation = TurnRotation(clock)
    for name, count in (("a", 4), ("b", 1), ("c", 2)):
        rotation.soon(Worker(rotation, log, name, count))
    assert turns(clock, log) == [["a"], ["b"], ["c"], ["a"], ["c"], ["a"], ["a"]]


def test_a_call_joins_when_it_is_time() -> None:
    clock, log = Turning(), list[str]()
    rotation = TurnRotation(clock)
    call = rotation.callLater(2.0, log.append, "late")
    rotation.callLater(0, log.append, "now")
    assert (turns(clock, log), call.active()) == ([["now"]], True)
    clock.advance(2.0)
    assert (log, call.active()) == (["now", "late"], False)
    call.cancel()  # as an answer that came too late: nothing happens
    assert clock.getDelayedCalls() == []


def test_a_call_that_is_due_waits_for_others() -> None:
    clock, log = Turning(), list[str]()
    rotation = TurnRotation(clock)
    rotation.callLater(1.0, log.append, "due")
    rotation.soon(Worker(rotation, log, "a", 1))
    clock.advance(1.0)
    assert turns(clock, log) == [["a"], ["due"]]


def test_what_is_cancelled_takes_no_turn() -> None:
    """A cancelled call takes no turn, whether it waited for its time or for its turn."""
    clock, log = Turning(), list[str]()
    rotation = TurnRotation(clock)
    calls = [rotation.callLater(seconds, log.append, "never") for seconds in (0, 1.0)]
    rotation.soon(Worker(rotation, log, "a", 1))
    for call in calls:
        call.cancel()
    assert turns(clock, log) == [["a"]]
    rotation.soon(lambda: None).cancel()
    assert turns(clock, log) == [[]]


def test_slices_are_short_while_an_agent_floods() -> None:
    """Slices stay short for a second after an agent has last sent more than a slice handles."""
    clock = Clock()
    rotation = TurnRotation(clock, clock.seconds)
    assert (rotation.slice_seconds(), rotation.is_pressed()) == (LONG_SLICE, False)
    rotation.press()
    clock.advance(PRESSED_SECONDS * 0.9)
    assert (rotation.slice_seconds(), rotation.is_pressed()) == (SHORT_SLICE, True)
    rotation.press()
    clock.advance(PRESSED_SECONDS * 0.9)
    assert rotation.slice_seconds() == SHORT_SLICE
    clock.advance(PRESSED_SECONDS * 0.2)
    assert rotation.slice_seconds() == LONG_SLICE


def test_a_fault_stops_no_other() -> None:
    clock, log = Turning(), list[str]()
    rotation = TurnRotation(clock)
    rotation.soon(lambda: 1 // 0)
    rotation.soon(Worker(rotation, log, "a", 1))
    with pytest.raises(ZeroDivisionError):
        clock.turn()
    assert turns(clock, log) == [["a"]]
