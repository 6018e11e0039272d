"""Tests what waits and who is told: windows on the store, refills that race with changes, offers within slots."""

from __future__ import annotations

import random

import pytest

from zerotask.broker import ready_window
from zerotask.broker.ready_window import Offer, ReadyWindow
from zerotask.storage.task_table import QueuedTask
from zerotask.tasks.task import WATCH_SECONDS


def waiting(number, method="m", priority=4):
    return QueuedTask(f"t{number}", method, priority, number, 0.0)


def test_what_is_known_is_no_news():
    one = ReadyWindow()
    assert one.add(waiting(1)) is True
    assert one.add(waiting(1)) is False
    assert len(one) == 1


def test_a_window_is_bounded_and_says_when_it_runs_low(monkeypatch):
    monkeypatch.setattr(ready_window, "WINDOW", 8)
    one = ReadyWindow()
    assert [one.add(waiting(number)) for number in range(10)] == [True] * 8 + [False] * 2
    assert one.low_methods() == []
    for number in range(6):
        one.remove(f"t{number}")
    assert one.low_methods() == ["m"]
    assert one.begin_fill("m") == 8
    assert one.low_methods() == []
    fresh = one.end_fill("m", [waiting(number) for number in range(6, 10)], 8)
    assert [task.id for task in fresh] == ["t8", "t9"]
    assert one.add(waiting(10)) is True


def test_a_more_urgent_task_gets_into_a_full_window(monkeypatch):
    monkeypatch.setattr(ready_window, "WINDOW", 2)
    one = ReadyWindow()
    assert [one.add(waiting(number)) for number in range(3)] == [True, True, False]
    assert one.add(waiting(3, priority=9)) is True


def test_one_methods_flood_leaves_room_for_others(monkeypatch):
    monkeypatch.setattr(ready_window, "WINDOW_MOST", 30)
    monkeypatch.setattr(ready_window, "WINDOW_LEAST", 3)
    one = ReadyWindow()
    added = [one.add(waiting(number)) for number in range(40)]
    assert sum(added) == 30
    assert [one.add(waiting(100 + number, "other")) for number in range(4)] == [True] * 3 + [False]


def test_what_was_removed_while_the_store_was_read_does_not_come_back():
    one = ReadyWindow()
    one.expect_more("m")
    asked = one.begin_fill("m")
    one.remove("t1")
    assert [task.id for task in one.end_fill("m", [waiting(1), waiting(2)], asked)] == ["t2"]


def test_what_came_while_the_store_was_read_is_not_lost():
    one = ReadyWindow()
    one.expect_more("m")
    asked = one.begin_fill("m")
    assert one.add(waiting(3)) is False
    assert [task.id for task in one.end_fill("m", [waiting(2)], asked)] == ["t2", "t3"]


def test_a_failed_read_is_asked_again():
    one = ReadyWindow()
    one.expect_more("m")
    one.begin_fill("m")
    one.fail_fill("m")
    assert one.low_methods() == ["m"]


def test_methods_are_bounded_and_the_others_follow(monkeypatch):
    monkeypatch.setattr(ready_window, "METHODS_MOST", 4)
    one = ReadyWindow()
    assert [one.add(waiting(number, f"m{number}")) for number in range(5)] == [True] * 4 + [False]
    assert one.crowded and not one.has_room()
    for number in range(2):
        one.remove(f"t{number}")
    assert one.has_room()


def test_what_nobody_serves_keeps_nothing_else_out_of_the_window(monkeypatch):
    """A method with a node has a place, also one whose first tasks had found none."""
    monkeypatch.setattr(ready_window, "METHODS_MOST", 2)
    one = ReadyWindow()
    assert [one.add(waiting(number, f"junk{number}")) for number in range(3)] == [True, True, False]
    assert one.add(waiting(3, "good")) is False
    one.add_node("n", ["good", "fine*"], 2, [])
    assert one.low_methods() == ["good"]
    assert one.end_fill("good", [waiting(3, "good")], one.begin_fill("good")) == [waiting(3, "good")]
    assert one.add(waiting(4, "fine:one")) is False and one.low_methods() == ["fine:one"]
    assert one.add(waiting(5, "junk9")) is False and "junk9" not in one.low_methods()


