"""Tests steps of counters: the short way of a batch gives those of the general one, with each column of m5."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from helen.pipeline.lake.local_days import date_of
from helen.pipeline.lake.schema import COUNTER, SUMS
from helen.pipeline.rollup.steps import CARRIED, Step, Stretch, as_rows, changed_steps, step_to

BUCKET = 300_000_000  # microseconds
VALUES = some.floats(allow_nan=False)


@given(VALUES, VALUES, some.integers(0, 2**50), some.integers(0, CARRIED), some.integers(1, CARRIED + 2))
def test_a_row_behind_the_last_one_has_one_step(before: float, value: float, at: int, lasted: int, later: int) -> None:
    """A counter's single new row behind the last one has the step of `step_to`, however far behind it is."""
    known = Stretch(at, at + lasted, before, before)
    row = Stretch(at + lasted + later, at + lasted + later, value, value)
    step = step_to(known, row)
    assert changed_steps([known], [known, row], [row]) == ([step] if step is not None else [])
    assert (step is None) == (later > CARRIED)


@pytest.mark.parametrize(
    ("row", "gain", "seconds"),
    [
        ((100, 200, 10, 30), -20, -100),  # within the other one: it takes its own gain back
        ((100, 300, 10, 50), -40, -200),
        ((100, 200, 30, 4), -4, -100),  # it began again within
        ((200, 400, 30, 70), -20, -100),  # it leaves the gain from 50 to 70
        ((200, 400, 30, 4), 0, -100),
        ((300, 400, 60, 70), 10, 0),  # at one moment: a step as usual
    ],
)
def test_a_row_that_begins_before_the_other_one_ends(row: Any, gain: float, seconds: float) -> None:
    """The overlap of two rows counts once, in gain and in time."""
    begin, end, first, last = row
    before = Stretch(0, 300_000_000, 5, 50)
    step = step_to(before, Stretch(begin * 1_000_000, end * 1_000_000, first, last))
    assert step == Step(begin // 300 * BUCKET, gain, seconds)


STEPS = some.lists(some.builds(Step, some.integers(0, 2**22).map(lambda n: n * BUCKET), VALUES, VALUES), max_size=3)


@given(some.dictionaries(some.tuples(some.integers(0, 9), some.sampled_from(("in", "ü")), some.just("B")), STEPS))
def test_rows_of_steps(steps: dict[tuple[int, str, str], list[Step]]) -> None:
    """Rows of steps are in order of series, metric and bucket, with counts of 0 and the rest unknown."""
    zero = dict.fromkeys(("n", "ok", "warning", "critical", "unknown", "values", "cpu_runs"), 0)
    expected = [
        {"series": key[0], "metric": key[1], "unit": key[2], "kind": COUNTER, "bucket": step.bucket,
         "increase": step.gain, "increase_s": step.seconds, "day": date_of(step.bucket), **zero}
        for key in sorted(steps) for step in sorted(steps[key], key=lambda step: step.bucket)
    ]  # fmt: skip
    assert as_rows(steps).equals(pa.Table.from_pylist(expected, schema=SUMS.arrow))
