"""Tests that calls are run one after the other, however many end at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from groundwork.one_by_one import OneByOne


@pytest.fixture
def turns() -> OneByOne:
    return OneByOne()


async def refused() -> None:
    raise ValueError("refused")


def test_the_next_begins_when_the_one_before_has_ended(turns: OneByOne) -> None:
    """Calls run in their order, and each gets what its own call gives."""
    begun, told = list[Deferred[Any]](), list[Any]()

    def call() -> Deferred[Any]:
        begun.append(Deferred())
        return begun[-1]

    for _ in range(3):
        turns.run(call).addBoth(told.append)
    for number in range(3):
        assert (len(begun), told) == (number + 1, list(range(number)))
        begun[-1].callback(number)
    assert told == [0, 1, 2]


def test_one_that_ends_at_once_has_ended(turns: OneByOne) -> None:
    async def found() -> int:
        return 7

    told = list[Any]()
    turns.run(found).addCallback(told.append)
    assert told == [7]


@pytest.mark.parametrize("others", [1, 3_000])
def test_those_that_are_refused_at_once(others: int, turns: OneByOne) -> None:
    """A call that is refused at once takes nothing from those behind it, and no turn stays taken."""
    first: Deferred[None] = Deferred()
    faults, told = list[str](), list[Any]()
    turns.run(lambda: first)
    for _ in range(others):
        turns.run(refused).addErrback(lambda failure: faults.append(failure.getErrorMessage()))
    turns.run(Deferred).addBoth(told.append)
    first.callback(None)
    assert faults == ["refused"] * others
    turns._waiting.clear()
    assert (turns._is_running, told) == (True, [])  # the last has its turn, and is not done


def test_a_call_may_be_given_while_another_ends(turns: OneByOne) -> None:
    """A call that is given by a listener of another's end is next."""
    told = list[Any]()
    turns.run(refused).addErrback(lambda _: turns.run(refused).addErrback(told.append))
    assert len(told) == 1 and not turns._is_running


def test_no_package_uses_twisteds_lock() -> None:
    """No module imports DeferredLock, which recurses when many give up; OneByOne takes its place."""
    root = Path(__file__).parents[2]
    packages = ("equus", "groundwork", "helen", "scale0", "zerotask")
    files = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    imported = re.compile(r"^from twisted.*\bDeferredLock\b", re.M)
    users = [str(path.relative_to(root)) for path in files if imported.search(path.read_text())]
    assert users == []