def test_nothing_is_left_of_a_node_that_is_gone():
    """No prefix of a node that is gone is left, however often nodes come."""
    one = ReadyWindow()
    for number in range(10):
        one.add_node("n", [f"a{number}*", "b*"], 1, [])
    one.add_node("other", ["b*"], 1, [])
    one.remove_node("n")
    assert one.offers(0.0) == [] and one.add(waiting(1, "b1"))
    assert one.offers(0.0) == [Offer("other", waiting(1, "b1"))]
    one.remove_node("other")
    assert not one._nodes


def test_no_more_offers_than_slots_and_a_freed_slot_gets_the_next():
    one = ReadyWindow()
    one.add_node("n", ["m"], 2, [])
    for number in range(4):
        one.add(waiting(number))
    assert one.offers(0.0) == [Offer("n", waiting(0)), Offer("n", waiting(1))]
    assert one.offers(0.0) == []
    one.remove("t0"), one.claimed("n", "t0")
    assert one.offers(0.0) == []
    one.released("n", "t0")
    assert one.offers(0.0) == [Offer("n", waiting(2))]


def test_a_node_with_many_free_slots_is_offered_an_eighth_of_them_in_its_turn():
    one = ReadyWindow()
    one.add_node("big", ["m"], 24, []), one.add_node("small", ["m"], 4, [])
    for number in range(9):
        one.add(waiting(number))
    assert [offer.node for offer in one.offers(0.0)] == ["big"] * 3 + ["small"] + ["big"] * 2 + ["small"] + ["big"] * 2


def test_a_dismissed_nodes_offers_go_to_others():
    one = ReadyWindow()
    one.add_node("n1", ["m"], 1, [])
    one.add(waiting(1))
    assert one.offers(0.0) == [Offer("n1", waiting(1))]
    one.remove_node("n1")
    one.add_node("n2", ["m"], 1, [])
    assert one.offers(0.0) == [Offer("n2", waiting(1))]


def test_tasks_that_a_node_brings_along_take_slots():
    one = ReadyWindow()
    one.add_node("n", ["m"], 1, ["old"])
    one.add(waiting(1))
    assert one.offers(0.0) == []
    one.released("n", "old")
    assert one.offers(0.0) == [Offer("n", waiting(1))]


def test_repeats_take_from_all_methods_and_leave_out_what_was_offered():
    one = ReadyWindow()
    one.add_node("n", ["offered"], 1, [])
    one.add(waiting(0, "offered"))
    one.offers(0.0)
    for number in range(1, 100):
        one.add(waiting(number, f"m{number % 3}"))
    repeats = one.tasks_to_repeat()
    assert len(repeats) == 3 * ready_window.REPEAT_EACH
    assert {task.method for task in repeats} == {"m0", "m1", "m2"}
    assert [task.seq for task in repeats if task.method == "m1"] == list(range(1, 60, 3))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens(seed):
    """Offers are of waiting tasks, to nodes that serve them, one node each, within slots; none waits while a node is
    free.
    """
    dice, one, serves, slots = random.Random(seed), ReadyWindow(), {}, {}
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
            one.remove(task), one.claimed(node, task)
            known.discard(task), offered.pop(task)
            held[task] = node
        elif action == "free" and held:
            task, node = dice.choice(sorted(held.items()))
            one.released(node, held.pop(task) and task)
        elif action in ("enlist", "dismiss"):
            one.remove_node(node)
            serves.pop(node, None)
            offered = {t: n for t, n in offered.items() if n != node}
            held = {t: n for t, n in held.items() if n != node}
            if action == "enlist":
                serves[node], slots[node] = dice.choice([["m0"], ["m1", "m2"], ["m*"]]), dice.randrange(1, 4)
                one.add_node(node, serves[node], slots[node], [])
        elif action == "old":
            one.withdraw_expired_offers(step - 30.0)
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


