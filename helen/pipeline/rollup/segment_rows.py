"""Turns segments into rows for the lake and their sums per five minutes, in a task. Arrow and numpy, no Spark.

No other module sums results up; the tests compare its sums with DuckDB's. Spark's frames take ten times as long. Here a
segment fits into the caches, its rows are sorted once, and nothing is turned into JVM rows and back. Sums are additive,
so no task needs to see another's rows and there is no shuffle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.errors import NoSuchSeries
from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.schema import ASKED, CHECK, COUNTER, RESULTS, STATUSES, SUMS, TIME
from helen.pipeline.rollup.groups import Groups

# A result that took longer than this to arrive was kept in a spool: it counts when it ended, by the agent's clock less
# what Helen had measured that this one is ahead.
# All others count when Helen got them, so that no agent's clock matters while it is connected.
PROMPT = 120 * MICROS
# Beyond this the agent's clock is wrong: a spool keeps 7 days.
BELIEVED = 8 * 86_400 * MICROS
LONGEST = 366 * 86_400 * MICROS  # a run time beyond it, or an infinite one, says nothing about when a check ended
MOST_AHEAD_MS = 10**12  # of a clock: no product of it overflows
NEEDED = ["series", "time", "status", "origin", "took_ms", "cpu_ms", "peak_kib", "metrics"]

Array = Any  # of numpy


def rows_of(
    stored: pa.Table, helen: int, segment: int, numbers: Array, dropped: frozenset[int] = frozenset()
) -> pa.Table:
    """Return a segment as rows of `results`, `day` included. Columns that `stored` lacks are left out.

    `numbers` is series_id -> series; `dropped` are the `at` of results to leave out. Raises NoSuchSeries.
    """
    if dropped:
        stored = stored.filter(pc.invert(pc.is_in(stored["at"], pa.array(sorted(dropped), pa.int64()))))
    time = pa.array(times(stored), pa.int64()).cast(TIME)
    columns = {name: stored[name] for name in stored.schema.names if name != "series_id"} | {
        "helen": pa.repeat(pa.scalar(helen, pa.int32()), stored.num_rows),
        "segment": pa.repeat(pa.scalar(segment, pa.int64()), stored.num_rows),
        "series": pa.array(_series_of(stored["series_id"].to_numpy(), numbers, segment), pa.int32()),
        "time": time,
        "day": pc.cast(time, pa.date32(), safe=False),
    }
    chosen = [column for column in RESULTS.arrow if column.name in columns]
    if len(chosen) < len(RESULTS.arrow):  # read for sums alone: words of metrics are codes
        chosen = [column.with_type(columns[column.name].type) for column in chosen]
    return pa.table([columns[column.name] for column in chosen], schema=pa.schema(chosen))


def _series_of(ids: Array, numbers: Array, segment: int) -> Array:
    known = (ids >= 0) & (ids < len(numbers))
    series = numbers[np.where(known, ids, 0)] if len(numbers) else np.full(len(ids), -1)
    if unknown := np.unique(ids[~known | (series < 0)]).tolist():
        raise NoSuchSeries(f"segment {segment}", unknown)
    return series


def times(stored: pa.Table) -> Array:
    """Return the time by which each result counts, in microseconds since 1970."""
    received = micros(stored["received"])
    started = micros(stored["started"].fill_null(0))
    took = floats(stored["took_ms"]) * 1000
    ahead = np.clip(stored["clock_offset_ms"].fill_null(0).to_numpy(), -MOST_AHEAD_MS, MOST_AHEAD_MS) * 1000
    ended = started + np.where(np.abs(took) < LONGEST, took, 0.0).astype(np.int64) - ahead
    late = received - ended
    believed = (late > PROMPT) & (late <= BELIEVED) & stored["started"].is_valid().to_numpy()
    return np.where(believed, ended, received)


def sums_of(results: pa.Table) -> pa.Table:
    """Return rows of m5 from rows of `results`, `day` included, in the order of series, metric and bucket."""
    counted = results.select(NEEDED)  # a filter copies what it keeps, and the blobs are most of a row
    if pc.any(pc.equal(counted["origin"], ASKED)).as_py():
        counted = counted.filter(pc.not_equal(counted["origin"], ASKED))
    if not counted.num_rows:
        return SUMS.arrow.empty_table()
    return pa.concat_tables([_of_checks(counted), *_of_metrics(counted)])


def micros(column: pa.ChunkedArray) -> Array:
    """Return times as integers, microseconds since 1970."""
    return column.cast(pa.int64()).to_numpy()


def floats(column: pa.ChunkedArray) -> Array:
    """Return figures with NaN for null."""
    return column.cast(pa.float64()).to_numpy()


def _of_checks(rows: pa.Table) -> pa.Table:
    series, time, status = rows["series"].to_numpy(), micros(rows["time"]), rows["status"].to_numpy()
    groups = Groups.of(_joined(series, M5.place(time)), time)
    figures = (floats(rows[name]) for name in ("took_ms", "cpu_ms", "peak_kib"))
    series, time, status, took, cpu, peak = (each[groups.order] for each in (series, time, status, *figures))
    groups = groups.in_order()
    columns = _counts(groups, series, time, status) | _spread_of_some(groups, took, time)
    count = len(groups.starts)
    columns |= {
        "metric": pa.repeat(CHECK, count), "unit": pa.repeat("ms", count), "kind": pa.repeat("gauge", count),
        "increase": pa.nulls(count, pa.float64()), "increase_s": pa.nulls(count, pa.float64()),
        "cpu_ms": sum_of_some(groups, cpu), "cpu_runs": pa.array(groups.count_of(~np.isnan(cpu))),
        "peak_kib": _nullable(groups.most(peak)),
    }  # fmt: skip
    return _table(columns)


def _of_metrics(rows: pa.Table) -> list[pa.Table]:
    lists = rows["metrics"].combine_chunks()
    flat = lists.flatten()
    value = flat.field("value").to_numpy(zero_copy_only=False)
    known = np.flatnonzero(~np.isnan(value))
    if not len(known):
        return []
    row = pc.list_parent_indices(lists).to_numpy()[known]
    taken = pa.array(known)
    words = (metric_names(flat), flat.field("unit"), flat.field("kind"))
    name, unit, kind = (coded(each if len(known) == len(value) else each.take(taken)) for each in words)
    series, time = rows["series"].to_numpy()[row], micros(rows["time"])[row]
    code = (name.codes * len(unit.words) + unit.codes) * len(kind.words) + kind.codes
    groups = Groups.of(_joined(series, M5.place(time), code), time)
    status, value = rows["status"].to_numpy()[row[groups.order]], value[known[groups.order]]
    series, time = series[groups.order], time[groups.order]
    first = groups.order[groups.starts]
    groups = groups.in_order()
    columns = _counts(groups, series, time, status) | _spread(groups, value, time)
    kinds = kind.codes[first]
    is_counter = np.array([word == COUNTER for word in kind.words.to_pylist()])[kinds]
    count = len(groups.starts)
    columns |= {
        "metric": name.words.take(pa.array(name.codes[first])),
        "unit": unit.words.take(pa.array(unit.codes[first])), "kind": kind.words.take(pa.array(kinds)),
        "increase": pa.array(groups.gains(value), mask=~is_counter),
        "increase_s": pa.array((groups.last(time) - groups.first(time)) / MICROS, mask=~is_counter),
        "cpu_ms": pa.nulls(count, pa.float64()), "cpu_runs": pa.array(np.zeros(count, np.int64)),
        "peak_kib": pa.nulls(count, pa.float64()),
    }  # fmt: skip
    return [_table(columns)]


def metric_names(flat: pa.StructArray) -> pa.Array:
    """Return the same names as `frames.metric_name`: `used{path="/"}`, labels in the order of their names."""
    names, labels = flat.field("name"), flat.field("labels")
    offsets = labels.offsets.to_numpy()
    if offsets[-1] == offsets[0]:  # no labels at all
        return names
    written: dict[tuple[Any, ...], str] = {}
    made = names.to_pylist()
    for at, pairs in enumerate(labels.to_pylist()):
        if pairs:
            key = (made[at], *pairs)
            if key not in written:
                inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in sorted(pairs))
                written[key] = f"{made[at]}{{{inside}}}"
            made[at] = written[key]
    return pa.array(made, pa.string())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@frozen(eq=False)
class Coded:
    """Holds a column of few different words."""

    words: pa.Array
    codes: Array


def coded(column: pa.Array | pa.ChunkedArray) -> Coded:
    """Encode a column by a dictionary of its words."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column.dictionary_encode()
    return Coded(encoded.dictionary, encoded.indices.to_numpy().astype(np.int64))


