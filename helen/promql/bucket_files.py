"""Reads buckets of one metric, or of all, from files of a rollup: the columns that are needed and no others. It blocks.

Words are read as codes of a dictionary, and rows that nobody wants are dropped batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from helen.pipeline.lake.lake_files import between, dataset, instant
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.schema import CHECK, STATUSES, Table
from helen.pipeline.rollup.arrow import keys_of, merge, newest
from helen.pipeline.rollup.segment_rows import Coded, coded, floats, micros
from helen.promql.errors import MOST_SAMPLES, TooMuch
from helen.promql.gathering import TIME
from helen.promql.kept_pieces import Columns, Piece
from helen.promql.needs import VALUE
from helen.promql.series_labels import IS_OK, OWN, STATE

Array = Any  # of numpy
Pair = tuple[Array, Array]
Span = tuple[int, int]
WORDS = ("metric", "unit", "kind")
KEY = ("series", "bucket", *WORDS, "last_at")
COUNTS = ("n", *STATUSES)  # of a check's own rows: the two series that Helen adds are made from them
MOST_ROWS = 2 * MOST_SAMPLES  # of one lot: the days at its ends have samples outside of the span, but for a list
DAY_MICROS = 86_400 * MICROS
EPOCH = date(1970, 1, 1).toordinal()
BATCHES, FILES = 2, 1  # that Arrow reads ahead
SOURCES: Mapping[str, str] = {
    "count": "values", "total": "sum", "squares": "sumsq", "least": "min", "most": "max", "first": "first",
    "first_time": "first_at", VALUE: "last", "increase": "increase", "increase_s": "increase_s",
}  # fmt: skip


@frozen(eq=False)
class BucketFiles:
    """Reads buckets of some series: `numbers` in their order. `name` is that of the one metric, None for all.

    `needed` are the columns of a piece beside its times. Where replaced rows may lie beside those that count,
    `has_old_rows`, those of the checks tell which ones count. `span` is that of a list of names, microseconds with
    both ends included: no rows outside of it are read, and one of each series in it is enough.
    """

    table: Table
    level: Level
    name: str | None
    needed: frozenset[str]
    numbers: Array
    has_old_rows: bool
    span: Span | None = None
    columns: tuple[str, ...] = field(init=False)

    @columns.default
    def _columns(self) -> tuple[str, ...]:
        more = {SOURCES[each] for each in self.needed} if self.name not in OWN else set()
        more |= set(COUNTS) if self.name is None or self.name in OWN else set()
        more |= {"version"} if self.has_old_rows else set()
        return tuple(each for each in self.table.columns.names if each in more or each in KEY)

    def key(self) -> Iterator[bytes]:
        """Yield all that the pieces follow from, besides the files."""
        yield self.numbers.tobytes()
        yield repr((self.level.name, self.name, sorted(self.needed), self.has_old_rows, self.span)).encode()

    def day_of(self, times: Array) -> Array:
        """Return the days on which the buckets of samples begin, as numbers; times in milliseconds."""
        return self.level.start(times.astype(np.int64) * 1000) // DAY_MICROS + EPOCH

    def read(self, lot: Sequence[str]) -> Iterator[Piece]:
        """Yield the pieces of all series in these files. Raises TooMuch."""
        rows = self._rows(lot)
        if not rows.num_rows:
            return
        ordered = _Ordered.of(rows, self.level)
        if ordered.has_doubles:
            ordered = _Ordered.of(newest(rows) if self.has_old_rows else merge(rows, self.level), self.level)
        for one in ordered.groups():
            yield from self._pieces(one)

    def _rows(self, lot: Sequence[str]) -> pa.Table:
        low, high = int(self.numbers[0]), int(self.numbers[-1])
        wanted = np.zeros(high - low + 1, bool)
        wanted[self.numbers - low] = True
        batches = dataset(self.table, lot, WORDS).to_batches(
            list(self.columns), filter=between(low, high) & self._in_span(), use_threads=False,
            batch_readahead=BATCHES, fragment_readahead=FILES,
        )  # fmt: skip
        kept, count = [], 0
        for batch in batches:
            mask = self._named(batch.column("metric"))
            if not wanted.all():
                mask &= wanted[batch.column("series").to_numpy() - low]
            kept.append(self._thinned(batch if mask.all() else batch.take(pa.array(np.flatnonzero(mask)))))
            count += kept[-1].num_rows
            if count > MOST_ROWS:
                raise TooMuch(f"more than {MOST_ROWS} buckets are to be read: ask for fewer series, or less time")
        if not count:
            return pa.table({})
        return pa.Table.from_batches([each for each in kept if each.num_rows]).unify_dictionaries()

    def _in_span(self) -> Any:
        """Return the condition for buckets that may have a sample in the span."""
        if self.span is None:
            return pc.scalar(True)
        begin, end = self.span
        return (pc.field("bucket") >= instant(self.level.start(begin))) & (pc.field("bucket") <= instant(end))

    def _thinned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that count: for a list the first of each series, so that the bound is one of series."""
        if self.span is None or self.has_old_rows or not batch.num_rows:
            return batch
        times, (begin, end) = _times(pa.Table.from_batches([batch]), self.level), self.span
        inside = np.flatnonzero((times >= begin // 1000) & (times <= end // 1000))
        codes = [batch.column("series").to_numpy(), *(batch.column(each).indices.to_numpy() for each in WORDS)]
        changes = np.logical_or.reduce([np.diff(each[inside]) != 0 for each in codes])  # files have series in order
        return batch.take(pa.array(inside[np.append(True, changes)] if len(inside) else inside))

    def _named(self, metrics: pa.DictionaryArray) -> Array:
        """Return which rows are of the metric; a check's own row tells which version of its buckets counts."""
        if self.name is None:
            return np.ones(len(metrics), bool)
        words = metrics.dictionary
        fits = own = pc.equal(words, CHECK)
        if self.name not in OWN:
            fits = pc.or_(pc.equal(words, self.name), pc.starts_with(words, self.name + "{"))
            fits = pc.or_(fits, own) if self.has_old_rows else fits
        return fits.to_numpy(zero_copy_only=False)[metrics.indices.to_numpy()]

    def _pieces(self, group: _Group) -> Iterator[Piece]:
        if group.metric != CHECK:
            columns = {each: group.columns[SOURCES[each]] for each in self.needed}
            yield Piece(group.series, group.metric, group.unit, group.kind, columns | {TIME: group.times})
        elif self.name is None or self.name in OWN:
            for name, made in ((STATE, _of_state), (IS_OK, _of_ok)):
                if self.name in (None, name):
                    columns = {key: each for key, each in made(group).items() if key in self.needed}
                    yield Piece(group.series, name, "", "gauge", columns | {TIME: group.times})


@frozen(eq=False)
class _Group:
    """Holds the rows of one series, in the order of their buckets; `times` are milliseconds."""

    series: int
    metric: str
    unit: str
    kind: str
    times: Array
    columns: Columns


@frozen(eq=False)
class _Ordered:
    """Holds rows in the order of series, metric and bucket."""

    rows: pa.Table
    level: Level
    series: Array
    words: Sequence[Coded]
    order: Array
    has_doubles: bool

    @classmethod
    def of(cls, rows: pa.Table, level: Level) -> _Ordered:
        """Return rows in their order; `has_doubles` says that a bucket has several of them."""
        series, words = rows["series"].to_numpy(), [coded(rows[each]) for each in WORDS]
        keys = keys_of(series, level.place(micros(rows["bucket"])), *words)
        rising = keys[1:] > keys[:-1]
        if rising.all():
            return cls(rows, level, series, words, np.arange(len(keys)), False)
        order = np.argsort(keys, kind="stable")  # of some ordered runs one behind the other: it merges them
        ordered = keys[order]
        return cls(rows, level, series, words, order, bool((ordered[1:] == ordered[:-1]).any()))

    def groups(self) -> Iterator[_Group]:
        """Yield the rows of each series."""
        codes = [self.series[self.order], *(each.codes[self.order] for each in self.words)]
        changes = np.logical_or.reduce([each[1:] != each[:-1] for each in codes])
        begins = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(self.order)]]).tolist()
        times, columns = _times(self.rows, self.level), dict(self._figures())
        texts = [each.words.to_pylist() for each in self.words]
        for begin, end in pairwise(begins):
            metric, unit, kind = (text[each[begin]] for text, each in zip(texts, codes[1:], strict=True))
            rows = self.order[begin:end]  # a copy of each, so that no piece holds on to the rows of others
            yield _Group(int(codes[0][begin]), metric, unit, kind, times[rows],
                         {name: each[rows] for name, each in columns.items()})  # fmt: skip

    def _figures(self) -> Iterable[tuple[str, Array]]:
        for name in self.rows.column_names:
            if name == "first_at":  # a check's own row has none where its runs took no time that is known
                yield name, micros(pc.fill_null(self.rows[name].cast(pa.int64()), 0)) // 1000
            elif name not in KEY and name not in ("version", "day"):
                yield name, floats(self.rows[name])


