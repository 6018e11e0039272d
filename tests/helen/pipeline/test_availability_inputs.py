"""Results in a row become runs: the same by sorting in numpy as by walking through them one by one."""

from __future__ import annotations

import random
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.reports.availability_inputs import GOOD_ALONE, LEAST_GOOD, MOST_GOOD, runs_of
from helen.pipeline.reports.availability_math import UNKNOWN, Moment
from helen.pipeline.reports.transitions import RecordedTransition, transition_of

Result = tuple[int, int, int, int]  # series, time, at, status


def walked(results: list[Result]) -> list[tuple[int, int, int, int, int]]:
    """Each run as (series, first, last, status, good for)."""
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
    """In any order, with pauses, with results of one moment, and a series that has one only."""
    rng, results = random.Random(seed), [(90_000, 5 * MICROS, 1, 2)]
    for series in rng.sample(range(50), 6):
        time = 0
        for at in range(rng.randrange(1, 60)):
            time += rng.choice([0, 60, 60, 60, 61, 400, 30_000]) * MICROS
            results.append((series, time, at, rng.choice([0, 0, 0, 2])))
    rng.shuffle(results)
    assert found(results) == walked(results)


def test_times_that_are_far_apart_and_numbers_that_are_high() -> None:
    """Too much for one integer: sorted column by column, to the same end."""
    results = [(series, time, 0, 0) for series in (0, 2**31 - 2) for time in (0, 2**52, 60 * MICROS)]
    assert found(results) == walked(results)
    assert found([(4, 7, 0, 1)]) == [(4, 7, 7, 1, 900 * MICROS)]
    assert [len(column) for column in runs_of(*(np.array([], np.int64) for _ in range(4)))] == [0] * 5


RECORDED = {"at": 12.5, "now": {"status": "critical", "attempt": 0, "reason": "x"}, "was": {"status": "ok"}}
TOLD: dict[str, tuple[dict[str, Any], RecordedTransition | None]] = {
    "confirmed": (RECORDED, RecordedTransition(Moment(12_500_000, 2, "x", 0, None), True, True)),
    "not yet": (
        RECORDED | {"now": {"status": "critical", "attempt": 1}},
        RecordedTransition(Moment(12_500_000, 2, None, 0, None), False, True),
    ),
    "after a soft one": (
        RECORDED | {"was": {"status": "critical", "attempt": 2}},
        RecordedTransition(Moment(12_500_000, 2, "x", 2, None), True, False),
    ),
    "of a later version": (
        RECORDED | {"now": {"status": "odd", "attempt": 0}, "was": None},
        RecordedTransition(Moment(12_500_000, UNKNOWN, None, UNKNOWN, None), True, True),
    ),
    "without a time": ({"now": {"status": "ok", "attempt": 0}}, None),
}


@pytest.mark.parametrize(("document", "transition"), TOLD.values(), ids=TOLD)
def test_what_a_transition_says(document: dict[str, Any], transition: RecordedTransition | None) -> None:
    """Its status, the one before, and how sure both were."""
    assert transition_of(document) == transition
