"""Tests calls that wait for the end of a task: each is answered once, in time, and nothing is left of it."""

from __future__ import annotations

import attrs
import pytest

from zerotask import errors
from zerotask.broker import broker_state, waiters
from zerotask.broker.waiters import Waiters
from zerotask.errors import RpcError


@attrs.define
class Task:
    """Stands for a task, of which the id is looked at."""

    id: str


@attrs.define
class Notice:
    """Stands for the notice of its end."""

    task: Task


@pytest.fixture
def log() -> list[str]:
    return []


def add(held: Waiters, log: list[str], task: str, until: float, name: str) -> waiters.Waiter:
    return held.add(task, until, lambda notice: log.append(f"{name} ended"), lambda: log.append(f"{name} late"))


def test_each_waits_until_its_time(log: list[str]) -> None:
    held = Waiters()
    for task, until, name in (("t", 3.0, "c"), ("t", 1.0, "a"), ("u", 2.0, "b"), ("u", 2.0, "b2")):
        add(held, log, task, until, name)
    assert len(held) == 4
    held.give_up(0.99)
    assert log == []
    held.give_up(1.0)
    assert log == ["a late"] and len(held) == 3
    held.give_up(2.5)
    assert log[1:] == ["b late", "b2 late"] and len(held) == 1
    held.ended(Notice(Task("u")))  # type: ignore[arg-type]
    held.ended(Notice(Task("t")))  # type: ignore[arg-type]
    assert log[3:] == ["c ended"]


def test_what_was_answered_is_told_nothing_more(log: list[str]) -> None:
    held = Waiters()
    first, second = add(held, log, "t", 1.0, "a"), add(held, log, "t", 1.0, "b")
    assert (first.over, second.over) == (False, False)
    held.forget(first)
    held.forget(first)
    assert first.over and len(held) == 1
    held.ended(Notice(Task("t")))  # type: ignore[arg-type]
    held.forget(second)
    held.give_up(5.0)
    assert log == ["b ended"] and len(held) == 0 and not held._by_task and not held._by_time


def test_calls_for_a_task_that_is_lost_ask_at_once(log: list[str]) -> None:
    held = Waiters()
    for task, name in (("t", "a"), ("t", "b"), ("u", "c")):
        add(held, log, task, 9.0, name)
    held.lost("t")
    held.lost("unknown")
    assert log == ["a late", "b late"] and len(held) == 1
    held.give_up(10.0)
    assert log == ["a late", "b late", "c late"]


def test_the_number_of_waiting_calls_is_bounded(monkeypatch, log: list[str]) -> None:
    assert (waiters.MOST, waiters.SLACK) == (50_000, 1_000)
    monkeypatch.setattr(waiters, "MOST", 2)
    held = Waiters()
    first = add(held, log, "t", 9.0, "a")
    add(held, log, "t", 9.0, "b")
    with pytest.raises(RpcError, match="more than 2 calls are waiting") as refused:
        add(held, log, "t", 9.0, "c")
    assert refused.value.code == errors.OVERLOADED
    held.forget(first)
    add(held, log, "t", 9.0, "c")
    assert len(held) == 2


def test_answered_calls_are_cleared_out_of_the_heap(monkeypatch, log: list[str]) -> None:
    """The heap holds at most SLACK more than twice the calls that wait."""
    monkeypatch.setattr(waiters, "SLACK", 3)
    held = Waiters()
    for number in range(5):
        held.forget(add(held, log, "t", 1.0, str(number)))
        assert len(held._by_time) == number + 1
    add(held, log, "t", 9.0, "five")
    assert len(held._by_time) == 6, "6 is not more than 2 * 1 + 3, as it was 5 before"
    held.forget(add(held, log, "t", 9.0, "six"))
    assert len(held._by_time) == 7
    for number in range(2):
        held.forget(add(held, log, "t", 9.0, str(number)))
    assert len(held._by_time) == 2
    held.give_up(9.0)
    assert log == ["five late"]


def test_the_newest_owners_are_remembered_until_their_tasks_end(monkeypatch, bench) -> None:
    monkeypatch.setattr(broker_state, "OWNERS_MOST", 2)
    bench.ask("c", "client_connect", "c")
    for name in ("a", "b", "d"):
        bench.ask("c", "client_new_task", "c", "m", [], name)
    owners = bench.broker.state.owners
    assert dict(owners) == {"b": ("c", ""), "d": ("c", "")}
    bench.ask("c", "client_task_cancel", "c", "b")
    assert dict(owners) == {"d": ("c", "")}
