"""Evaluates a question at some steps: nodes in, a matrix or numbers out. It gets samples from `Samples`. No I/O.

The semantics are those of Prometheus; tests/helen/promql compares the answers with its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from attrs import frozen

from helen.promql.aggregates import aggregate
from helen.promql.errors import Refused, Unsupported
from helen.promql.matrix import Matrix, demand_room
from helen.promql.nodes import END, START, Aggregate, Binary, Call, Labels, Negative, Node, Number, Selector, Text
from helen.promql.operators import SETS, of_numbers, of_series, of_series_and_number
from helen.promql.points import Points
from helen.promql.window_functions import FUNCTIONS, KEEPS_NAME, quantile

Array = Any  # of numpy
Found = list[tuple[Labels, Points]]
LOOKBACK = 300_000  # milliseconds for which a sample counts, as Prometheus has it


class Samples(Protocol):
    """Describes what has the samples of a question."""

    def of(self, selector: Selector) -> Found:
        """Return the series that a selector picks, with all samples that any step may need."""


@frozen(eq=False)
class Evaluation:
    """Evaluates nodes at `steps`, milliseconds since 1970; a sample counts for `lookback` milliseconds.

    `end` is the end of the range that is asked for, which the last step may not reach.
    """

    samples: Samples
    steps: Array
    end: int
    lookback: int = LOOKBACK

    def value(self, node: Node) -> Matrix | Array:
        """Return series, or a number for each step. Raises Refused."""
        if isinstance(node, Number):
            return np.full(len(self.steps), node.value)
        if isinstance(node, Selector):
            return self._newest(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        if isinstance(node, Binary):
            return self._binary(node)
        if isinstance(node, Negative):
            of = self.value(node.of)
            return of.with_values(-of.values).nameless() if isinstance(of, Matrix) else -of
        assert isinstance(node, Text)
        raise Unsupported("a string stands where Helen has numbers and series alone")

    def times_of(self, selector: Selector) -> Array:
        """Return the times that the steps mean to a selector, with its `offset` and `@`."""
        steps = self.steps
        if selector.at is not None:
            ends = {START: int(steps[0]), END: self.end}
            fixed = ends[selector.at] if isinstance(selector.at, str) else selector.at
            steps = np.full(len(steps), fixed)
        return steps - selector.offset

    def _newest(self, selector: Selector) -> Matrix:
        if selector.range is not None:
            raise Refused("a range of samples, such as used[5m], stands within a function: rate(used[5m])")
        found, times = self.samples.of(selector), self.times_of(selector)
        demand_room(len(found), len(times))
        rows = [points.newest(times, self.lookback) for _, points in found]
        return Matrix.of([labels for labels, _ in found], rows, len(times))

    def _over(self, name: str, args: tuple[Node, ...]) -> Matrix:
        function, selector = FUNCTIONS.get(name), args[-1]
        if function is None:
            function = quantile(float(self._number(args[0])[0]))
        if not isinstance(selector, Selector) or selector.range is None:
            raise Refused(f"{name}() takes a range of samples, such as used[5m]")
        found, times = self.samples.of(selector), self.times_of(selector)
        demand_room(len(found), len(times))
        with np.errstate(all="ignore"):
            rows = [function(points, times, selector.range) for _, points in found]
        matrix = Matrix.of([labels for labels, _ in found], rows, len(times))
        return matrix if name in KEEPS_NAME else matrix.nameless()

    def _call(self, node: Call) -> Matrix | Array:
        if node.name in FUNCTIONS or node.name == "quantile_over_time":
            return self._over(node.name, node.args)
        if node.name == "time":
            return self.steps / 1000
        if node.name == "vector":
            row = self._number(node.args[0])
            return Matrix.of([{}], [(row, np.ones(len(row), bool))], len(row))
        of = self._series(node.args[0])
        if node.name == "scalar":
            alone = of.there.sum(axis=0) == 1
            return np.where(alone, np.where(of.there, of.values, 0.0).sum(axis=0), np.nan)
        if node.name in ("sort", "sort_desc"):
            return of
        numbers = [self._number(each) for each in node.args[1:]]
        with np.errstate(all="ignore"):
            there = of.there & (numbers[0] <= numbers[1]) if node.name == "clamp" else of.there
            return of.with_values(_changed(node.name, of.values, numbers), there).nameless()

    def _aggregate(self, node: Aggregate) -> Matrix:
        most = None if node.parameter is None else self._number(node.parameter)
        return aggregate(node, self._series(node.of), most)

    def _binary(self, node: Binary) -> Matrix | Array:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, Matrix) and isinstance(right, Matrix):
            return of_series(node, left, right)
        if node.operator in SETS:
            raise Refused(f"`{node.operator}` joins series, and no numbers")
        if isinstance(left, Matrix):
            return of_series_and_number(node, left, right, True)
        if isinstance(right, Matrix):
            return of_series_and_number(node, right, left, False)
        return of_numbers(node.operator, left, right)

    def _series(self, node: Node) -> Matrix:
        found = self.value(node)
        if not isinstance(found, Matrix):
            raise Refused("a number stands where series are expected: vector(...) makes one of it")
        return found

    def _number(self, node: Node) -> Array:
        found = self.value(node)
        if isinstance(found, Matrix):
            raise Refused("series stand where a number is expected: scalar(...) makes one of them")
        return found


def _changed(name: str, values: Array, numbers: list[Array]) -> Array:
    if name == "round":
        parts = 1 / (numbers[0] if numbers else np.ones(values.shape[1]))
        return np.floor(values * parts + 0.5) / parts
    if name == "clamp":
        return np.maximum(numbers[0], np.minimum(numbers[1], values))
    if name in ("clamp_min", "clamp_max"):
        return (np.maximum if name == "clamp_min" else np.minimum)(values, numbers[0])
    return _OF_EACH[name](values)


_OF_EACH: Mapping[str, Any] = {"abs": np.abs, "ceil": np.ceil, "floor": np.floor, "sqrt": np.sqrt}
