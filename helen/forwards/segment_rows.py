"""Makes records of rows of segments, column by column: a fourth of the cost of one dict per row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise

import msgspec
import pyarrow as pa

from equus_protocol.result_fields import GAP_CHECK_ID, STATUS_NUMBERS
from helen.forwards.records import Changed, Figure, Measured, Record
from helen.journal.values import Origin

LONGEST_RUN_MS = 1e9  # eleven days: a longer one is no time of a run
LATEST = 1e10  # unix seconds: what is beyond it is no time
_FIGURE = "metrics.list.element."
RESULTS = ["at", "series_id", "received", "started", "took_ms", "status", "origin",
           *(_FIGURE + name for name in ("name", "value", "unit", "kind", "labels"))]  # fmt: skip
CHANGES = ["at", "series_id", "received", "kind", "document"]


class _Side(msgspec.Struct):
    """Holds one side of a transition."""

    status: str
    kind: str
    reason: str | None = None


class _Transition(msgspec.Struct):
    """Holds what is forwarded of a transition's document."""

    now: _Side
    was: _Side
    why: str
    summary: str
    at: float | None = None


Named = Callable[[int], tuple[str, str] | None]
Wanted = Callable[[str, str], bool]


def rows_of(batch: pa.RecordBatch, most: int, most_bytes: int) -> int:
    """Return how many of the first rows have so many metrics and bytes at most; one row counts, whatever it has."""
    offsets = batch.column("metrics").offsets.to_pylist()
    rows = bisect_right(offsets, offsets[0] + most) - 1
    if batch.nbytes > most_bytes:
        sizes = range(rows + 1)
        rows = min(rows, bisect_right(sizes, most_bytes, key=lambda many: batch.slice(0, many).nbytes) - 1)
    return max(1, rows)


def results(batch: pa.RecordBatch, named: Named, wanted: Wanted) -> Iterator[Record]:
    """Yield the results of a batch that are wanted. Results of questions belong to no state, and are left out."""
    columns = {name: batch.column(name).to_pylist() for name in ("at", "series_id", "took_ms", "status", "origin")}
    received, started = _micros(batch, "received"), _micros(batch, "started")
    figures = _figures(batch.column("metrics"))
    for row, series in enumerate(columns["series_id"]):
        found = named(series)
        if found is None or columns["origin"][row] == Origin.ASKED or not _is_wanted(found, wanted):
            continue
        came = max(0, received[row] or 0)
        ended = _ended(came, started[row], columns["took_ms"][row] or 0.0)
        yield Measured(
            columns["at"][row], *found, came / 1e6, ended // 1_000, columns["status"][row], figures(row)
        )  # fmt: skip


def changes(batch: pa.RecordBatch, named: Named, wanted: Wanted) -> Iterator[Record]:
    """Yield the transitions of a batch that are wanted."""
    received = _micros(batch, "received")
    rows = zip(*(batch.column(name).to_pylist() for name in ("at", "series_id", "kind", "document")), strict=True)
    for row, (at, series, kind, document) in enumerate(rows):
        found = None if kind != "transition" or series is None else named(series)
        if found is not None and _is_wanted(found, wanted):
            made = _changed(at, *found, (received[row] or 0) / 1e6, document)
            if made is not None:
                yield made


def _ended(came: int, began: int | None, took_ms: float) -> int:
    """Return the microseconds at which a run ended; `came` where the agent's own times can't be true."""
    if began is None or not 0.0 <= took_ms <= LONGEST_RUN_MS:  # an agent may write any number, 1e306 among them
        return came
    return min(came, max(0, began + round(took_ms * 1_000)))


def _is_wanted(found: tuple[str, str], wanted: Wanted) -> bool:
    return found[1] != GAP_CHECK_ID and wanted(*found)


def _micros(batch: pa.RecordBatch, name: str) -> list[int | None]:
    values: list[int | None] = batch.column(name).view(pa.int64()).to_pylist()
    return values


def _figures(metrics: pa.ListArray) -> Callable[[int], tuple[Figure, ...]]:
    """Return the function from a row to its metrics that have a value."""
    offsets, flat = metrics.offsets.to_pylist(), metrics.flatten()
    first = offsets[0] if offsets else 0  # of a slice: `flatten` begins with its first row
    columns = [flat.field(name).to_pylist() for name in ("name", "value", "unit", "kind")]
    labels = [dict(each) if each else {} for each in flat.field("labels").to_pylist()]
    made = [
        None if value is None else Figure(name, value, unit, kind, own)
        for name, value, unit, kind, own in zip(*columns, labels, strict=True)
    ]
    spans = [(low - first, high - first) for low, high in pairwise(offsets)]
    return lambda row: tuple([each for each in made[slice(*spans[row])] if each is not None])


def _changed(at: int, agent: str, check: str, received: float, document: str) -> Changed | None:
    """Return a transition; None for a document of another version, which has no such fields."""
    try:
        found = msgspec.json.decode(document, type=_Transition)
        status, was = STATUS_NUMBERS[found.now.status], STATUS_NUMBERS[found.was.status]
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return None
    when = found.at if found.at is not None and 0.0 <= found.at <= LATEST else received
    return Changed(
        at, agent, check, received, round(when * 1_000), status, was, found.now.kind, found.now.reason or "", found.why,
        found.summary,
    )  # fmt: skip