def _joined(series: Array, place: Array, code: Array | None = None) -> Array:
    """Return one integer for each key, in the order of series, metric and bucket; `place` is that of the bucket."""
    least = int(place.min())
    width = int(place.max()) - least + 1
    key = series.astype(np.int64)
    if code is not None:
        key = key * (int(code.max()) + 1) + code
    return key * width + (place - least)


def _counts(groups: Groups, series: Array, time: Array, status: Array) -> dict[str, pa.Array]:
    each = {word: groups.count_of(status == number) for number, word in enumerate(STATUSES)}
    counts = {"n": groups.sizes()} | each
    keys = {"series": pa.array(groups.first(series), pa.int32()), "bucket": moments(M5.start(groups.first(time)))}
    return keys | {name: pa.array(values) for name, values in counts.items()}


def _spread(groups: Groups, value: Array, time: Array) -> dict[str, pa.Array]:
    return {
        "values": pa.array(groups.sizes()), "sum": pa.array(groups.total(value)),
        "sumsq": pa.array(groups.squares(value)), "min": pa.array(groups.least(value)),
        "max": pa.array(groups.most(value)), "first": pa.array(groups.first(value)),
        "first_at": moments(groups.first(time)), "last": pa.array(groups.last(value)),
        "last_at": moments(groups.last(time)),
    }  # fmt: skip


