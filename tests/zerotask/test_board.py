"""What waits and who is told: windows on the store, refills that race with changes, offers within slots."""

from __future__ import annotations

import random

import pytest

from zerotask import board
from zerotask.board import Board, Offer
from zerotask.shelf import Waiting


def waiting(number, method="m", priority=4):
    return Waiting(f"t{number}", method, priority, number, 0.0)


def test_what_is_known_is_no_news():
    one = Board()
    assert one.add(waiting(1)) is True
    assert one.add(waiting(1)) is False
    assert len(one) == 1


def test_a_window_is_bounded_and_says_when_it_runs_low(monkeypatch):
    monkeypatch.setattr(board, "WINDOW", 8)
    one = Board()
    assert [one.add(waiting(number)) for number in range(10)] == [True] * 8 + [False] * 2
    assert one.thirsty() == []
    for number in range(6):
        one.remove(f"t{number}")
    assert one.thirsty() == ["m"]
    assert one.filling("m") == 8
    assert one.thirsty() == []
    fresh = one.filled("m", [waiting(number) for number in range(6, 10)], 8)
    assert [task.id for task in fresh] == ["t8", "t9"]
    assert one.add(waiting(10)) is True


def test_a_more_urgent_task_gets_into_a_full_window(monkeypatch):
    monkeypatch.setattr(board, "WINDOW", 2)
    one = Board()
    assert [one.add(waiting(number)) for number in range(3)] == [True, True, False]
    assert one.add(waiting(3, priority=9)) is True


def test_one_methods_flood_leaves_room_for_others(monkeypatch):
    monkeypatch.setattr(board, "WINDOW_MOST", 30)
    monkeypatch.setattr(board, "WINDOW_LEAST", 3)
    one = Board()
    added = [one.add(waiting(number)) for number in range(40)]
    assert sum(added) == 30
    assert [one.add(waiting(100 + number, "other")) for number in range(4)] == [True] * 3 + [False]


def test_what_was_removed_while_the_store_was_read_does_not_come_back():
    one = Board()
    one.lacks("m")
    asked = one.filling("m")
    one.remove("t1")
    assert [task.id for task in one.filled("m", [waiting(1), waiting(2)], asked)] == ["t2"]


def test_what_came_while_the_store_was_read_is_not_lost():
    one = Board()
    one.lacks("m")
    asked = one.filling("m")
    assert one.add(waiting(3)) is False
    assert [task.id for task in one.filled("m", [waiting(2)], asked)] == ["t2", "t3"]


def test_a_failed_read_is_asked_again():
    one = Board()
    one.lacks("m")
    one.filling("m")
    one.unfilled("m")
    assert one.thirsty() == ["m"]


def test_methods_are_bounded_and_the_others_follow(monkeypatch):
    monkeypatch.setattr(board, "METHODS_MOST", 4)
    one = Board()
    assert [one.add(waiting(number, f"m{number}")) for number in range(5)] == [True] * 4 + [False]
    assert one.crowded and not one.has_room()
    for number in range(2):
        one.remove(f"t{number}")
    assert one.has_room()


def test_what_nobody_serves_keeps_nothing_else_off_the_board(monkeypatch):
    """A method with a node has a place, also one whose first tasks had found none."""
    monkeypatch.setattr(board, "METHODS_MOST", 2)
    one = Board()
    assert [one.add(waiting(number, f"junk{number}")) for number in range(3)] == [True, True, False]
    assert one.add(waiting(3, "good")) is False
    one.enlist("n", ["good", "fine*"], 2, [])
    assert one.thirsty() == ["good"]
    assert one.filled("good", [waiting(3, "good")], one.filling("good")) == [waiting(3, "good")]
    assert one.add(waiting(4, "fine:one")) is False and one.thirsty() == ["fine:one"]
    assert one.add(waiting(5, "junk9")) is False and "junk9" not in one.thirsty()


def test_nothing_is_left_of_a_node_that_is_gone():
    """Whatever prefixes it brought, and however often nodes come."""
    one = Board()
    for number in range(10):
        one.enlist("n", [f"a{number}*", "b*"], 1, [])
    one.enlist("other", ["b*"], 1, [])
    one.dismiss("n")
    assert one.offers(0.0) == [] and one.add(waiting(1, "b1"))
    assert one.offers(0.0) == [Offer("other", waiting(1, "b1"))]
    one.dismiss("other")
    assert not (one._served or one._prefixes or one._idle or one._seats)


