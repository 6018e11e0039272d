"""Tests the order of work within one method, its horizon, and which tasks are announced again."""

from __future__ import annotations

import random

from zerotask.broker.ready_queue import FIRST, ReadyQueue, rank_of
from zerotask.storage.task_table import QueuedTask


def task(number: int, priority: int = 4) -> QueuedTask:
    return QueuedTask(f"t{number}", "m", priority, number, 0.0)


def queue_of(*tasks: QueuedTask) -> ReadyQueue:
    queue = ReadyQueue()
    for each in tasks:
        queue.put(each)
    return queue


def test_priority_goes_before_age_and_age_before_the_rest() -> None:
    order = [rank_of(each) for each in (task(3, 9), task(1, 5), task(2, 5), task(0, 0))]
    assert order == sorted(order, reverse=True) == [(9, -3, "t3"), (5, -1, "t1"), (5, -2, "t2"), (0, 0, "t0")]
    assert FIRST == (10, 0, "") and all(rank < FIRST for rank in order)
    fresh = ReadyQueue()
    assert (fresh.count, fresh.more, fresh.filling, fresh.horizon, fresh.late) == (0, False, False, FIRST, {})


def test_the_head_and_the_worst() -> None:
    queue = queue_of(task(2), task(1), task(5, 9), task(3, 0))
    assert queue.head(suspects=False) == (9, -5, "t5") and queue.head(suspects=True) is None
    assert queue.worst() == (0, -3, "t3") and ReadyQueue().worst() is None
    queue.take(task(5, 9))
    queue.take(task(5, 9))
    queue.take(task(9))
    assert queue.head(suspects=False) == (4, -1, "t1")
    for each in (task(3, 0), task(1), task(2)):
        queue.take(each)
    assert queue.head(suspects=False) is None and queue.worst() is None


def test_suspects_are_kept_apart() -> None:
    suspect = QueuedTask("s", "m", 9, 9, 0.0, losses=1)
    queue = queue_of(task(1), suspect)
    assert queue.head(suspects=True) == (9, -9, "s") and queue.head(suspects=False) == (4, -1, "t1")
    assert queue.worst() == (4, -1, "t1")
    queue.take(task(1))
    assert queue.worst() == (9, -9, "s") and queue.to_repeat(4) == ["s"]
    queue.take(suspect)
    assert queue.head(suspects=True) is None


def test_what_comes_behind_the_horizon_waits_outside() -> None:
    queue = queue_of(task(1), task(5))
    assert not queue.is_outside(task(9, 0))
    queue.leave_outside(rank_of(task(7)))
    assert queue.more and queue.horizon == (4, -7, "t7")
    assert queue.is_outside(task(7)) and queue.is_outside(task(8)) and not queue.is_outside(task(6))
    queue.leave_outside(rank_of(task(9)))
    assert queue.horizon == (4, -7, "t7"), "the nearest counts"
    queue.leave_outside(rank_of(task(6)))
    assert queue.horizon == (4, -6, "t6")
    queue.expect_more()
    assert queue.horizon == (4, -6, "t6")


def test_more_is_expected_behind_the_last_one_here() -> None:
    queue = queue_of(task(1), task(5))
    queue.expect_more()
    assert (queue.more, queue.horizon) == (True, (4, -5, "t5"))
    empty = ReadyQueue()
    empty.expect_more()
    assert empty.horizon == FIRST and empty.is_outside(task(1, 9))
    empty.more = False
    empty.leave_outside(rank_of(task(3)))
    assert empty.horizon == (4, -3, "t3"), "an old horizon does not count"


def test_few_tasks_are_all_announced_again_the_next_one_first() -> None:
    assert queue_of(*(task(number) for number in range(3))).to_repeat(6) == ["t0", "t1", "t2"]
    assert queue_of(*(task(number) for number in range(2))).to_repeat(4) == ["t0", "t1"]
    assert ReadyQueue().to_repeat(4) == []


def test_of_many_half_are_the_first_and_half_take_turns() -> None:
    queue = queue_of(*(task(number) for number in range(10)))
    rounds = [queue.to_repeat(4) for _ in range(6)]
    assert rounds == [
        ["t0", "t1", "t2", "t3"], ["t0", "t1", "t4", "t5"], ["t0", "t1", "t6", "t7"], ["t0", "t1", "t8", "t9"],
        ["t0", "t1", "t2", "t3"], ["t0", "t1", "t4", "t5"],
    ]  # fmt: skip
    assert [queue.to_repeat(5) for _ in range(2)] == [["t0", "t1", "t6", "t7", "t8"], ["t0", "t1", "t9"]]
    queue.take(task(0))
    assert queue.to_repeat(4) == ["t1", "t2", "t3", "t4"]


def test_each_task_is_announced_some_time_whatever_comes_and_goes() -> None:
    dice, queue = random.Random(4), queue_of(*(task(number) for number in range(100)))
    seen: set[str] = set()
    for number in range(100, 160):
        told = queue.to_repeat(8)
        assert len(told) == len(set(told)) <= 8
        seen.update(told)
        if dice.random() < 0.5:
            queue.put(task(number))
    assert {f"t{number}" for number in range(100)} <= seen
