"""Joins two sides by an operator: numbers and series, or series with those of the same labels. numpy, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from helen.promql.errors import Refused
from helen.promql.matrix import Key, Matrix, grouped, key_of, merged, without_name
from helen.promql.nodes import NAME, Binary, Labels, Pairing

Array = Any  # of numpy
ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod, "^": np.power, "atan2": np.arctan2,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "==": np.equal, "!=": np.not_equal, ">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal,
}  # fmt: skip
SETS = frozenset({"and", "or", "unless"})


def of_numbers(operator: str, left: Array, right: Array) -> Array:
    """Return what an operator makes of two rows of numbers; a comparison says 0 or 1."""
    with np.errstate(all="ignore"):
        return np.asarray((ARITHMETIC.get(operator) or COMPARISONS[operator])(left, right), float)


def of_series_and_number(node: Binary, series: Matrix, number: Array, is_left: bool) -> Matrix:
    """Return what an operator makes of series and a number at each step. `is_left`: the series are on the left."""
    sides = (series.values, number) if is_left else (number, series.values)
    found = of_numbers(node.operator, *sides)
    if node.operator in ARITHMETIC or node.is_bool:
        return series.with_values(found).nameless()
    return series.with_values(series.values, series.there & (found != 0))


def of_series(node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Return what an operator makes of the series of two sides. Raises Refused where they can't be paired."""
    if node.operator in SETS:
        return _of_sets(node, left, right)
    many, one = (right, left) if node.pairing.many == "right" else (left, right)
    partners = _partners(node.pairing, one, "left" if node.pairing.many == "right" else "right")
    rows, labels, used = [], [], dict[Key, Array]()
    for at, own in enumerate(many.labels):
        key = _signature(node.pairing, own)
        if key not in partners:
            continue
        other, values, there = partners[key]
        is_there = many.there[at] & there
        if not node.pairing.many:
            if key in used and (used[key] & is_there).any():
                raise Refused(f"multiple matches for labels {_shown(key)}: many-to-one matching must be explicit")
            used[key] = used.get(key, False) | is_there
        sides = (values, many.values[at]) if node.pairing.many == "right" else (many.values[at], values)
        rows.append(_row(node, *sides, is_there))
        labels.append(_labels(node, own, other))
    return merged(Matrix.of(labels, rows, left.values.shape[1]))


def _row(node: Binary, left: Array, right: Array, there: Array) -> tuple[Array, Array]:
    found = of_numbers(node.operator, left, right)
    if node.operator in ARITHMETIC or node.is_bool:
        return found, there
    return left, there & (found != 0)


def _partners(pairing: Pairing, one: Matrix, side: str) -> dict[Key, tuple[Labels, Array, Array]]:
    """Return the series of the side that has one for each signature."""
    found = {}
    for key, places in grouped(_signature(pairing, labels) for labels in one.labels).items():
        there = one.there[places]
        if len(places) > 1 and (there.sum(axis=0) > 1).any():
            raise Refused(
                f"found duplicate series for the match group {_shown(key)} on the {side} hand-side of the operation:"
                " name more labels with on(...), or aggregate that side"
            )
        values = np.where(there, one.values[places], 0.0).sum(axis=0) if len(places) > 1 else one.values[places[0]]
        found[key] = one.labels[places[0]], values, there.any(axis=0)
    return found


def _signature(pairing: Pairing, labels: Labels) -> Key:
    if pairing.is_on:
        return key_of({key: labels[key] for key in pairing.labels if key in labels})
    return key_of({key: value for key, value in labels.items() if key not in pairing.labels and key != NAME})


def _labels(node: Binary, own: Labels, other: Labels) -> Labels:
    """Return the labels of a pair: those of the side of many, and what the other side hands on."""
    pairing = node.pairing
    kept = without_name(own) if node.operator in ARITHMETIC or node.is_bool else dict(own)
    if not pairing.many:
        kept = {key: value for key, value in kept.items() if (key in pairing.labels) is pairing.is_on}
    for key in pairing.taken:
        if key in other:
            kept[key] = other[key]
        else:
            kept.pop(key, None)
    return kept


def _of_sets(node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Return `and`, `or` or `unless`: series of one side, as far as the other has some of the same labels."""
    first, second = (right, left) if node.operator == "or" else (left, right)
    known: dict[Key, Array] = {}
    for at, labels in enumerate(second.labels):
        key = _signature(node.pairing, labels)
        known[key] = known.get(key, False) | second.there[at]
    there = np.zeros_like(first.there)
    for at, labels in enumerate(first.labels):
        has = known.get(_signature(node.pairing, labels), np.zeros(first.there.shape[1], bool))
        there[at] = first.there[at] & (has if node.operator == "and" else ~has)
    kept = first.with_values(first.values, there)
    if node.operator != "or":
        return kept
    both = [np.concatenate(pair) for pair in ((left.values, kept.values), (left.there, kept.there))]
    return merged(Matrix(left.labels + kept.labels, *both))


def _shown(key: Key) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in key) + "}"
