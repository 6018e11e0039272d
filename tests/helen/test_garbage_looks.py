"""Tests that the garbage collector looks at few objects at a time, also while new ones replace as many old ones."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helen import garbage_looks
from helen.evaluation.evaluator import Evaluator
from helen.garbage_looks import LOOK_SECONDS, MIDDLE, YOUNG, GarbageLooks
from helen.interpreter import COLLECT
from helen.sessions import fair_turns
from helen.web.connections import short_turns

STATES = 30_000
AT_ONCE = 500  # that are replaced between two moments in which a look may be


class Value:
    """Is an object that the collector follows."""

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.fixture
def sizes() -> Iterator[list[int]]:
    """Yield the number of objects of each look, with the thresholds of Helen."""
    found, before = list[int](), gc.get_threshold()

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(sum(len(gc.get_objects(generation=each)) for each in range(info["generation"] + 1)))

    gc.collect()
    gc.set_threshold(*COLLECT)
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.set_threshold(*before)


def replaced(states: dict[int, Value], looks: GarbageLooks | None, clock: list[float]) -> None:
    for first in range(0, STATES, AT_ONCE):
        for number in range(first, first + AT_ONCE):
            states[number] = Value(number)
        clock[0] += LOOK_SECONDS
        if looks is not None:
            looks.look()


def test_python_alone_lets_all_wait_that_replaces_as_much(sizes: list[int]) -> None:
    """Python alone makes no look at so many new objects, so it is Helen's looks that make the next test pass."""
    states = {number: Value(number) for number in range(STATES)}
    gc.collect()
    sizes.clear()
    replaced(states, None, [0.0])
    young = len(gc.get_objects(generation=0))
    assert (sizes, young >= STATES) == ([], True)


def test_what_replaces_as_much_is_looked_at_as_it_comes(sizes: list[int]) -> None:
    states, clock = {number: Value(number) for number in range(STATES)}, [0.0]
    gc.collect()
    sizes.clear()
    replaced(states, GarbageLooks(lambda: clock[0], used=lambda: clock[0]), clock)
    assert max(sizes) <= MIDDLE + YOUNG + AT_ONCE
    assert sum(sizes) >= STATES  # each was looked at
    assert len(gc.get_objects(generation=0)) <= YOUNG + AT_ONCE


@pytest.fixture
def switching() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.00001)
    yield
    sys.setswitchinterval(before)


def test_looks_disturb_no_tuple_that_another_thread_makes(switching: None) -> None:
    """Looks disturb no such tuple; with the list of objects in a variable some would raise SystemError."""
    is_over, made, faults = threading.Event(), list[int](), list[BaseException]()

    def make() -> None:
        try:
            while not is_over.is_set():
                made.append(len(tuple(str(number) for number in range(300))))
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    looks, until = GarbageLooks(lambda: time.monotonic() * LOOK_SECONDS * 1e6), time.monotonic() + 20
    while not faults and len(made) < 1_000 and time.monotonic() < until:
        looks.look()
    is_over.set()
    thread.join()
    assert faults == []
    assert set(made) == {300}


class Collector:
    """Stands in for the module `gc`: so many objects are young, and so many have been left by one look."""

    def __init__(self, young: int, middle: int = 0, is_enabled: bool = True) -> None:
        self.of, self.is_enabled, self.looks = [young, middle], is_enabled, list[int]()

    def isenabled(self) -> bool:
        return self.is_enabled

    def get_objects(self, generation: int) -> list[None]:
        return [None] * self.of[generation]

    def collect(self, generation: int) -> None:
        self.looks.append(generation)


@pytest.mark.parametrize(
    ("collector", "looks"),
    [
        (Collector(YOUNG - 1), []),
        (Collector(YOUNG), [0]),
        (Collector(YOUNG, MIDDLE - YOUNG - 1), [0]),
        (Collector(YOUNG, MIDDLE - YOUNG), [1]),
        (Collector(MIDDLE), [1]),
        (Collector(MIDDLE, is_enabled=False), []),
    ],
)
def test_at_what_is_looked(collector: Collector, looks: list[int]) -> None:
    GarbageLooks(lambda: 1.0, collector).look()
    assert collector.looks == looks


@pytest.mark.parametrize("rests", ["steady", "used"])
def test_looks_rest_between_two(rests: str) -> None:
    """A look rests by the clock and by CPU time: sleep makes no garbage, and work is looked at as often as before."""
    collector, now = Collector(YOUNG), [1.0]
    clocks: dict[str, Any] = {"steady": lambda: now[0] * 1_000, "used": lambda: now[0] * 1_000}
    looks = GarbageLooks(collector=collector, **(clocks | {rests: lambda: now[0]}))
    for now[0] in (1.0, 1.0 + LOOK_SECONDS / 2, 1.0 + LOOK_SECONDS, 1.0 + 1.5 * LOOK_SECONDS):
        looks.look()
    assert collector.looks == [0, 0]


def test_whoever_works_in_turns_asks_for_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker in turns asks for a look at the begin of each turn, within the time that the turn has."""
    asked = list[str]()
    monkeypatch.setattr(garbage_looks, "look", lambda: asked.append("look"))
    turns = fair_turns.FairTurns(None, lambda: float(len(asked)))
    is_over = turns._step_budget()
    assert (asked, is_over()) == (["look"], True)
    turns.begin()
    assert len(asked) == 2
    reading = fair_turns.FairTurns(None, lambda: 5.0)
    assert reading.has_time() and reading.has_time() and len(asked) == 3  # once a turn, not once a connection
    asked.clear()
    assert short_turns.budget(lambda: float(len(asked)))() and len(asked) == 1
    nothing: Any = None
    Evaluator(nothing, Path(), nothing, nothing)._work()
    assert asked == ["look"] * 2
