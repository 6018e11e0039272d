"""Holds the samples of a series, and picks from them what counts at a step. numpy, no I/O.

A sample is one result, or what a bucket of a rollup has of many: then its time is that of the last of them, and
functions over a window use the sums, bounds and counts of the buckets instead of the last values alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen

Array = Any  # of numpy


@frozen(eq=False)
class Sums:
    """Holds of each bucket the number of its values, their sum, the sum of their squares, and their bounds.

    A value that no function of the question needs is None.
    """

    count: Array
    total: Array
    squares: Array
    least: Array
    most: Array


@frozen(eq=False)
class Curve:
    """Holds a counter that never falls: its times in milliseconds, its values, and how much resets took off before."""

    times: Array
    values: Array
    added: Array

    @classmethod
    def of(cls, times: Array, values: Array) -> Curve:
        """Return the curve of samples; where a value falls the counter began again at 0."""
        with np.errstate(invalid="ignore"):
            fallen = np.where(np.diff(values, prepend=values[:1]) < 0, np.roll(values, 1), 0.0)
        return cls(times, values, np.cumsum(fallen))


@frozen(eq=False)
class Points:
    """Holds samples of one series in the order of their times, milliseconds since 1970. No two have the same time."""

    times: Array
    values: Array
    sums: Sums | None = None  # of a rollup
    buckets: Curve | None = None  # of a counter in a rollup: two samples for each bucket
    _curves: list[Curve] = field(init=False, repr=False, factory=list)

    @property
    def curve(self) -> Curve:
        """Return the samples as a counter."""
        if self.buckets is not None:
            return self.buckets
        if not self._curves:
            self._curves.append(Curve.of(self.times, self.values))
        return self._curves[0]

    def newest(self, steps: Array, lookback: int) -> tuple[Array, Array]:
        """Return the newest value at each step, and where there is one that is younger than `lookback`."""
        if not len(self.times):
            return np.zeros(len(steps)), np.zeros(len(steps), bool)
        place = np.searchsorted(self.times, steps, side="right") - 1
        found = np.maximum(place, 0)
        there = (place >= 0) & (steps - self.times[found] < lookback)
        return self.values[found], there


@frozen(eq=False)
class Windows:
    """Holds for each step where the samples begin and end that are in the window before it.

    The sample at its end is in it, the one at its beginning is not, as Prometheus has it since version 3.
    """

    begins: Array
    ends: Array

    @classmethod
    def of(cls, times: Array, steps: Array, length: int) -> Windows:
        """Return the windows of this length, milliseconds, that end at the steps."""
        begins = np.searchsorted(times, steps - length, side="right")
        return cls(begins, np.searchsorted(times, steps, side="right"))

    @property
    def counts(self) -> Array:
        """Return how many samples are in each."""
        return self.ends - self.begins

    def reduce(self, operation: Any, values: Array) -> Array:
        """Return what an operation makes of each window, each computed by itself; nothing sound where one is empty."""
        if not len(values):
            return np.zeros(len(self.begins))
        padded = np.append(values, values[-1])  # a window may end behind the last sample
        ranges = np.stack([np.minimum(self.begins, len(values)), self.ends], axis=1).ravel()
        return operation.reduceat(padded, ranges)[::2]
