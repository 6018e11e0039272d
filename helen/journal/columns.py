"""Turns records of the journal into Arrow batches with the columns of the segments. docs/results.rst describes them.

Columns are made one by one with list comprehensions: several times cheaper than one dict per row. It writes no files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

# Bytes of a value that is the only one of its column, from which on the column is made of it without a copy.
GREAT_VALUE = 65_536
# Values that one conversion takes: a batch can have thousands of metrics or labels, of hostile agents.
CONVERTED_AT_ONCE = 16_384


def result_batch(records: Sequence[StoredResult], series: Series | FixedSeries) -> pa.RecordBatch:
    """Return results as rows of RESULTS."""
    return pa.RecordBatch.from_arrays(list(result_columns(records, series)), schema=RESULTS)


def result_columns(records: Sequence[StoredResult], series: Series | FixedSeries) -> Iterator[pa.Array]:
    """Yield the columns of RESULTS, one at a time: of 500 rows each takes a tenth of a millisecond."""
    entries = [record.entry for record in records]
    documents = [record.document for record in records]
    number = series.number
    of_helen: dict[str, Callable[[], list[Any]]] = {
        "at": lambda: [record.at for record in records],
        "series_id": lambda: [
            number(entry.agent, entry.check_id, entry.check or document.check)
            for entry, document in zip(entries, documents, strict=True)
        ],
        "received": lambda: [entry.received for entry in entries],
        "origin": lambda: [entry.origin for entry in entries],
        "spool": lambda: [entry.spool for entry in entries],
        "sequence": lambda: [entry.sequence for entry in entries],
        "raw": lambda: [entry.blob for entry in entries],
        "clock_offset_ms": lambda: [entry.clock_offset_ms for entry in entries],
    }
    for name, values, convert in _RESULT_COLUMNS:
        yield convert(of_helen[name]() if values is None else values(documents))


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
        great = _great(values, pa.string())
        return pa.array(values, pa.string()) if great is None else great
    except UnicodeEncodeError:  # half a surrogate pair, which a JSON escape can smuggle into any string
        return pa.array([None if text is None else text.encode("utf-8", "replace").decode() for text in values])


def _binaries(values: Sequence[bytes]) -> pa.Array:
    great = _great(values, pa.binary())
    return pa.array(values, pa.binary()) if great is None else great


def _great(values: Sequence[str | bytes | None], kind: pa.DataType) -> pa.Array | None:
    """Return a column of one great value, which holds its bytes as they are; None if there are others, or it is small.

    A copy of a mebibyte takes a millisecond where its memory is new.
    """
    if len(values) != 1 or (value := values[0]) is None or len(value) < GREAT_VALUE:
        return None
    octets = value if isinstance(value, bytes) else value.encode()
    ends = pa.py_buffer(struct.pack("=ii", 0, len(octets)))
    return pa.Array.from_buffers(kind, 1, [None, ends, pa.py_buffer(octets)], null_count=0)


def _metrics(lists: Sequence[tuple[Metric, ...]]) -> pa.Array:
    offsets = list(accumulate(map(len, lists), initial=0))
    metrics = list(chain.from_iterable(lists))
    columns = [_in_pieces(convert, values(metrics)) for values, convert in _METRIC_COLUMNS]
    structs = pa.StructArray.from_arrays(columns, fields=list(METRIC))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs, type=_TYPES["metrics"])


def _maps(dicts: Sequence[dict[str, Any]], values: pa.DataType) -> pa.Array:
    if not any(dicts):  # the usual case, and a fifth of the cost of a row otherwise
        return pa.MapArray.from_arrays(_zeros(len(dicts) + 1), pa.array([], pa.string()), pa.array([], values))
    offsets = list(accumulate(map(len, dicts), initial=0))
    keys = list(chain.from_iterable(dicts))
    items = list(chain.from_iterable(one.values() for one in dicts))
    return pa.MapArray.from_arrays(
        _in_pieces(partial(pa.array, type=pa.int32()), offsets),
        _in_pieces(_strings, keys),
        _in_pieces(_strings if values == pa.string() else partial(pa.array, type=values), items),
    )


def _in_pieces(convert: Callable[[Sequence[Any]], pa.Array], values: Sequence[Any]) -> pa.Array:
    """Convert some values at a time: no other thread has the interpreter while it is done."""
    if len(values) <= CONVERTED_AT_ONCE:
        return convert(values)
    starts = range(0, len(values), CONVERTED_AT_ONCE)
    return pa.concat_arrays([convert(values[start : start + CONVERTED_AT_ONCE]) for start in starts])


def _zeros(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(bytes(4 * count))])


_CONVERTED: dict[str, Callable[[Any], pa.Array]] = {
    "time": _times, "string": _strings, "binary": _binaries, "metrics": _metrics,
    "labels": partial(_maps, values=pa.string()), "lengths": partial(_maps, values=pa.int64()),
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
