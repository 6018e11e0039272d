"""Turns records of the journal into Arrow batches with the columns of the segments. docs/results.rst describes them.

Columns are made one by one with list comprehensions: several times cheaper than one dict per row. It writes no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from equus_protocol.result_fields import (
    END_OF_TIME,
    HELEN_COLUMNS,
    METRIC_COLUMNS,
    RESULT_COLUMNS,
    STATUS_NUMBERS,
    Column,
)
from helen.journal.document import Metric
from helen.journal.series import FixedSeries, Series
from helen.journal.values import StoredChange, StoredResult

_TIME = pa.timestamp("us", tz="UTC")
_TYPES: dict[str, pa.DataType] = {
    "time": _TIME, "labels": pa.map_(pa.string(), pa.string()), "lengths": pa.map_(pa.string(), pa.int64()),
}  # fmt: skip


def _arrow(columns: Mapping[str, Column]) -> list[pa.Field]:
    return [
        pa.field(name, _TYPES.get(column.type) or pa.type_for_alias(column.type), column.nullable)
        for name, column in columns.items()
    ]


METRIC = pa.struct(_arrow(METRIC_COLUMNS))
_TYPES["metrics"] = pa.list_(pa.field("element", METRIC, nullable=False))
RESULTS = pa.schema(_arrow(RESULT_COLUMNS))
CHANGES = pa.schema(
    [
        pa.field("at", pa.int64(), nullable=False),
        pa.field("received", _TIME, nullable=False),
        pa.field("series_id", pa.int32()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
    ]
)

# One Arrow batch: conversion holds the interpreter's lock about 4 us per row, and the reactor must not wait for 10 ms.
# Four times as many rows cost a result as much: bench/journal.py.
BATCH_ROWS = 1000
BATCH_BYTES = 4 * 1024 * 1024


class Rows:
    """Collects the rows of one future pair of segments as Arrow batches: compact, and the collector skips them."""

    def __init__(self, series: Series | FixedSeries) -> None:
        self.results = 0
        self.changes = 0
        self.held_bytes = 0  # of the Arrow batches: metrics may take several times what their blobs do
        self._series = series
        self._pending: list[StoredResult] = []
        self._pending_bytes = 0
        self._pending_changes: list[StoredChange] = []
        self._result_batches: list[pa.RecordBatch] = []
        self._change_batches: list[pa.RecordBatch] = []

    def add(self, record: StoredResult | StoredChange) -> None:
        """Add one row; rows come in the order of `at`."""
        if isinstance(record, StoredChange):
            self.changes += 1
            self._pending_changes.append(record)
            if len(self._pending_changes) >= BATCH_ROWS:
                self._convert_changes()
            return
        size = len(record.entry.blob)
        self.results += 1
        self._pending_bytes += size
        self._pending.append(record)
        if len(self._pending) >= BATCH_ROWS or self._pending_bytes >= BATCH_BYTES:
            self._convert_results()

    def extend(self, records: Sequence[StoredResult | StoredChange]) -> None:
        """Add rows in the order of `at`; a batch of Arrow may get so many rows more than it else would."""
        results = [record for record in records if type(record) is StoredResult]
        self.results += len(results)
        self._pending_bytes += sum([len(record.entry.blob) for record in results])
        self._pending += results
        if len(self._pending) >= BATCH_ROWS or self._pending_bytes >= BATCH_BYTES:
            self._convert_results()
        for record in records:
            if type(record) is StoredChange:
                self.add(record)

    def finish(self) -> None:
        """Convert the rows that are pending, so that every series has its number. No row may follow."""
        self._convert_results()
        self._convert_changes()

    def result_table(self) -> pa.Table:
        """Return all results so far."""
        self._convert_results()
        return pa.Table.from_batches(self._result_batches, RESULTS)

    def change_table(self) -> pa.Table:
        """Return all changes so far."""
        self._convert_changes()
        return pa.Table.from_batches(self._change_batches, CHANGES)

    def _convert_results(self) -> None:
        if self._pending:
            batch = result_batch(self._pending, self._series)
            self._result_batches.append(batch)
            self.held_bytes += batch.nbytes
            self._pending, self._pending_bytes = [], 0

    def _convert_changes(self) -> None:
        if self._pending_changes:
            batch = change_batch(self._pending_changes, self._series)
            self._change_batches.append(batch)
            self.held_bytes += batch.nbytes
            self._pending_changes = []


def result_batch(records: Sequence[StoredResult], series: Series | FixedSeries) -> pa.RecordBatch:
    """Return results as rows of RESULTS."""
    entries = [record.entry for record in records]
    documents = [record.document for record in records]
    number = series.number
    of_helen = {
        "at": [record.at for record in records],
        "series_id": [
            number(entry.agent, entry.check_id, entry.check or document.check)
            for entry, document in zip(entries, documents, strict=True)
        ],
        "received": [entry.received for entry in entries],
        "origin": [entry.origin for entry in entries],
        "spool": [entry.spool for entry in entries],
        "sequence": [entry.sequence for entry in entries],
        "raw": [entry.blob for entry in entries],
        "clock_offset_ms": [entry.clock_offset_ms for entry in entries],
    }
    columns = [
        convert(of_helen[name] if values is None else values(documents)) for name, values, convert in _RESULT_COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RESULTS)


def change_batch(records: Sequence[StoredChange], series: Series | FixedSeries) -> pa.RecordBatch:
    """Return changes as rows of CHANGES."""
    changes = [record.change for record in records]
    columns = [
        pa.array([record.at for record in records], pa.int64()),
        _times([change.received for change in changes]),
        pa.array(
            [
                None
                if change.agent is None or change.check_id is None
                else series.number(change.agent, change.check_id, None)
                for change in changes
            ],
            pa.int32(),
        ),
        _strings([change.kind for change in changes]),
        _strings([change.document.decode("utf-8", "replace") for change in changes]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CHANGES)


def _times(seconds: Iterable[float | None]) -> pa.Array:
    return pa.array(
        [round(at * 1_000_000) if at is not None and 0 <= at < END_OF_TIME else None for at in seconds], _TIME
    )


def _strings(values: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair, which a JSON escape can smuggle into any string
        return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in values])


def _metrics(lists: Sequence[tuple[Metric, ...]]) -> pa.Array:
    offsets = list(accumulate(map(len, lists), initial=0))
    metrics = list(chain.from_iterable(lists))
    columns = [convert(values(metrics)) for values, convert in _METRIC_COLUMNS]
    structs = pa.StructArray.from_arrays(columns, fields=list(METRIC))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=_TYPES["metrics"])


def _maps(dicts: Sequence[dict[str, Any]], values: pa.DataType) -> pa.Array:
    if not any(dicts):  # the usual case, and a fifth of the cost of a row otherwise
        return pa.MapArray.from_arrays(_zeros(len(dicts) + 1), pa.array([], pa.string()), pa.array([], values))
    offsets = list(accumulate(map(len, dicts), initial=0))
    keys = list(chain.from_iterable(dicts))
    items = list(chain.from_iterable(one.values() for one in dicts))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        _strings(keys),
        _strings(items) if values == pa.string() else pa.array(items, values),
    )


def _zeros(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])


_CONVERTED: dict[str, Callable[[Any], pa.Array]] = {
    "time": _times, "string": _strings, "metrics": _metrics, "labels": partial(_maps, values=pa.string()),
    "lengths": partial(_maps, values=pa.int64()),
}  # fmt: skip


def _converter(column: Column) -> Callable[[Any], pa.Array]:
    return _CONVERTED.get(column.type) or partial(pa.array, type=pa.type_for_alias(column.type))


def _values(name: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Compile the list comprehension over one attribute: `attrgetter` takes twice as long, 37 times for each result.

    Rows of `astuple`, turned to columns, take a third more.
    """
    compiled: Callable[[Sequence[Any]], list[Any]] = eval(f"lambda structs: [struct.{name} for struct in structs]")
    return compiled


def _statuses(documents: Sequence[Any]) -> list[int]:
    return [STATUS_NUMBERS[document.word] for document in documents]  # the attribute `status` would be a call


_METRIC_COLUMNS = [(_values(name), _converter(column)) for name, column in METRIC_COLUMNS.items()]
_OWN_VALUES = {"status": _statuses}
# Name, the values in documents (None: Helen has them), and how values become a column.
_RESULT_COLUMNS = [
    (name, None if name in HELEN_COLUMNS else _OWN_VALUES.get(name) or _values(name), _converter(column))
    for name, column in RESULT_COLUMNS.items()
]