def _spread_of_some(groups: Groups, value: Array, time: Array) -> dict[str, pa.Array]:
    """Return the same figures of rows in order, of which some have no value: those that have one, by all groups."""
    if not np.isnan(value).any():
        return _spread(groups, value, time)
    group = np.repeat(np.arange(len(groups.starts)), groups.sizes())
    known = np.flatnonzero(~np.isnan(value[groups.order]))
    count = len(groups.starts)
    if not len(known):
        types = {name: SUMS.columns.field(name).type for name in _SPREAD}
        return {name: pa.nulls(count, kind) for name, kind in types.items()} | {
            "values": pa.array(np.zeros(count, int))
        }
    starts = np.flatnonzero(np.concatenate([[True], np.diff(group[known]) > 0]))
    inner = Groups(known, starts, len(known))
    places = np.full(count, -1)
    places[np.unique(group[known])] = np.arange(len(inner.starts))
    chosen = pa.array(places, mask=places < 0)
    found = {name: column.take(chosen) for name, column in _spread(inner, value, time).items()}
    return found | {"values": found["values"].fill_null(0)}


_SPREAD = ("values", "sum", "sumsq", "min", "max", "first", "first_at", "last", "last_at")


def sum_of_some(groups: Groups, value: Array) -> pa.Array:
    """Return the sum of each group without its NaN; null where a group has nothing else."""
    none = groups.count_of(~np.isnan(value)) == 0
    return pa.array(groups.total(np.where(np.isnan(value), 0.0, value)), mask=none)  # infinity stays what it is


def _nullable(values: Array) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def moments(values: Array, mask: Array = None) -> pa.Array:
    """Return microseconds since 1970 as times; null where `mask` is true."""
    return pa.array(values, pa.int64(), mask=mask).cast(TIME)


def _table(columns: dict[str, pa.Array]) -> pa.Table:
    columns["day"] = pc.cast(columns["bucket"], pa.date32(), safe=False)
    return pa.table([columns[name] for name in SUMS.arrow.names], schema=SUMS.arrow)
