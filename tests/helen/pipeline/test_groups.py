"""Tests that groups of rows equal those of plain Python: ties, order, counts and figures, whatever the numbers."""

from __future__ import annotations

import random
from itertools import groupby

import numpy as np
import pytest

from helen.pipeline.rollup.groups import Groups

DAY = 86_400_000_000


def made(seed: int) -> tuple[list[int], list[int], list[float]]:
    """Return keys, times and values of rows: sorted or not, with ties, or too wide for one integer."""
    rng = random.Random(seed)
    count, widest = rng.randrange(1, 300), rng.choice([3, 1_000, 2**33])
    keys = [rng.randrange(widest) for _ in range(count)]
    times = [rng.choice([0, 1_790_000_000_000_000]) * (seed % 2) + rng.randrange(rng.choice([3, DAY])) for _ in keys]
    if seed % 3 == 0:
        keys.sort()
        times.sort()
    return keys, times, [rng.choice([0.0, -1.5, rng.uniform(0, 9)]) for _ in keys]


@pytest.mark.parametrize("seed", range(24))
def test_groups_are_those_of_plain_python(seed: int) -> None:
    """Groups and their figures are those of plain Python, in the order of the rows or sorted before."""
    keys, times, values = made(seed)
    rows = sorted(range(len(keys)), key=lambda row: (keys[row], times[row]))  # sorted() is stable
    expected = [list(each) for _, each in groupby(rows, key=keys.__getitem__)]
    groups, value = Groups.of(np.array(keys), np.array(times)), np.array(values)
    assert groups.order.tolist() == rows
    assert groups.rows == len(rows)
    for these, column in ((groups, value), (groups.in_order(), value[groups.order])):
        assert these.sizes().tolist() == list(map(len, expected))
        for least in (0.0, 1.0, 8.5):  # many rows are chosen, some, and few
            chosen = [sum(values[row] > least for row in each) for each in expected]
            assert these.count_of(column > least).tolist() == chosen
        assert these.first(column).tolist() == [values[each[0]] for each in expected]
        assert these.last(column).tolist() == [values[each[-1]] for each in expected]
        assert these.least(column).tolist() == [min(values[row] for row in each) for each in expected]
        assert these.most(column).tolist() == [max(values[row] for row in each) for each in expected]
        sums = [sum(values[row] for row in each) for each in expected]
        assert these.total(column).tolist() == pytest.approx(sums, rel=1e-9, abs=1e-9)


def test_a_group_of_nothing_chosen_counts_zero() -> None:
    """A group without a chosen row counts zero, the last one too."""
    groups = Groups.of(np.array([5, 1, 5, 9]), np.array([3, 2, 1, 0]))
    assert groups.count_of(np.array([False, False, False, False])).tolist() == [0, 0, 0]
    assert groups.count_of(np.array([True, False, True, False])).tolist() == [0, 2, 0]
    assert groups.order.tolist() == [1, 2, 0, 3]
