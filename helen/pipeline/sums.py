"""Rows of rollups -> rows of longer buckets, or the same ones put together. Arrow and numpy, no Spark.

The same as `partials.merged` and `partials.newest`, which do it by frames (views do, and the tests compare the two).
What runs every five minutes runs here: it costs a tenth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helen.pipeline.digest import SECOND, Coded, Groups, coded, doubles, micros, moments, sum_of_some
from helen.pipeline.schema import COUNTER, M5, STATUSES

_ADD = ("n", *STATUSES, "values")
_NEVER = 2**63 - 1
Array = Any  # of numpy


def merge(rows: pa.Table, seconds: int) -> pa.Table:
    """One row for each series, metric and bucket of `seconds`, in this order. Columns of m5, `day` included."""
    if not rows.num_rows:
        return M5.arrow.empty_table()
    series, name, unit, kind = rows["series"].to_numpy(), *(coded(rows[each]) for each in ("metric", "unit", "kind"))
    time, size = micros(rows["bucket"]), seconds * SECOND
    bucket = time - time % size
    begins, ends = (_times(rows[each], missing) for each, missing in (("first_at", _NEVER), ("last_at", -_NEVER)))
    groups = Groups.of(_keys(series, bucket // size, name, unit, kind), begins)
    last = _by_end(groups, ends)
    known_first, known_last = begins[groups.order][groups.starts] != _NEVER, ends[last] != -_NEVER
    columns = {
        "series": pa.array(groups.first(series), pa.int32()), "bucket": moments(groups.first(bucket)),
        "metric": _words(name, groups), "unit": _words(unit, groups), "kind": _words(kind, groups),
        **{each: pa.array(groups.total(rows[each].to_numpy())) for each in _ADD},
        **{each: sum_of_some(groups, doubles(rows[each])) for each in ("sum", "sumsq", "cpu_ms")},
        "min": _nullable(groups.least(doubles(rows["min"]))), "max": _nullable(groups.most(doubles(rows["max"]))),
        "peak_kib": _nullable(groups.most(doubles(rows["peak_kib"]))),
        "first": pa.array(groups.first(doubles(rows["first"])), mask=~known_first),
        "first_at": moments(groups.first(begins), ~known_first),
        "last": pa.array(doubles(rows["last"])[last], mask=~known_last), "last_at": moments(ends[last], ~known_last),
        "increase": _increase(groups, rows, kind),
    }  # fmt: skip
    columns["day"] = pc.cast(columns["bucket"], pa.date32(), safe=False)
    return pa.table([columns[each] for each in M5.arrow.names], schema=M5.arrow)


def newest(rows: pa.Table) -> pa.Table:
    """Of h1 or d1: the rows that count, those with the highest `version` of each series, metric and bucket."""
    if not rows.num_rows:
        return rows
    series, words = rows["series"].to_numpy(), [coded(rows[each]) for each in ("metric", "unit", "kind")]
    groups = Groups.of(_keys(series, micros(rows["bucket"]) // SECOND, *words), rows["version"].to_numpy())
    ends = np.append(groups.starts[1:], len(groups.order)) - 1
    return rows.take(pa.array(groups.order[ends]))


def _times(column: pa.ChunkedArray, missing: int) -> Array:
    return column.cast(pa.int64()).fill_null(missing).to_numpy()


def _keys(series: Array, place: Array, *words: Coded) -> Array:
    """One integer for each series, metric and bucket, in this order."""
    code = np.zeros(len(series), np.int64)
    for each in words:
        rank = np.argsort(np.argsort(np.array(each.words.to_pylist(), object)))
        code = code * len(rank) + rank[each.codes]
        if len(each.words) > 1:
            code = np.unique(code, return_inverse=True)[1]  # as few as there are: the product must fit into 63 bits
    place = place - place.min()
    return ((series.astype(np.int64) - int(series.min())) * (int(code.max()) + 1) + code) * (
        int(place.max()) + 1
    ) + place


def _by_end(groups: Groups, ends: Array) -> Array:
    """Of each group the row that ends last; rows that follow each other are in this order already."""
    ordered = ends[groups.order]
    later = ordered[1:] < ordered[:-1]
    later[groups.starts[1:] - 1] = False
    if later.any():
        of = np.repeat(np.arange(len(groups.starts)), np.diff(np.append(groups.starts, len(ordered))))
        order = groups.order[np.lexsort((ordered, of))]
    else:
        order = groups.order
    return order[np.append(groups.starts[1:], len(order)) - 1]


def _increase(groups: Groups, rows: pa.Table, kind: Coded) -> pa.Array:
    """What counters gained in the rows, and between them: a first value below the last one before began again at 0."""
    is_counter = np.array([word == COUNTER for word in kind.words.to_pylist()])[kind.codes]
    if not is_counter.any():
        return sum_of_some(groups, doubles(rows["increase"]))
    first, last = doubles(rows["first"])[groups.order], doubles(rows["last"])[groups.order]
    gap = first - np.concatenate([[np.nan], last[:-1]])
    gap[groups.starts] = np.nan
    gained = np.where(gap >= 0, gap, np.where(gap < 0, first, 0.0))
    between = np.zeros(len(gained))
    between[groups.order] = gained
    return sum_of_some(groups, doubles(rows["increase"]) + np.where(is_counter, between, 0.0))


def _words(of: Coded, groups: Groups) -> pa.Array:
    return of.words.take(pa.array(groups.first(of.codes)))


def _nullable(values: Array) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
