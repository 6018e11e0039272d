"""Joins series to groups: `sum by (agent) (...)`, `topk` and their like. numpy, no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from helen.promql.matrix import Matrix, grouped, key_of
from helen.promql.nodes import NAME, Aggregate, Labels

Array = Any  # of numpy
Join = Callable[[Array, Array], Array]  # values and where they are, of one group -> a row


def aggregate(node: Aggregate, of: Matrix, most: Array | None) -> Matrix:
    """Return the groups of a matrix. `most`, for topk and bottomk, is how many series each group keeps at each step."""
    kept = [_kept(node, labels) for labels in of.labels]
    groups = grouped(key_of(labels) for labels in kept)
    if most is not None:
        return _best(of, list(groups.values()), most, node.name == "topk")
    rows = []
    for places in groups.values():
        values, there = of.values[places], of.there[places]
        with np.errstate(all="ignore"):
            rows.append((_JOINS[node.name](values, there), there.any(axis=0)))
    return Matrix.of([dict(key) for key in groups], rows, of.values.shape[1])


def _kept(node: Aggregate, labels: Labels) -> Labels:
    if node.is_without:
        return {key: value for key, value in labels.items() if key not in node.labels and key != NAME}
    return {key: labels[key] for key in node.labels if key in labels}


def _sum(values: Array, there: Array) -> Array:
    return np.where(there, values, 0.0).sum(axis=0)


def _count(values: Array, there: Array) -> Array:
    return there.sum(axis=0).astype(float)


def _mean(values: Array, there: Array) -> Array:
    return _sum(values, there) / np.maximum(_count(values, there), 1)


def _least(values: Array, there: Array) -> Array:
    return np.fmin.reduce(np.where(there, values, np.nan), axis=0)


def _most(values: Array, there: Array) -> Array:
    return np.fmax.reduce(np.where(there, values, np.nan), axis=0)


def _one(values: Array, there: Array) -> Array:
    return np.ones(values.shape[1])


_JOINS: dict[str, Join] = {
    "sum": _sum, "avg": _mean, "min": _least, "max": _most, "count": _count, "group": _one,
}  # fmt: skip


def _best(of: Matrix, groups: list[list[int]], most: Array, is_top: bool) -> Matrix:
    """Return the series that are among the best of their group at each step; what is no number is the worst."""
    there = np.zeros_like(of.there)
    sign = -1.0 if is_top else 1.0
    wanted = np.clip(np.nan_to_num(most, nan=0.0), 0, len(of.labels))
    for places in groups:
        ranked = np.where(np.isnan(of.values[places]), np.inf, sign * of.values[places])
        order = np.lexsort((ranked, ~of.there[places]), axis=0)
        rank = np.argsort(order, axis=0, kind="stable")
        there[places] = of.there[places] & (rank < wanted.astype(int))
    return of.with_values(of.values, there)
