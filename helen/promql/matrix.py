"""Holds what parts of a question come to: a row for each series and a column for each step. numpy, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from helen.promql.errors import MOST_CELLS, Refused, TooMuch
from helen.promql.nodes import NAME, Labels

Array = Any  # of numpy
Key = tuple[tuple[str, str], ...]


@frozen(eq=False)
class Matrix:
    """Holds values of series at steps; where `there` is False a series has none.

    `times` are those of the steps, in milliseconds. Without `has_name` the name of the metric counts no more.
    """

    labels: list[Labels]
    values: Array
    there: Array

    @classmethod
    def of(cls, labels: list[Labels], rows: Sequence[tuple[Array, Array]], steps: int) -> Matrix:
        """Return the matrix of rows, each its values and where they are."""
        demand_room(len(labels), steps)
        values, there = np.empty((len(rows), steps)), np.zeros((len(rows), steps), bool)
        for at, (row, is_there) in enumerate(rows):
            values[at], there[at] = row, is_there
        return cls(labels, values, there)

    def with_values(self, values: Array, there: Array | None = None) -> Matrix:
        """Return the same series with other values."""
        return Matrix(self.labels, values, self.there if there is None else there)

    def nameless(self) -> Matrix:
        """Return the same values without the name of the metric. Raises Refused if two series become one."""
        return merged(Matrix([without_name(labels) for labels in self.labels], self.values, self.there))


def demand_room(series: int, steps: int) -> None:
    """Raise TooMuch for more series and steps than may be in memory."""
    if series * steps > MOST_CELLS:
        raise TooMuch(
            f"{series} series at {steps} steps are more than {MOST_CELLS} values: pick fewer series, or a longer step"
        )


def without_name(labels: Labels) -> Labels:
    """Return labels without the name of the metric."""
    return {key: value for key, value in labels.items() if key != NAME}


def key_of(labels: Labels) -> Key:
    """Return labels as a value that can be compared and looked up."""
    return tuple(sorted(labels.items()))


def merged(matrix: Matrix) -> Matrix:
    """Return series of the same labels as one. Raises Refused if two of them have a value at the same step."""
    rows: dict[Key, int] = {}
    places = [rows.setdefault(key_of(labels), len(rows)) for labels in matrix.labels]
    if len(rows) == len(places):
        return matrix
    shape, labels = (len(rows), matrix.there.shape[1]), list[Labels]()
    values, there = np.zeros(shape), np.zeros(shape, bool)
    for at, place in enumerate(places):
        if place == len(labels):
            labels.append(matrix.labels[at])
        is_there = matrix.there[at]
        if (there[place] & is_there).any():
            raise Refused("vector cannot contain metrics with the same labelset: pick one metric, or aggregate first")
        values[place] = np.where(is_there, matrix.values[at], values[place])
        there[place] |= is_there
    return Matrix(labels, values, there)


def grouped(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the places of each key, in the order in which they come."""
    found: dict[Key, list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(key, []).append(at)
    return found
