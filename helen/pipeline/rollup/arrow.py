"""Merges rows of rollups into longer buckets, or several rows of one bucket into one. Arrow and numpy, no Spark.

lake/merging.py says how each column is merged. `frames.merged` and `frames.newest` do the same by Spark's frames, for
views. Work that comes every five minutes is done here: it costs a tenth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.merging import Merging, columns_of
from helen.pipeline.lake.schema import SUMS
from helen.pipeline.rollup.groups import Groups
from helen.pipeline.rollup.segment_rows import Coded, coded, floats, micros, moments, sum_of_some

_NEVER = 2**63 - 1
_FEW_CODES = 1_024  # so many times the series and the buckets of years fit into 63 bits
Array = Any  # of numpy


def merge(rows: pa.Table, level: Level) -> pa.Table:
    """Return one row for each series, metric and bucket of a level, in this order, with the columns of m5 and `day`.

    Columns that the rows do not have, beside the keys and `last_at`, are left out. The highest `version` comes last.
    """
    has = frozenset(rows.column_names)
    if not rows.num_rows:
        nothing = SUMS.arrow.empty_table()
        return nothing.append_column("version", pa.array([], pa.int64())) if "version" in has else nothing
    series, name, unit, kind = rows["series"].to_numpy(), *(coded(rows[each]) for each in ("metric", "unit", "kind"))
    place = level.place(micros(rows["bucket"]))
    bucket = level.time(place)
    ends = _times(rows["last_at"], -_NEVER)
    begins = _times(rows["first_at"], _NEVER) if "first_at" in has else ends
    groups = Groups.of(keys_of(series, place, name, unit, kind), begins)
    last = _by_end(groups, ends)
    known_first, known_last = begins[groups.order][groups.starts] != _NEVER, ends[last] != -_NEVER
    columns = {
        "series": pa.array(groups.first(series), pa.int32()), "bucket": moments(groups.first(bucket)),
        "metric": _words(name, groups), "unit": _words(unit, groups), "kind": _words(kind, groups),
        **{each: pa.array(groups.total(rows[each].fill_null(0).to_numpy())) for each in columns_of(Merging.COUNT)
           if each in has},
        **{each: sum_of_some(groups, floats(rows[each])) for each in columns_of(Merging.SUM) if each in has},
        **{each: _nullable(groups.least(floats(rows[each]))) for each in columns_of(Merging.LEAST) if each in has},
        **{each: _nullable(groups.most(floats(rows[each]))) for each in columns_of(Merging.MOST) if each in has},
        "last_at": moments(ends[last], ~known_last),
    }  # fmt: skip
    if "first_at" in has:
        columns["first_at"] = moments(groups.first(begins), ~known_first)
    if "first" in has:
        columns["first"] = pa.array(groups.first(floats(rows["first"])), mask=~known_first)
    if "last" in has:
        columns["last"] = pa.array(floats(rows["last"])[last], mask=~known_last)
    columns["day"] = pc.cast(columns["bucket"], pa.date32(), safe=False)
    made = pa.table([columns[each.name] for each in SUMS.arrow if each.name in columns],
                    schema=pa.schema([each for each in SUMS.arrow if each.name in columns]))  # fmt: skip
    if "version" not in has:
        return made
    return made.append_column("version", pa.array(groups.most(rows["version"].fill_null(0).to_numpy())))


def newest(rows: pa.Table) -> pa.Table:
    """Return the rows that count in a table of an older format: those with the highest `version` of series and bucket.

    There a bucket was written whole, so a metric that the highest version lacks is not there any more.
    """
    if not rows.num_rows:
        return rows
    version = rows["version"].to_numpy()
    groups = Groups.of(keys_of(rows["series"].to_numpy(), micros(rows["bucket"]) // MICROS), version)
    highest = np.repeat(groups.last(version), np.diff(np.append(groups.starts, len(version))))
    return rows.take(pa.array(np.sort(groups.order[version[groups.order] == highest])))


def _times(column: pa.ChunkedArray, missing: int) -> Array:
    return column.cast(pa.int64()).fill_null(missing).to_numpy()


def keys_of(series: Array, place: Array, *words: Coded) -> Array:
    """Return one integer for each series, metric and bucket, in this order."""
    code, most = np.zeros(len(series), np.int64), 1
    for each in words:
        rank = np.empty(len(each.words), np.int64)
        rank[pc.array_sort_indices(each.words).to_numpy()] = np.arange(len(rank))
        code, most = code * len(rank) + rank[each.codes], most * len(rank)
        if most > _FEW_CODES:
            known, code = np.unique(code, return_inverse=True)  # as few as there are: the product must fit into 63 bits
            most = len(known)
    place = place - place.min()
    return ((series.astype(np.int64) - int(series.min())) * (int(code.max()) + 1) + code) * (
        int(place.max()) + 1
    ) + place


def _by_end(groups: Groups, ends: Array) -> Array:
    """Return the row of each group that ends last, of several the last one given.

    Rows that follow each other are in this order already.
    """
    ordered = ends[groups.order]
    later = (ordered[1:] < ordered[:-1]) | ((ordered[1:] == ordered[:-1]) & (groups.order[1:] < groups.order[:-1]))
    later[groups.starts[1:] - 1] = False
    if later.any():
        of = np.repeat(np.arange(len(groups.starts)), np.diff(np.append(groups.starts, len(ordered))))
        order = groups.order[np.lexsort((groups.order, ordered, of))]
    else:
        order = groups.order
    return order[np.append(groups.starts[1:], len(order)) - 1]


def _words(of: Coded, groups: Groups) -> pa.Array:
    return of.words.take(pa.array(groups.first(of.codes)))


def _nullable(values: Array) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