def _work_off(one, steps, done=lambda offer: None):
    """Let the nodes claim and end what they are offered; return the ids in the order of the offers."""
    order = []
    for _ in range(steps):
        for offer in one.offers(0.0):
            order.append(offer.task.id)
            one.remove(offer.task.id), one.claimed(offer.node, offer.task.id)
            one.released(offer.node, offer.task.id)
    return order


@pytest.mark.parametrize("methods", [("bulk", "urgent"), ("urgent", "bulk"), ("b*", "urgent"), ("*",)], ids=str)
@pytest.mark.parametrize("great, small", [("bulk", "urgent"), ("urgent", "bulk")])
def test_a_backlog_of_one_method_holds_up_no_higher_priority_of_another(methods, great, small):
    """Tasks of a higher priority go first over methods, whatever these are called and however the node names them
    (F59).
    """
    one = ReadyWindow()
    for number in range(60):
        one.add(waiting(number, great, 0))
    for number in range(60, 65):
        one.add(waiting(number, small, 9))
    one.add_node("n", methods, 1, [])
    order = _work_off(one, 70)
    assert order == [f"t{number}" for number in (*range(60, 65), *range(60))]


def test_among_equal_priorities_the_method_served_longest_ago_comes_first():
    """Methods of equal priority take turns, also one that never has a second task waiting (F59)."""
    one = ReadyWindow()
    one.add_node("n", ["a", "b", "c"], 1, ["busy"])
    for number in range(30):
        one.add(waiting(number, "abc"[number // 10]))
    one.released("n", "busy")
    order = _work_off(one, 30)
    assert sorted(order[:3]) == ["t0", "t10", "t20"]
    assert [int(task[1:]) // 10 for task in order] == [int(task[1:]) // 10 for task in order[:3]] * 10
    one.add_node("n", ["a", "b", "c"], 1, ["busy"])
    for number in range(4):
        one.add(waiting(number, "a"))
    one.released("n", "busy")
    order = []
    for number in range(10, 14):
        one.add(waiting(number, "b"))
        order += _work_off(one, 1)
    assert sorted(order) == ["t0", "t1", "t10", "t11"]


def test_a_full_window_takes_what_sorts_before_its_last_task_and_puts_that_out(monkeypatch):
    """A full window takes tasks of a higher priority, and earlier ones that are given back, and puts its last one out
    (F60).
    """
    monkeypatch.setattr(ready_window, "WINDOW", 3)
    one = ReadyWindow()
    for number in (1, 2, 3, 4):
        one.add(waiting(number))
    one.remove("t1")
    one.add_node("n", ["m"], 1, ["busy"])
    assert one.add(waiting(5)) is False
    assert one.add(waiting(1)) is True
    assert [one.add(waiting(number, priority=9)) for number in (6, 7)] == [True, True]
    assert len(one) == 3
    one.released("n", "busy")
    assert _work_off(one, 5) == ["t6", "t7", "t1"]


def test_repeats_reach_each_task_some_time():
    """Half of the repeats are the first tasks; the others come in turn (F61)."""
    one = ReadyWindow()
    for number in range(95):
        one.add(waiting(number))
    rounds = [[task.seq for task in one.tasks_to_repeat()] for _ in range(9)]
    half = ready_window.REPEAT_EACH // 2
    assert all(seqs[:half] == list(range(half)) and len(seqs) <= 2 * half for seqs in rounds)
    assert set().union(*rounds) == set(range(95))
    one.remove("t50")
    assert len(one.tasks_to_repeat()) == 2 * half


def test_tasks_that_lost_a_node_are_on_different_nodes_or_one_after_the_other():
    """Others go on beside them, and one that takes long lets the next one in after a while (F63)."""

    def suspect(number):
        return QueuedTask(f"t{number}", "m", 4, number, 0.0, losses=1)

    one = ReadyWindow()
    one.add_node("n1", ["m"], 3, []), one.add_node("n2", ["m"], 3, [])
    for number in range(3):
        one.add(suspect(number))
    for number in range(3, 6):
        one.add(waiting(number))
    offers = {offer.task.id: offer.node for offer in one.offers(0.0)}
    assert sorted(offers) == ["t0", "t1", "t3", "t4", "t5"] and offers["t0"] != offers["t1"]
    for task in ("t0", "t1"):
        one.remove(task), one.claimed(offers[task], task, suspect=True)
    assert one.offers(1.0) == []
    one.released(offers["t1"], "t1")
    assert [(offer.node, offer.task.id) for offer in one.offers(2.0)] == [(offers["t1"], "t2")]
    one.add(suspect(9))
    one.withdraw_expired_offers(1.5), one.remove("t2")
    assert [offer.node for offer in one.offers(3.0)] == [offers["t1"]]
    one.remove("t9"), one.claimed(offers["t1"], "t9", suspect=True)
    one.add(suspect(10))
    assert one.offers(4.0) == []
    one.withdraw_expired_offers(WATCH_SECONDS + 3.0)
    assert [offer.task.id for offer in one.offers(WATCH_SECONDS + 3.0) if offer.task.id == "t10"] == ["t10"]


# ------------------------------------------------------------------------------- both sides of each limit


def suspect(number, method="m"):
    return QueuedTask(f"s{number}", method, 4, number, 0.0, losses=1)


def test_the_limits_are_those_of_the_documentation():
    limits = (ready_window.WINDOW, ready_window.WINDOW_MOST, ready_window.WINDOW_LEAST, ready_window.OFFER_WAIT)
    assert limits == (2_000, 100_000, 20, 2.0)
    assert (ready_window.METHODS_MOST, ready_window.SERVED_MOST) == (10_000, 20_000)
    repeats = (ready_window.REPEAT_EACH, ready_window.REPEAT_MOST, ready_window.REPEAT_METHODS)
    assert repeats == (20, 200, 500)


def test_a_task_that_was_queued_again_while_the_store_was_read_is_taken():
    one = ReadyWindow()
    one.expect_more("m")
    asked = one.begin_fill("m")
    one.remove("t1")
    assert one.add(waiting(1)) is False
    assert one.end_fill("m", [], asked) == [waiting(1)] and len(one) == 1
    assert one.low_methods() == []


def test_what_was_removed_is_forgotten_once_all_reads_are_answered():
    one = ReadyWindow()
    one.begin_read()
    one.begin_read()
    one.remove("t1")
    assert one.end_read([waiting(1), waiting(2)]) == [waiting(2)]
    assert one.end_read([waiting(1)]) == []
    one.begin_read()
    assert one.end_read([waiting(1)]) == [waiting(1)]
    one.remove("t1")
    one.begin_read()
    assert one.end_read([waiting(1)]) == [waiting(1)], "it was removed while no read was under way"


@pytest.mark.parametrize("left, low", [(2, True), (3, False)])
def test_a_quarter_of_the_window_is_few(monkeypatch, left, low):
    monkeypatch.setattr(ready_window, "WINDOW", 8)
    one = ReadyWindow()
    for number in range(9):
        one.add(waiting(number))
    for number in range(8 - left):
        one.remove(f"t{number}")
    assert len(one) == left and (one.low_methods() == ["m"]) is low


@pytest.mark.parametrize("found, more", [(7, False), (8, True)])
def test_a_full_answer_of_the_store_means_more(monkeypatch, found, more):
    monkeypatch.setattr(ready_window, "WINDOW", 8)
    one = ReadyWindow()
    one.expect_more("m")
    assert one.begin_fill("m") == 8
    assert len(one.end_fill("m", [waiting(number) for number in range(found)], 8)) == found
    for number in range(found):
        one.remove(f"t{number}")
    assert (one.low_methods() == ["m"]) is more


def test_of_a_full_window_the_last_one_gives_way(monkeypatch):
    monkeypatch.setattr(ready_window, "WINDOW", 2)
    one = ReadyWindow()
    assert [one.add(waiting(number)) for number in (1, 5)] == [True, True]
    assert one.add(waiting(9)) is False and one.add(waiting(3)) is True
    assert len(one) == 2 and not one.add(waiting(5)) and [task.seq for task in one.tasks_to_repeat()] == [1, 3]
    one.add_node("n", ["m"], 2, [])
    assert [offer.task.seq for offer in one.offers(0.0)] == [1, 3]
    assert one.add(waiting(2)) is False, "both are offered, and none gives way"


@pytest.mark.parametrize("passed, again", [(1.99, False), (2.0, True)])
def test_an_offer_is_withdrawn_after_two_seconds(passed, again):
    one = ReadyWindow()
    one.add_node("n", ["m"], 1, [])
    one.add(waiting(1))
    assert one.offers(5.0) == [Offer("n", waiting(1))] and one.is_offered("t1")
    one.withdraw_expired_offers(5.0 + passed)
    assert one.is_offered("t1") is not again
    assert one.offers(8.0) == ([Offer("n", waiting(1))] if again else [])


def test_a_suspect_that_was_claimed_before_the_first_look_is_watched():
    one = ReadyWindow()
    one.add_node("n", ["m"], 3, ["s1"])
    one.claimed("n", "s1", suspect=True)
    one.add(suspect(2))
    one.withdraw_expired_offers(WATCH_SECONDS - 0.01)
    assert one.offers(WATCH_SECONDS - 0.01) == []
    one.withdraw_expired_offers(WATCH_SECONDS)
    assert one.offers(WATCH_SECONDS) == [Offer("n", suspect(2))]


def test_methods_of_one_priority_take_turns_and_a_higher_one_goes_first():
    one = ReadyWindow()
    for number in range(4):
        one.add(waiting(number, "a"))
        one.add(waiting(10 + number, "b"))
    one.add(waiting(20, "c", priority=9))
    one.add_node("n", ["a", "b", "c"], 1, [])
    order = []
    for _ in range(7):
        [offer] = one.offers(0.0)
        order.append(offer.task.method)
        one.remove(offer.task.id)
    assert order == ["c", "a", "b", "a", "b", "a", "b"]


def test_announcements_are_bounded_and_methods_take_turns(monkeypatch):
    monkeypatch.setattr(ready_window, "REPEAT_EACH", 2)
    monkeypatch.setattr(ready_window, "REPEAT_MOST", 5)
    monkeypatch.setattr(ready_window, "REPEAT_METHODS", 3)
    one = ReadyWindow()
    for number in range(4):
        for method in "abcd":
            one.add(waiting(10 * "abcd".index(method) + number, method))
    assert [task.seq for task in one.tasks_to_repeat()] == [0, 1, 10, 11, 20]
    assert [task.method for task in one.tasks_to_repeat()] == ["d", "d", "a", "a", "b"]
    monkeypatch.setattr(ready_window, "REPEAT_METHODS", 2)
    assert [task.method for task in one.tasks_to_repeat()] == ["c", "c", "d", "d"]
    monkeypatch.setattr(ready_window, "REPEAT_MOST", 2)
    assert [task.method for task in one.tasks_to_repeat()] == ["a", "a"]


@pytest.mark.parametrize("left, room", [(2, True), (3, False)])
def test_there_is_room_again_once_half_of_the_methods_are_worked_off(monkeypatch, left, room):
    monkeypatch.setattr(ready_window, "METHODS_MOST", 4)
    one = ReadyWindow()
    assert not one.has_room()
    for number in range(5):
        one.add(waiting(number, f"m{number}"))
    for number in range(4 - left):
        one.remove(f"t{number}")
    assert one.has_room() is room
    one.clear()
    assert len(one) == 0 and one.has_room()
