"""Tests failures and bans, second by second: both sides of each limit, and what management is shown."""

from __future__ import annotations

import pytest

from scale0.broker import failures
from scale0.broker.failures import Failures


def failing(*times: float, name: str = "n") -> tuple[Failures, list[bool]]:
    """Return the failures of one name at these times, and which of them banned it."""
    held = Failures()
    return held, [held.add(name, "nonsense", time) for time in times]


@pytest.mark.parametrize("last, bans", [(60.0, True), (60.1, False)])
def test_the_fifth_failure_within_a_minute_bans(last: float, bans: bool) -> None:
    held, answers = failing(0.0, 1.0, 2.0, 3.0, last)
    assert answers == [False, False, False, False, bans]
    assert held.banned("n", last) is bans
    assert not held.banned("other", last)


def test_four_failures_ban_nobody_and_old_ones_slide_out() -> None:
    held, answers = failing(0.0, 50.0, 51.0, 52.0, 61.0, 100.0)
    assert answers == [False] * 5 + [True]
    assert held.banned("n", 100.0)


def test_a_ban_doubles_up_to_an_hour_and_ends_to_the_second() -> None:
    held, now, lengths = Failures(), 0.0, []
    for _ in range(6):
        while not held.add("n", "nonsense", now):
            pass
        left = held.show(now)["n"]["seconds_left"]
        assert isinstance(left, float)
        lengths.append(left)
        assert held.banned("n", now + left - 0.001) and not held.banned("n", now + left)
        now += left
    assert lengths == [300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0]


@pytest.mark.parametrize("pause, again", [(86_400.0, 600.0), (86_401.0, 300.0)])
def test_a_day_without_a_failure_starts_afresh(pause: float, again: float) -> None:
    held, _ = failing(*[0.0] * 5)
    answers = [held.add("n", "nonsense", pause) for _ in range(5)]
    assert answers.count(True) == 1 and answers[-1]
    assert held.show(pause)["n"]["seconds_left"] == again


def test_after_a_ban_its_last_failure_counts_as_the_first_of_the_next() -> None:
    held, _ = failing(*[0.0] * 5)
    assert held.show(0.0)["n"]["failures"] == 1
    assert [held.add("n", "nonsense", 10.0) for _ in range(4)] == [False, False, False, True]


def test_what_management_is_shown_of_a_name() -> None:
    held, _ = failing(0.0, 1.0)
    held.add("n", "late", 2.04)
    held.dropped("n")
    held.dropped("unknown")
    assert not held.banned("n", 0.5)
    row = {"failures": 3, "reason": "late", "banned": False, "seconds_left": 0.0, "dropped": 1}
    assert held.show(3.0) == {"n": row}
    assert held.show(60.0)["n"]["failures"] == 3
    assert held.show(61.0)["n"]["failures"] == 2
    assert held.show(62.04)["n"]["failures"] == 1
    assert held.show(63.0) == {}
    held.dropped("n")
    held.add("n", "late", 4.0)
    held.add("n", "worse", 5.0)
    row = {"failures": 1, "reason": "worse", "banned": True, "seconds_left": 294.1, "dropped": 2}
    assert held.show(10.94) == {"n": row}
    assert held.show(304.9)["n"] == row | {"failures": 0, "seconds_left": 0.1}
    assert held.show(305.0) == {}


def test_names_of_the_configuration_are_banned_for_good() -> None:
    held = Failures()
    held.always(["bad", "worse"])
    assert held.banned("bad", 0.0) and held.banned("worse", 1e9) and not held.banned("good", 0.0)
    assert held.show(0.0) == {name: {"banned": True, "by": "configuration"} for name in ("bad", "worse")}
    held.always([])
    assert not held.banned("bad", 0.0)


def test_one_name_or_all_are_forgiven() -> None:
    held = Failures()
    for name in ("a", "b", "c"):
        for _ in range(5):
            held.add(name, "nonsense", 0.0)
    assert (held.clear("a"), held.clear("a"), held.clear("unknown")) == (1, 0, 0)
    assert [held.banned(name, 1.0) for name in ("a", "b", "c")] == [False, True, True]
    assert (held.clear(), held.clear()) == (2, 0)
    assert not held.banned("b", 1.0)


def test_the_name_that_failed_longest_ago_is_forgotten_when_there_are_too_many(monkeypatch) -> None:
    assert failures.NAMES == 10_000
    monkeypatch.setattr(failures, "NAMES", 2)
    held = Failures()
    for name in ("a", "b", "a", "c"):
        held.add(name, "nonsense", 0.0)
    assert set(held.show(0.0)) == {"a", "c"}
    assert held.show(0.0)["a"]["failures"] == 2


def test_the_day_without_a_failure_counts_from_the_last_one() -> None:
    held, _ = failing(*[0.0] * 5)
    held.add("n", "nonsense", 80_000.0)
    answers = [held.add("n", "nonsense", 100_000.0) for _ in range(5)]
    assert answers == [False] * 4 + [True]
    assert held.show(100_000.0)["n"]["seconds_left"] == 600.0
