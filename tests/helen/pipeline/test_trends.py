"""Tests trends and usual values, by arithmetic and on seeded metrics with known faults."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from helen.pipeline.reports.forecasts import ANOMALIES, CAPACITY, MONDAY, Forecast, Strange, Task
from helen.pipeline.reports.trends import LEAST_POINTS, Reach, Trend, limit_of, reach, strange, trend, usual


def test_a_straight_line_is_found_whatever_the_outliers() -> None:
    """A straight line is found with a quarter of the points wrong, and reaches its limit on the right day."""
    days = np.arange(40.0)
    values = 50 + 0.5 * days
    values[::4] = 1000.0
    found = trend(days, values)
    assert found is not None
    assert (round(found.slope, 6), round(found.level, 6)) == (0.5, 69.5)
    assert found.low <= 0.5 <= found.high
    assert reach(found, 80.0).days == 21.0
    assert trend(days[: LEAST_POINTS - 1], values[: LEAST_POINTS - 1]) is None


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """The interval of a slope holds the true one in about 19 of 20 noisy trends."""
    rng, held = np.random.default_rng(3), 0
    days = np.arange(30.0)
    for _ in range(400):
        found = trend(days, 0.2 * days + rng.normal(0, 3, 30))
        held += found is not None and found.low <= 0.2 <= found.high
    assert 0.92 <= held / 400 <= 0.99


REACHED = {
    "rising": (Trend(2.0, 1.0, 4.0, 60.0), 80.0, Reach(10.0, 5.0, 20.0)),
    "falling to a floor": (Trend(-1.0, -2.0, -0.5, 30.0), 0.0, Reach(30.0, 15.0, 60.0)),
    "away from it": (Trend(-1.0, -2.0, -0.5, 30.0), 80.0, Reach(None, None, None)),
    "perhaps never": (Trend(1.0, -1.0, 2.0, 60.0), 80.0, Reach(20.0, 10.0, None)),
    "there already": (Trend(1.0, 1.0, 1.0, 80.0), 80.0, Reach(0.0, 0.0, 0.0)),
    "in more than ten years": (Trend(0.001, 0.001, 0.001, 0.0), 80.0, Reach(None, None, None)),
}


@pytest.mark.parametrize(("line", "limit", "expected"), REACHED.values(), ids=REACHED)
def test_when_a_limit_is_met(line: Trend, limit: float, expected: Reach) -> None:
    """A limit is met after so many days, the earliest and the latest; None means never."""
    assert reach(line, limit) == expected


def test_which_edge_of_a_range_counts() -> None:
    """The upper edge of a range limits a rising value and the lower one a falling value; a text that is no range
    limits nothing."""
    assert [limit_of(text, True) for text in ("80", "10:20", "10:", "@80:", "~:90", None, "x")] == [
        80.0, 20.0, None, 80.0, 90.0, None, None,
    ]  # fmt: skip
    assert [limit_of(text, False) for text in ("80", "10:20", "10:", "@0:10", "~:90")] == [0.0, 10.0, 10.0, 10.0, None]


def week(rng: np.random.Generator, weeks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return hours and values of weeks that are busy by day and quiet at night and at weekends."""
    hours = np.arange(weeks * 168)
    daily = 50 + 30 * np.sin(hours % 24 / 24 * 2 * math.pi)
    return hours, np.where(hours % 168 >= 120, daily / 3, daily) + rng.normal(0, 1.5, len(hours))


def test_faults_are_found_and_seasons_are_none() -> None:
    """At least 95 % of 200 seeded faults in a season are found, with at most 5 % false alarms."""
    rng, found, false = np.random.default_rng(5), 0, 0
    for _ in range(20):
        hours, values = week(rng, 6)
        places = rng.choice(np.arange(5 * 168, 6 * 168), 10, replace=False)
        values[places] += rng.choice((-25.0, 25.0), 10)
        told = {place for place, _, _ in strange(hours, values, 5 * 168, 6.0)}
        found += len(told & set(places.tolist()))
        false += len(told - set(places.tolist()))
    assert found >= 190
    assert false <= 20 * 158 * 0.05


def test_what_was_strange_is_not_usual_later() -> None:
    """A strange value stays strange in later weeks, and with few weeks the hour of the day is taken."""
    hours = np.arange(0, 168 * 6, 168)
    values = np.array([10.0, 10.2, 9.9, 90.0, 90.0, 90.0])
    assert [place for place, _, _ in strange(hours, values, 168 * 3, 6.0)] == [3, 4, 5]
    days = np.arange(0, 24 * 5, 24)
    expected = usual(days, np.array([1.0, 2.0, 3.0, 4.0, 99.0]), 24 * 4)
    assert expected is not None
    assert expected.value == 2.5
    assert usual(days[:2], np.array([1.0, 2.0]), 48) is None


def test_the_tasks_of_both_reports() -> None:
    """The tasks of both reports make rows of reports from rows of hours, one metric after the other, across batches."""
    hours = [
        {"series": s, "metric": "used", "unit": "%", "hour": MONDAY + h, "value": 50 + s * h / 24, "crit": "80",
         "warn": None, "min": 0.0, "max": 100.0} for s in (0, 1) for h in range(240)
    ]  # fmt: skip
    batches = [pa.RecordBatch.from_pylist(hours[:300]), pa.RecordBatch.from_pylist(hours[300:])]
    (batch,) = Task(Forecast(90.0), CAPACITY)(batches)
    (row,) = batch.to_pylist()
    assert (row["series"], row["per_day"], row["limit"], len(row["curve"])) == (1, 1.0, 80.0, 60)
    assert row["days"] == pytest.approx(20.04, abs=0.01)
    odd = [{**row, "value": 99.0 if row["hour"] == MONDAY + 200 else 50.0} for row in hours[:240]]
    (batch,) = Task(Strange(MONDAY + 168, 6.0), ANOMALIES)([pa.RecordBatch.from_pylist(odd)])
    assert [(row["value"], row["usual"], row["hour"].hour) for row in batch.to_pylist()] == [(99.0, 50.0, 8)]
