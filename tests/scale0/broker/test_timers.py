"""Tests the wheel of timers: no timer fires early, none later than its slot, and far ones share coarse slots."""

from __future__ import annotations

import random

import pytest

from scale0.broker.timers import COARSE, FAR, RESOLUTION, Timers


def test_the_widths_are_a_hundredth_and_half_a_second() -> None:
    assert (RESOLUTION, FAR, RESOLUTION * COARSE) == (0.01, 10.0, 0.5)


@pytest.mark.parametrize(
    "when, due",
    [(0.0, 0.0), (0.001, 0.01), (0.05, 0.05), (9.996, 10.0), (10.0, 10.0), (10.01, 10.5), (10.6, 11.0), (600.0, 600.0)],
)
def test_a_timer_is_due_at_the_end_of_its_slot(when: float, due: float) -> None:
    timers = Timers()
    timers.set(("a",), when, 0.0)
    assert timers.next() == pytest.approx(due)
    assert timers.due(due - 0.005) == []
    assert (len(timers), ("a",) in timers) == (1, True)
    assert timers.due(due + 1e-9) == [("a",)]
    assert (len(timers), ("a",) in timers, timers.next()) == (0, False, None)


@pytest.mark.parametrize("looked", [None, 3.0, 95.0])
def test_what_is_far_is_measured_from_now_and_not_from_the_last_look(looked: float | None) -> None:
    """A timer that is set before the first look, or long after the last one, is measured from now."""
    timers = Timers()
    if looked is not None:
        timers.due(looked)
    timers.set(("near",), 105.0, 95.0)
    timers.set(("far",), 105.02, 95.0)
    assert timers.next() == pytest.approx(105.0)
    assert timers.due(105.1) == [("near",)]
    assert timers.next() == pytest.approx(105.5)


def test_moving_and_cancelling_leave_nothing_behind() -> None:
    timers = Timers()
    timers.set(("a",), 1.0, 0.0)
    timers.set(("b",), 1.0, 0.0)
    timers.set(("a",), 2.0, 0.0)
    timers.set(("a",), 2.0, 0.0)
    assert len(timers) == 2 and timers.due(1.0) == [("b",)]
    timers.set(("a",), 0.5, 0.0)
    assert timers.next() == 0.5
    timers.cancel(("a",))
    timers.cancel(("a",))
    timers.cancel(("unknown",))
    assert (len(timers), timers.next(), timers.due(9.0)) == (0, None, [])
    assert not timers._slots and not timers._order


def test_due_keys_come_oldest_first_and_once() -> None:
    timers = Timers()
    for key, when in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 4.0)):
        timers.set((key,), when, 0.0)
    assert timers.due(3.0) == [("a",), ("b",), ("c",)]
    assert timers.due(3.5) == [] and timers.next() == 4.0
    timers.set(("a",), 4.0, 0.0)
    assert timers.due(4.0) == [("d",), ("a",)]


def test_the_wheel_agrees_with_a_plain_list() -> None:
    """The wheel fires what a plain list would, under random setting, moving, cancelling and looking."""
    dice, timers, plain, now = random.Random(5), Timers(), {}, 0.0
    for _ in range(3000):
        key, chance = (dice.randrange(30),), dice.random()
        if chance < 0.5:
            plain[key] = when = now + dice.choice((0.0, 0.3, 5.0, 30.0)) * dice.random()
            timers.set(key, when, now)
        elif chance < 0.7:
            plain.pop(key, None)
            timers.cancel(key)
        else:
            now += dice.random()
            for found in timers.due(now):
                assert plain.pop(found) <= now
            assert all(when > now - 0.51 for when in plain.values())
        assert len(timers) == len(plain) and all(key in timers for key in plain)


@pytest.mark.parametrize("now, when, due", [(0.25, 10.25, 10.25), (0.25, 10.375, 10.5), (95.0, 100.25, 100.25)])
def test_ten_seconds_from_now_is_near_and_more_is_far(now: float, when: float, due: float) -> None:
    timers = Timers()
    timers.set(("a",), when, now)
    assert timers.next() == pytest.approx(due)