def _times(rows: pa.Table, level: Level) -> Array:
    """Return the times of samples in milliseconds.

    A bucket counts at its last value; where a check has none, its runs took no time that is known, at its end.
    """
    last = rows["last_at"].cast(pa.int64())
    if not last.null_count:
        return last.to_numpy() // 1000
    ends = micros(rows["bucket"]) + level.step - 1
    return np.where(last.is_valid().to_numpy(), last.fill_null(0).to_numpy(), ends) // 1000


def _of_state(group: _Group) -> Columns:
    """Return the worst status of each bucket as its value; unknown, which is 3, is worse than warning alone."""
    counts = np.stack([group.columns[word] for word in STATUSES])
    has, values = counts > 0, np.arange(4.0)[:, None]
    worst = np.where(has[2], 2, np.where(has[3], 3, np.where(has[1], 1, 0))).astype(float)
    least, most = np.where(has, values, 3.0).min(axis=0), np.where(has, values, 0.0).max(axis=0)
    totals = (counts * values).sum(axis=0), (counts * values**2).sum(axis=0)
    return _own(group, worst, totals, (least, most))


def _of_ok(group: _Group) -> Columns:
    """Return 1 as the value of a bucket of which all results were ok; the sum is how many were."""
    good, count = group.columns["ok"], group.columns["n"]
    is_whole, has_some = (good == count).astype(float), (good > 0).astype(float)
    return _own(group, is_whole, (good, good), (is_whole, has_some))


def _own(group: _Group, value: Array, totals: Pair, bounds: Pair) -> Columns:
    """Return the columns of a series that Helen adds to each check."""
    return {
        VALUE: value, "count": group.columns["n"], "total": totals[0], "squares": totals[1], "least": bounds[0],
        "most": bounds[1], "first_time": group.times, "first": value, "increase": np.zeros(len(group.times)),
        "increase_s": np.zeros(len(group.times)),
    }  # fmt: skip
