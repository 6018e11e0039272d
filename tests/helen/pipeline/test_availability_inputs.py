"""Tests that results become runs, moments and spans by numpy as by a walk through them one by one."""

from __future__ import annotations

import json
import random
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
from attrs import astuple
from plain_accounts import union

from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.reports.availability_inputs import GOOD_ALONE, LEAST_GOOD, MOST_GOOD, runs_of
from helen.pipeline.reports.check_columns import KNOWN_REASONS, PENDING, UNKNOWN, Spans
from helen.pipeline.reports.presence import Heard, absences_for
from helen.pipeline.reports.transitions import COUNTED, SINCE, Transitions

Result = tuple[int, int, int, int]  # series, time, at, status


def walked(results: list[Result]) -> list[tuple[int, int, int, int, int]]:
    """Return each run as (series, first, last, status, good for) by a walk through the results."""
    runs: list[tuple[int, int, int, int, int]] = []
    for series, group in groupby(sorted(results), key=lambda each: each[0]):
        rows = list(group)
        gaps = sorted(after[1] - before[1] for before, after in pairwise(rows))
        usual = 3 * gaps[(len(gaps) - 1) // 2] if gaps else None
        good = GOOD_ALONE if usual is None else max(LEAST_GOOD, min(MOST_GOOD, usual))
        for at, (_, time, _, status) in enumerate(rows):
            goes_on = at > 0 and rows[at - 1][3] == status and time - rows[at - 1][1] <= good
            begin = runs.pop()[1] if goes_on else time
            runs.append((series, begin, time, status, good))
    return runs


def found(results: list[Result]) -> list[tuple[int, ...]]:
    columns = [np.array(column) for column in zip(*results, strict=True)]
    return list(zip(*(column.tolist() for column in runs_of(*columns)), strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_as_one_walks_through_them(seed: int) -> None:
    """Runs of results in any order, with pauses and equal times, are those of a walk through them."""
    rng, results = random.Random(seed), [(90_000, 5 * MICROS, 1, 2)]
    for series in rng.sample(range(50), 6):
        time = 0
        for at in range(rng.randrange(1, 60)):
            time += rng.choice([0, 60, 60, 60, 61, 400, 30_000]) * MICROS
            results.append((series, time, at, rng.choice([0, 0, 0, 2])))
    rng.shuffle(results)
    assert found(results) == walked(results)


def test_times_that_are_far_apart_and_numbers_that_are_high() -> None:
    """Times far apart and high series numbers, too much for one integer, give the same runs."""
    results = [(series, time, 0, 0) for series in (0, 2**31 - 2) for time in (0, 2**52, 60 * MICROS)]
    assert found(results) == walked(results)
    assert found([(4, 7, 0, 1)]) == [(4, 7, 7, 1, 900 * MICROS)]
    assert [len(column) for column in runs_of(*(np.array([], np.int64) for _ in range(4)))] == [0] * 5


RECORDED = {"at": 12.5, "now": {"status": "critical", "attempt": 0, "reason": "x"}, "was": {"status": "ok"}}
# A document -> status, reason, status and reason before, whether both were confirmed; None: it is left out.
TOLD: dict[str, tuple[dict[str, Any], tuple[Any, ...] | None]] = {
    "confirmed": (RECORDED, (2, "x", 0, None, True, True)),
    "not yet": (RECORDED | {"now": {"status": "critical", "attempt": 1}}, (2, None, 0, None, False, True)),
    "after a soft one": (RECORDED | {"was": {"status": "critical", "attempt": 2}}, (2, "x", 2, None, True, False)),
    "of a later version": (
        RECORDED | {"now": {"status": "odd", "attempt": 0, "new": [1]}, "was": None, "more": {}},
        (UNKNOWN, None, UNKNOWN, None, True, True),
    ),
    "with reasons": (
        RECORDED | {"now": {"status": "unknown", "attempt": 0, "reason": ""}, "was": {"reason": "agent-away"}},
        (3, None, UNKNOWN, "agent-away", True, True),
    ),
    "without a time": ({"now": {"status": "ok", "attempt": 0}}, None),
    "with a text as time": (RECORDED | {"at": "12.5"}, None),
}  # fmt: skip


@pytest.mark.parametrize(("document", "told"), TOLD.values(), ids=TOLD)
def test_what_a_transition_says(document: dict[str, Any], told: tuple[Any, ...] | None) -> None:
    """A transition gives its status, the one before, and if each was confirmed; an unusable document gives none."""
    codes: dict[str | None, int] = {reason: code for code, reason in enumerate(KNOWN_REASONS)}
    documents = [json.dumps(each) for each in (RECORDED | {"at": 1.0}, document)]
    found = Transitions.of_documents(np.array([3, 5]), np.array([70, 80]), documents, codes).take(slice(1, None))
    if told is None:
        assert len(found) == 0
        return
    assert (found.of.tolist(), found.at.tolist(), found.time.tolist()) == ([5], [80], [12_500_000])
    named = {code: reason for reason, code in codes.items()}
    reasons = [named[int(each[0])] for each in (found.reason, found.was_reason)]
    states = (found.status[0], reasons[0], found.was_status[0], reasons[1])
    assert (*states, bool(found.is_confirmed[0]), bool(found.was_confirmed[0])) == told


def plainly(rows: list[tuple[Any, ...]], begin: int, counted: str) -> list[tuple[int, ...]]:
    """Return the moments of one check by a walk through its transitions: (time, status, reason, was, was reason)."""
    ordered = sorted(rows)
    kept = [row for row in ordered if row[6] or counted == SINCE]
    before = [row for row in kept if row[0] <= begin][-1:]
    found = [(row[0], *row[2:6]) for row in [*before, *(row for row in kept if row[0] > begin)]]
    if ordered and not before and not (ordered[0][6] and ordered[0][7]):
        state = ordered[0][4:6] if ordered[0][7] else (UNKNOWN, KNOWN_REASONS.index(PENDING))
        found.insert(0, (ordered[0][0], *state, *state))
    return found


@pytest.mark.parametrize("counted", COUNTED)
def test_moments_of_many_checks_are_as_of_one_after_the_other(counted: str) -> None:
    """The moments of 1,500 generated checks, taken at once, equal those of a walk through each."""
    rng = random.Random(11)
    for _ in range(250):
        begin = rng.randrange(10, 40)
        told = [
            [(rng.randrange(50), at, rng.randrange(4), rng.randrange(5), rng.randrange(4), rng.randrange(5),
              rng.random() < 0.5, rng.random() < 0.5) for at in range(rng.randrange(6))]
            for _ in range(6)
        ]  # fmt: skip
        rows = [(of, *row) for of, each in enumerate(told) for row in each]
        rng.shuffle(rows)
        columns = [np.array(column) for column in zip(*rows, strict=True)] if rows else []
        found = Transitions(*columns).in_order().moments(begin, counted)
        listed = list(zip(*(column.tolist() for column in astuple(found)), strict=True))
        assert listed == [(of, *row) for of, each in enumerate(told) for row in plainly(each, begin, counted)]


def test_spans_are_joined_check_by_check() -> None:
    """Spans of many checks are joined check by check in any order: touching ones become one, and empty ones none."""
    rng = random.Random(2)
    for _ in range(300):
        each = [[(rng.randrange(40), rng.randrange(40)) for _ in range(rng.randrange(5))] for _ in range(4)]
        rows = [(of, *span) for of, spans in enumerate(each) for span in spans]
        rng.shuffle(rows)
        found = Spans.union(*np.array(rows, np.int64).reshape(len(rows), 3).T)
        expected = [(of, *span) for of, spans in enumerate(each) for span in union(spans)]
        assert list(zip(*(column.tolist() for column in astuple(found)), strict=True)) == expected
    far = Spans.union(np.array([0, 7]), np.array([-(2**61), 5]), np.array([2**61, 6]))  # too much for one integer
    assert (far.begin.tolist(), far.end.tolist()) == ([-(2**61), 5], [2**61, 6])


def test_a_check_lacks_the_helen_that_had_it() -> None:
    """A check lacks a Helen from which its results came while that was away, and a check without results lacks all
    of them."""
    away = {1: [(10, 30), (60, 80)], 2: [(20, 40)]}
    heard = Heard.of_results(np.array([2, 0, 2, 2]), np.array([50, 15, 25, 5]), np.array([1, 2, 2, 1]))
    found = absences_for(heard, 4, away, (0, 100))
    assert list(zip(*(column.tolist() for column in astuple(found)), strict=True)) == [
        (0, 20, 40), (1, 20, 30), (2, 10, 40), (2, 60, 80), (3, 20, 30),
    ]  # fmt: skip
    assert len(absences_for(Heard(), 4, {}, (0, 100))) == 0
