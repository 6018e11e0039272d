"""Computes trends of metrics and their usual values. Pure arithmetic on arrays, robust throughout: medians, no means.

A trend is the median of the slopes between all pairs of points (Theil and Sen), with the interval that Kendall's
statistic gives; up to 29 % of the points may be anything. The usual value at an hour of the week is the median of that
hour in earlier weeks, and the median distance from it (MAD) says how much it varies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from equus_protocol.ranges import Range

LEAST_POINTS = 8  # of a trend: with fewer the interval says nothing
MOST_POINTS = 400  # all pairs of them are 80,000; more points are thinned out evenly
SURE = 1.96  # standard deviations: 19 of 20 intervals hold the true slope
LEAST_WEEKS = 3  # of the same hour of the week; else the same hour of the day is taken
MAD_TO_SIGMA = 1.4826
LEAST_SPREAD = 0.01  # of the usual value: a metric that hardly ever moves isn't strange when it moves a little
FAR = 10 * 365.0  # days: beyond ten years nothing is known

Array = Any  # of numpy


@frozen
class Trend:
    """Holds the change per day, its interval, and the level of the line at the last point."""

    slope: float
    low: float
    high: float
    level: float


@frozen
class Reach:
    """Holds days until a line is crossed; None: never, or not within FAR. The interval gives the other two."""

    days: float | None
    earliest: float | None
    latest: float | None


@frozen
class Usual:
    """Holds the usual value at an hour, and how much it varies."""

    value: float
    spread: float

    def score(self, value: float) -> float:
        """Return the distance from the usual value in standard deviations, as if it were normally distributed."""
        return (value - self.value) / self.spread


def trend(days: Array, values: Array) -> Trend | None:
    """Return the trend of points in the order of time; None where there are too few of them."""
    if len(days) > MOST_POINTS:
        chosen = np.linspace(0, len(days) - 1, MOST_POINTS).astype(int)
        days, values = days[chosen], values[chosen]
    count = len(days)
    if count < LEAST_POINTS:
        return None
    first, second = np.triu_indices(count, 1)
    apart = days[second] - days[first]
    slopes = np.sort((values[second] - values[first])[apart > 0] / apart[apart > 0])
    if not len(slopes):
        return None
    slope = float(np.median(slopes))
    reach = SURE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - reach) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + reach) / 2))
    level = float(np.median(values - slope * (days - days[-1])))
    return Trend(slope, float(slopes[low]), float(slopes[high]), level)


def reach(line: Trend, limit: float) -> Reach:
    """Return when the line meets a limit; 0 where it is there already."""

    def until(slope: float) -> float | None:
        """Return the days until a line of this slope meets the limit."""
        if line.level == limit:
            return 0.0
        if slope == 0 or (limit - line.level) / slope < 0:
            return None
        days = (limit - line.level) / slope
        return days if days <= FAR else None

    both = sorted(each if each is not None else math.inf for each in (until(line.low), until(line.high)))
    earliest, latest = (None if math.isinf(each) else round(each, 2) for each in both)
    days = until(line.slope)
    return Reach(None if days is None else round(days, 2), earliest, latest)


def limit_of(text: str | None, rising: bool) -> float | None:
    """Return the edge of a Nagios range that a metric runs into; None: there is none on that side."""
    if not text:
        return None
    try:
        found = Range.parse(text)
    except ValueError:
        return None
    edge = found.start if found.inside == rising else found.end
    return edge if math.isfinite(edge) else None


def usual(hours: Array, values: Array, at: int) -> Usual | None:
    """Return the usual value for the hour `at` (since a Monday, 00:00), from hours before it; None if too few."""
    same_week = values[(hours < at) & ((at - hours) % 168 == 0)]
    chosen = same_week if len(same_week) >= LEAST_WEEKS else values[(hours < at) & ((at - hours) % 24 == 0)]
    if len(chosen) < LEAST_WEEKS:
        return None
    middle = float(np.median(chosen))
    spread = float(np.median(np.abs(chosen - middle))) * MAD_TO_SIGMA
    return Usual(middle, max(spread, abs(middle) * LEAST_SPREAD, 1e-9))


def strange(hours: Array, values: Array, first: int, threshold: float) -> list[tuple[int, Usual, float]]:
    """Return the places, from the hour `first` on, of values beyond `threshold`, with the usual and the score.

    A strange value is no part of the usual ones later on: an outage of a week doesn't make the next one normal.
    """
    found: list[tuple[int, Usual, float]] = []
    good = np.ones(len(hours), bool)
    for place in np.flatnonzero(hours >= first):
        expected = usual(hours[good], values[good], int(hours[place]))
        if expected is None:
            continue
        score = expected.score(float(values[place]))
        if abs(score) > threshold:
            found.append((int(place), expected, score))
            good[place] = False
    return found


def thinned(values: Sequence[float], most: int = 60) -> list[float]:
    """Return few enough of the values to draw."""
    if len(values) <= most:
        return list(values)
    return [values[at * (len(values) - 1) // (most - 1)] for at in range(most)]
