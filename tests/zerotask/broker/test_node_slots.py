"""Tests slots of nodes: which node is next, what it may be offered, and that each count comes out even."""

from __future__ import annotations

import pytest

from zerotask.broker.node_slots import SHARE, NodeSlots
from zerotask.tasks.task import WATCH_SECONDS


@pytest.fixture
def idle() -> list[str]:
    return []


@pytest.fixture
def slots(idle: list[str]) -> NodeSlots:
    return NodeSlots(idle.append)


def test_nodes_take_turns(slots: NodeSlots, idle: list[str]) -> None:
    for node in ("a", "b"):
        slots.add(node, ["m"], 2, [])
    assert idle == ["m", "m"] and slots.next_for("m") == "a" and slots.next_for("other") is None
    slots.take("a", "1")
    assert slots.next_for("m") == "b" and idle == ["m"] * 3
    slots.take("b", "2", "3")
    assert slots.next_for("m") == "a" and idle == ["m"] * 3
    slots.take("a", "4")
    assert slots.next_for("m") is None
    slots.free("a", "unknown")
    slots.free("unknown", "1")
    assert slots.next_for("m") is None and idle == ["m"] * 3
    slots.free("b", "2")
    assert slots.next_for("m") == "b" and idle == ["m"] * 4 and slots.tasks_of("b") == ["3"]


def test_patterns_serve_the_names_that_begin_so(slots: NodeSlots) -> None:
    slots.add("a", ["mdp:*"], 1, [])
    assert slots.next_for("mdp:x") == "a" == slots.next_for("mdp:") and slots.next_for("mdp") is None
    slots.add("b", ["mdp:x"], 1, [])
    assert slots.next_for("mdp:x") == "b" and slots.is_served("mdp:y") and not slots.is_served("m")
    slots.take("b", "1")
    assert slots.next_for("mdp:x") == "a"
    assert slots.remove("b") == {"1"} and slots.is_served("mdp:x") and slots.remove("b") == set()
    assert slots.remove("a") == set() and not slots.is_served("mdp:x") and not slots


def test_a_pattern_stays_while_one_node_has_it(slots: NodeSlots) -> None:
    for node in ("a", "b"):
        slots.add(node, ["m", "p*"], 1, [])
    slots.remove("a")
    assert slots.is_served("m") and slots.is_served("px") and slots.next_for("m") == slots.next_for("px") == "b"
    slots.take("b", "1")
    assert slots.is_served("m") and slots.is_served("px") and slots.next_for("m") is None and slots
    slots.remove("b")
    assert not slots.is_served("m") and not slots.is_served("px") and not slots


@pytest.mark.parametrize("count, held, free", [(2, 1, True), (2, 2, False), (2, 3, False), (0, 0, False)])
def test_a_node_comes_with_the_tasks_that_it_has(
    slots: NodeSlots, idle: list, count: int, held: int, free: bool
) -> None:
    slots.add("a", ["m"], count, [str(number) for number in range(held)])
    assert (slots.next_for("m") == "a") is free and bool(idle) is free
    assert slots.tasks_of("a") == [str(number) for number in range(held)] and slots.tasks_of("b") == []


def test_a_node_changes_its_size(slots: NodeSlots) -> None:
    slots.add("a", ["m"], 1, ["1"])
    slots.resize("a", 2)
    assert slots.next_for("m") == "a"
    slots.resize("a", 1)
    slots.resize("unknown", 5)
    assert slots.next_for("m") is None and slots.tasks_of("a") == ["1"]


def test_an_eighth_of_the_free_slots_is_offered_in_one_turn(slots: NodeSlots) -> None:
    assert SHARE == 8
    slots.add("a", ["m"], 17, ["1"])
    assert slots.share("a") == 2
    slots.take("a", "2")
    assert slots.share("a") == 1
    slots.resize("a", 3)
    assert slots.share("a") == 1


def test_work_that_waits_takes_no_slot(slots: NodeSlots, idle: list[str]) -> None:
    slots.add("a", ["m"], 1, ["1"])
    for node, task in (("a", "unknown"), ("unknown", "1")):
        slots.set_waiting(node, task, waits=True)
        slots.set_waiting(node, task, waits=False)
    assert (slots.count_waiting("a"), slots.count_waiting("unknown"), slots.next_for("m")) == (0, 0, None)
    slots.set_waiting("a", "1", waits=True)
    assert (slots.count_waiting("a"), slots.next_for("m"), slots.tasks_of("a"), idle) == (1, "a", ["1"], ["m"])
    slots.take("a", "1")
    assert slots.next_for("m") == "a", "it was known to wait"
    slots.take("a", "2")
    slots.set_waiting("a", "1", waits=False)
    assert (slots.count_waiting("a"), slots.tasks_of("a"), slots.next_for("m")) == (0, ["1", "2"], None)
    slots.free("a", "2")
    assert slots.next_for("m") is None
    slots.set_waiting("a", "1", waits=True)
    slots.free("a", "1")
    assert (slots.count_waiting("a"), slots.tasks_of("a"), slots.next_for("m")) == (0, [], "a")


def test_a_node_has_one_suspect_at_a_time(slots: NodeSlots, idle: list[str]) -> None:
    slots.add("a", ["m"], 3, ["1"])
    slots.watch("a", "unknown", 0.0)
    slots.watch("unknown", "1", 0.0)
    assert slots.next_for("m", suspect=True) == "a"
    slots.watch("a", "1", 100.0)
    assert (slots.next_for("m", suspect=True), slots.next_for("m")) == (None, "a")
    slots.add("b", ["m"], 1, [])
    assert slots.next_for("m", suspect=True) == "b"
    slots.take("b", "2")
    slots.watch("b", "2", 101.0)
    idle.clear()
    slots.end_watches(100.0 + WATCH_SECONDS - 0.001)
    assert slots.next_for("m", suspect=True) is None and idle == []
    slots.end_watches(100.0 + WATCH_SECONDS)
    assert slots.next_for("m", suspect=True) == "a" and idle == ["m"] and list(slots._watches) == ["2"]
    slots.end_watches(1e9)
    assert not slots._watches


def test_a_suspect_that_has_ended_makes_room_for_the_next(slots: NodeSlots) -> None:
    slots.add("a", ["m"], 3, ["1"])
    slots.watch("a", "1", 0.0)
    slots.free("a", "1")
    assert slots.next_for("m", suspect=True) == "a"
    slots.take("a", "2")
    slots.watch("a", "2", 5.0)
    slots.watch("a", "2", 9.0)
    slots.end_watches(5.0 + WATCH_SECONDS)
    assert slots.next_for("m", suspect=True) is None
    slots.remove("a")
    slots.end_watches(9.0 + WATCH_SECONDS)
    assert not slots._watches
