"""Tests that strips show the worst status of each quarter of an hour, and no more ok than is known."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from helen.web.rows.strips import MOST_CHANGES, NOTHING, QUARTER, QUARTERS, Strips

KEY = ("a", "c")
NOW = 1_000 * QUARTER + 600.0  # ten minutes into a quarter


def strip(*changes: tuple[float, int, bool]) -> str:
    """Return the strip of changes, each (seconds before NOW, status, known)."""
    strips = Strips()
    for ago, status, known in changes:
        strips.note(KEY, status, NOW - ago, known)
    return strips.strip(KEY, NOW)


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ([], "4444"),
        ([(300.0, 0, True)], "4440"),
        ([(301.0, 3, False), (300.0, 0, True)], "4440"),
        ([(600.0, 3, False), (290.0, 0, True)], "4444"),
        ([(2_000.0, 0, True)], "4000"),
        ([(2_000.0, 0, True), (100.0, 1, True)], "4001"),
        ([(2_000.0, 1, True), (1_900.0, 2, True), (700.0, 3, True)], "4223"),
        ([(2_000.0, 3, True), (1_900.0, 0, True)], "4300"),
        ([(700.0, 2, True), (650.0, 0, True)], "4420"),
        ([(100_000.0, 2, True)], "2222"),
        ([(100_000.0, 2, True), (50_000.0, 0, True)], "0000"),
    ],
)  # fmt: skip
def test_quarters(changes: list[tuple[float, int, bool]], end: str) -> None:
    shown = strip(*changes)
    assert (len(shown), shown[-4:]) == (QUARTERS, end)


def test_a_check_that_is_gone_has_nothing() -> None:
    strips = Strips()
    strips.note(KEY, 2, NOW - 60.0, True)
    strips.forget(KEY)
    assert strips.strip(KEY, NOW) == str(NOTHING) * QUARTERS


def test_a_check_that_flaps_for_ever_takes_a_bounded_room() -> None:
    """A check that flaps has at most MOST_CHANGES changes in its strip, the newest ones."""
    strips = Strips()
    for number in range(10 * MOST_CHANGES):
        strips.note(KEY, number % 2, NOW - 10 * MOST_CHANGES + number, True)
    assert len(strips._changes[KEY]) == MOST_CHANGES
    assert strips.strip(KEY, NOW)[-1] == "1"


def quarter_by_quarter(changes: list[tuple[float, int]], now: float) -> str:
    """Return the strip of changes, each (since, status), by adding up each quarter by itself."""
    told = ""
    for number in range(QUARTERS):
        opens = (now // QUARTER - QUARTERS + 1 + number) * QUARTER
        lasted = dict.fromkeys(range(NOTHING + 1), 0.0)
        for (begin, status), (end, _) in pairwise([*changes, (now, NOTHING)]):
            if begin < opens + QUARTER and end >= opens and end > now // QUARTER * QUARTER - (QUARTERS - 1) * QUARTER:
                lasted[status] += max(1e-9, min(end, opens + QUARTER) - max(begin, opens))
        bad = [status for status in (2, 3, 1) if lasted[status]]
        told += str(bad[0]) if bad else "0" if lasted[0] > lasted[NOTHING] else str(NOTHING)
    return told


@pytest.mark.parametrize("seed", range(200))
def test_a_strip_is_what_each_quarter_adds_up_to(seed: int) -> None:
    """A strip equals a computation quarter by quarter, for random changes also at edges of quarters."""
    chance = random.Random(seed)
    step = chance.choice([7.0, 300.0, 3_000.0, 20_000.0])
    ago = sorted(chance.choice([QUARTER * chance.randrange(60), chance.uniform(0, step * 10)]) for _ in range(9))
    changes = [(NOW - each, chance.choice([0, 0, 1, 2, 3, NOTHING])) for each in reversed(ago)]
    strips = Strips()
    for since, status in changes:
        strips.note(KEY, 0 if status == NOTHING else status, since, status != NOTHING)
    assert strips.strip(KEY, NOW) == quarter_by_quarter(changes, NOW)


@pytest.mark.parametrize("seed", range(100))
def test_a_strip_that_is_kept_is_true_at_each_moment(seed: int) -> None:
    """A kept strip equals a fresh one at each moment, with changes noted meanwhile."""
    chance = random.Random(seed)
    kept, noted, now = Strips(), list[tuple[float, int]](), NOW
    for _ in range(40):
        if chance.random() < 0.2:
            noted.append((now - chance.choice([0.0, 1.0]), chance.choice([0, 0, 1, 2, NOTHING])))
            kept.note(KEY, noted[-1][1] % NOTHING, noted[-1][0], noted[-1][1] != NOTHING)
        now += chance.choice([0.0, 1.0, 100.0, 300.0, QUARTER])
        fresh = Strips()
        for since, status in noted:
            fresh.note(KEY, status % NOTHING, since, status != NOTHING)
        assert kept.strip(KEY, now) == fresh.strip(KEY, now)
        assert kept.strip(KEY, now) == fresh.strip(KEY, now)


def test_a_change_that_says_it_is_older_begins_with_the_one_before() -> None:
    assert strip((2_000.0, 0, True), (700.0, 2, True), (5_000.0, 0, True))[-4:] == "4020"


@pytest.mark.parametrize(
    ("past", "end"),
    [
        ([(5_000.0, 2), (4_000.0, 0)], "220000"),
        ([(5_000.0, 2), (400.0, 1)], "222222"),
        ([(300.0, 2), (200.0, 2)], "444440"),
        ([(5_000.0, NOTHING), (1_900.0, 1), (1_800.0, 0)], "444100"),
        ([], "444440"),
    ],
)  # fmt: skip
def test_what_is_recalled_is_older_than_all_that_is_known(past: list[tuple[float, int]], end: str) -> None:
    strips = Strips()
    strips.note(KEY, 0, NOW - 300.0, True)
    before = strips.strip(KEY, NOW)
    strips.recall(KEY, [(NOW - ago, status) for ago, status in past])
    assert (before[-6:], strips.strip(KEY, NOW)[-6:]) == ("444440", end)


def test_the_newest_of_what_is_recalled_counts() -> None:
    """The newest MOST_CHANGES recalled changes of a check are kept, and a check that is gone stays gone."""
    strips = Strips()
    strips.note(KEY, 0, NOW, True)
    strips.recall(KEY, [(NOW - 10 * MOST_CHANGES + number, number % 2) for number in range(5 * MOST_CHANGES)])
    assert len(strips._changes[KEY]) == MOST_CHANGES
    assert strips._changes[KEY][0] == (NOW - 6 * MOST_CHANGES + 1, (4 * MOST_CHANGES + 1) % 2)
    strips.recall(("b", "c"), [(NOW - 10.0, 2)])
    assert strips.strip(("b", "c"), NOW) == str(NOTHING) * QUARTERS