def test_no_more_offers_than_slots_and_a_freed_slot_gets_the_next():
    one = Board()
    one.enlist("n", ["m"], 2, [])
    for number in range(4):
        one.add(waiting(number))
    assert one.offers(0.0) == [Offer("n", waiting(0)), Offer("n", waiting(1))]
    assert one.offers(0.0) == []
    one.remove("t0"), one.holds("n", "t0")
    assert one.offers(0.0) == []
    one.freed("n", "t0")
    assert one.offers(0.0) == [Offer("n", waiting(2))]


def test_a_node_with_many_free_slots_is_offered_an_eighth_of_them_in_its_turn():
    one = Board()
    one.enlist("big", ["m"], 24, []), one.enlist("small", ["m"], 4, [])
    for number in range(9):
        one.add(waiting(number))
    assert [offer.node for offer in one.offers(0.0)] == ["big"] * 3 + ["small"] + ["big"] * 2 + ["small"] + ["big"] * 2


def test_a_dismissed_nodes_offers_go_to_others():
    one = Board()
    one.enlist("n1", ["m"], 1, [])
    one.add(waiting(1))
    assert one.offers(0.0) == [Offer("n1", waiting(1))]
    one.dismiss("n1")
    one.enlist("n2", ["m"], 1, [])
    assert one.offers(0.0) == [Offer("n2", waiting(1))]


def test_tasks_that_a_node_brings_along_take_slots():
    one = Board()
    one.enlist("n", ["m"], 1, ["old"])
    one.add(waiting(1))
    assert one.offers(0.0) == []
    one.freed("n", "old")
    assert one.offers(0.0) == [Offer("n", waiting(1))]


def test_repeats_take_from_all_methods_and_leave_out_what_was_offered():
    one = Board()
    one.enlist("n", ["offered"], 1, [])
    one.add(waiting(0, "offered"))
    one.offers(0.0)
    for number in range(1, 100):
        one.add(waiting(number, f"m{number % 3}"))
    repeats = one.repeats()
    assert len(repeats) == 3 * board.REPEAT_EACH
    assert {task.method for task in repeats} == {"m0", "m1", "m2"}
    assert [task.seq for task in repeats if task.method == "m1"] == list(range(1, 60, 3))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens(seed):
    """Offers are of waiting tasks, to nodes that serve them, one node each, within slots; nothing is left lying while a
    node is free for it."""
    dice, one, serves, slots = random.Random(seed), Board(), {}, {}
    known, offered, held = set(), {}, {}
    for step in range(400):
        number = dice.randrange(60)
        task, node = f"t{number}", f"n{dice.randrange(4)}"
        action = dice.choice(["add", "add", "add", "remove", "claim", "claim", "free", "enlist", "dismiss", "old"])
        if action == "add" and task not in held and one.add(waiting(number, f"m{number % 3}")):
            known.add(task)
        elif action == "remove":
            one.remove(task), known.discard(task), offered.pop(task, None)
        elif action == "claim" and offered:
            task, node = dice.choice(sorted(offered.items()))
            one.remove(task), one.holds(node, task)
            known.discard(task), offered.pop(task)
            held[task] = node
        elif action == "free" and held:
            task, node = dice.choice(sorted(held.items()))
            one.freed(node, held.pop(task) and task)
        elif action in ("enlist", "dismiss"):
            one.dismiss(node)
            serves.pop(node, None)
            offered = {t: n for t, n in offered.items() if n != node}
            held = {t: n for t, n in held.items() if n != node}
            if action == "enlist":
                serves[node], slots[node] = dice.choice([["m0"], ["m1", "m2"], ["m*"]]), dice.randrange(1, 4)
                one.enlist(node, serves[node], slots[node], [])
        elif action == "old":
            one.withdraw_old(step - 30.0)
            offered = {t: n for t, n in offered.items() if one.is_offered(t)}
        for offer in one.offers(float(step)):
            assert offer.task.id in known and offer.task.id not in offered
            assert any(
                offer.task.method.startswith(p[:-1]) if p[-1] == "*" else p == offer.task.method
                for p in serves[offer.node]
            )
            offered[offer.task.id] = offer.node
        for node in serves:
            busy = [t for t, n in [*offered.items(), *held.items()] if n == node]
            assert one.tasks_of(node) == sorted(busy) and len(busy) <= slots[node]
            if len(busy) < slots[node]:
                idle = [t for t in known - offered.keys() if _served(serves[node], f"m{int(t[1:]) % 3}")]
                assert idle == []


def _served(patterns, method):
    return any(method.startswith(p[:-1]) if p[-1] == "*" else p == method for p in patterns)
