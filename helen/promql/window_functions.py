"""Computes functions over windows of samples, as Prometheus does: `rate`, `avg_over_time` and their like. numpy.

Each takes the samples of one series, the windows of all steps, and returns values and where there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from helen.promql.points import Curve, Points, Windows

Array = Any  # of numpy
Row = tuple[Array, Array]
Window = Callable[[Points, Array, int], Row]  # samples, steps and length in milliseconds
NEAR = 1.1  # a window's end that is nearer than so many usual distances of samples is reached by them


def gain(is_counter: bool, is_rate: bool) -> Window:
    """Return `rate`, `increase` or `delta`: what a series gained, extended to the ends of the window."""

    def function(points: Points, steps: Array, length: int) -> Row:
        curve = points.curve if is_counter else Curve(points.times, points.values, np.zeros(len(points.times)))
        windows = Windows.of(curve.times, steps, length)
        there = windows.counts >= 2
        if not there.any():
            return np.zeros(len(steps)), there
        first, last = windows.begins[there], windows.ends[there] - 1
        gained = curve.values[last] - curve.values[first] + curve.added[last] - curve.added[first]
        factor = _extension(curve, first, last, steps[there], length, gained if is_counter else None)
        found = np.zeros(len(steps))
        found[there] = gained * factor / (length / 1000 if is_rate else 1.0)
        return found, there

    return function


def _extension(curve: Curve, first: Array, last: Array, steps: Array, length: int, gained: Array | None) -> Array:
    """Return by what a gain is multiplied so that it is that of the whole window; no counter begins below 0."""
    sampled = (curve.times[last] - curve.times[first]) / 1000
    usual = sampled / (last - first)
    before = (curve.times[first] - (steps - length)) / 1000
    after = (steps - curve.times[last]) / 1000
    before = np.where(before >= usual * NEAR, usual / 2, before)
    if gained is not None:
        value = curve.values[first]
        with np.errstate(divide="ignore", invalid="ignore"):
            since_zero = np.where((gained > 0) & (value >= 0), sampled * (value / gained), np.inf)
        before = np.minimum(before, since_zero)
    after = np.where(after >= usual * NEAR, usual / 2, after)
    return (sampled + before + after) / sampled


def last_gain(is_rate: bool) -> Window:
    """Return `irate` (of a counter, per second) or `idelta`: what the last two samples differ by."""

    def function(points: Points, steps: Array, length: int) -> Row:
        windows = Windows.of(points.times, steps, length)
        there = windows.counts >= 2
        last = windows.ends[there] - 1
        newer, older = points.values[last], points.values[last - 1]
        found = np.zeros(len(steps))
        if is_rate:
            gained = np.where(newer < older, newer, newer - older)
            found[there] = gained / ((points.times[last] - points.times[last - 1]) / 1000)
        else:
            found[there] = newer - older
        return found, there

    return function


def steps_that(differ: Callable[[Array, Array], Array]) -> Window:
    """Return `changes` or `resets`: how many samples differ from the one before them, both in the window."""

    def function(points: Points, steps: Array, length: int) -> Row:
        windows = Windows.of(points.times, steps, length)
        there = windows.counts >= 1
        known = np.cumsum(differ(points.values[:-1], points.values[1:]))
        before = np.concatenate([[0], known, known[-1:]]).astype(float)
        first, last = windows.begins[there], windows.ends[there] - 1
        found = np.zeros(len(steps))
        found[there] = before[last] - before[first]
        return found, there

    return function


def joined(how: Callable[[Points, Windows], Array]) -> Window:
    """Return a function of all samples of a window that needs one of them at least."""

    def function(points: Points, steps: Array, length: int) -> Row:
        windows = Windows.of(points.times, steps, length)
        there = windows.counts >= 1
        if not there.any():
            return np.zeros(len(steps)), there
        return np.where(there, how(points, windows), 0.0), there

    return function


def _total(points: Points, windows: Windows) -> Array:
    return windows.reduce(np.add, points.values if points.sums is None else points.sums.total)


def _count(points: Points, windows: Windows) -> Array:
    return windows.counts.astype(float) if points.sums is None else windows.reduce(np.add, points.sums.count)


def _mean(points: Points, windows: Windows) -> Array:
    return _total(points, windows) / np.maximum(_count(points, windows), 1)


def _least(points: Points, windows: Windows) -> Array:
    return windows.reduce(np.fmin, points.values if points.sums is None else points.sums.least)


def _most(points: Points, windows: Windows) -> Array:
    return windows.reduce(np.fmax, points.values if points.sums is None else points.sums.most)


def _last(points: Points, windows: Windows) -> Array:
    return points.values[np.maximum(windows.ends - 1, 0)]


def _variance(points: Points, windows: Windows) -> Array:
    if points.sums is not None:
        squares = windows.reduce(np.add, points.sums.squares) / np.maximum(_count(points, windows), 1)
        return np.maximum(squares - _mean(points, windows) ** 2, 0.0)
    return _each(points, windows, np.var)


def quantile(which: float) -> Window:
    """Return `quantile_over_time`, of the last values where samples are those of a rollup."""

    def one(values: Array) -> float:
        if not 0 <= which <= 1:
            return float("nan") if which != which else float("-inf") if which < 0 else float("inf")
        return float(np.quantile(values, which))

    return joined(lambda points, windows: _each(points, windows, one))


def _each(points: Points, windows: Windows, call: Callable[[Array], Any]) -> Array:
    ranges = zip(windows.begins.tolist(), windows.ends.tolist(), strict=True)
    return np.array([call(points.values[begin:end]) if end > begin else 0.0 for begin, end in ranges], float)


FUNCTIONS: dict[str, Window] = {
    "rate": gain(True, True), "increase": gain(True, False), "delta": gain(False, False),
    "irate": last_gain(True), "idelta": last_gain(False),
    "changes": steps_that(lambda old, new: (old != new) & ~(np.isnan(old) & np.isnan(new))),
    "resets": steps_that(lambda old, new: new < old),
    "avg_over_time": joined(_mean), "min_over_time": joined(_least), "max_over_time": joined(_most),
    "sum_over_time": joined(_total), "count_over_time": joined(_count), "last_over_time": joined(_last),
    "present_over_time": joined(lambda points, windows: np.ones(len(windows.begins))),
    "stddev_over_time": joined(lambda points, windows: np.sqrt(_variance(points, windows))),
    "stdvar_over_time": joined(_variance),
}  # fmt: skip
KEEPS_NAME = frozenset({"last_over_time"})
