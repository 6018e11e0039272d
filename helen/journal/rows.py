"""Collects the rows of a future pair of segments, and converts them to Arrow a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from helen.journal.columns import CHANGES, RESULTS, change_batch, result_columns
from helen.journal.series import FixedSeries, Series
from helen.journal.values import StoredChange, StoredResult

# One Arrow batch. A column of it is one step of the reactor: 0.5 ms for a thousand metrics, 0.1 ms for any other.
# By bytes, too, since 6 of them can be a label.
BATCH_ROWS = 500
BATCH_METRICS = 2_000
BATCH_BYTES = 256 * 1024


class Rows:
    """Collects the rows of one future pair of segments as Arrow batches: compact, and the collector skips them."""

    def __init__(self, series: Series | FixedSeries) -> None:
        self.results = 0
        self.changes = 0
        self.held_bytes = 0  # of the Arrow columns so far: metrics may take several times what their blobs do
        self._series = series
        self._pending: list[StoredResult] = []
        self._pending_bytes = self._pending_metrics = 0
        self._pending_changes: list[StoredChange] = []
        self._converting: Iterator[None] | None = None
        self._result_batches: list[pa.RecordBatch] = []
        self._change_batches: list[pa.RecordBatch] = []

    def add(self, record: StoredResult | StoredChange) -> None:
        """Add one row; rows come in the order of `at`."""
        self.extend((record,))
        while self.convert_some():
            pass

    def extend(self, records: Sequence[StoredResult | StoredChange]) -> None:
        """Add rows in the order of `at`; `convert_some` or `finish` makes batches of Arrow of them."""
        results = [record for record in records if type(record) is StoredResult]
        self.results += len(results)
        self._pending_bytes += sum([len(record.entry.blob) for record in results])
        self._pending_metrics += sum([len(record.document.metrics) for record in results])
        self._pending += results
        if len(results) < len(records):
            changes = [record for record in records if type(record) is StoredChange]
            self.changes += len(changes)
            self._pending_changes += changes

    def convert_some(self, least: int | None = None) -> bool:
        """Convert one column, if so many rows of a kind are pending as make a batch, or `least`; else return False."""
        if self._converting is None:
            self._converting = self._begin(BATCH_ROWS if least is None else least)
        if self._converting is not None and next(self._converting, StopIteration) is StopIteration:
            self._converting = None
            return True
        return self._converting is not None

    def finish(self) -> None:
        """Convert the rows that are pending, so that every series has its number. No row may follow."""
        while self.convert_some(1):
            pass

    def result_table(self) -> pa.Table:
        """Return all results so far."""
        self.finish()
        return pa.Table.from_batches(self._result_batches, RESULTS)

    def change_table(self) -> pa.Table:
        """Return all changes so far."""
        self.finish()
        return pa.Table.from_batches(self._change_batches, CHANGES)

    def _begin(self, least: int) -> Iterator[None] | None:
        """Return the steps of the batch that is due, if one is."""
        is_great = self._pending_bytes >= BATCH_BYTES or self._pending_metrics >= BATCH_METRICS
        if len(self._pending) >= least or is_great:
            return self._convert_results(self._take_batch())
        if len(self._pending_changes) >= least:
            changes, self._pending_changes = self._pending_changes, []
            return self._convert_changes(changes)
        return None

    def _take_batch(self) -> list[StoredResult]:
        """Take the pending results, up to the first of BATCH_BYTES or more; such a one alone, for it is not copied."""
        pending, rest = self._pending, list[StoredResult]()
        if self._pending_bytes >= BATCH_BYTES:
            great = next((at for at, each in enumerate(pending) if len(each.entry.blob) >= BATCH_BYTES), len(pending))
            pending, rest = pending[: great or 1], pending[great or 1 :]
        self._pending = rest
        self._pending_bytes = sum([len(each.entry.blob) for each in rest])
        self._pending_metrics = sum([len(each.document.metrics) for each in rest])
        return pending

    def _convert_results(self, results: list[StoredResult]) -> Iterator[None]:
        columns: list[pa.Array] = []
        for column in result_columns(results, self._series):
            columns.append(column)
            self.held_bytes += column.nbytes
            yield
        self._result_batches.append(pa.RecordBatch.from_arrays(columns, schema=RESULTS))

    def _convert_changes(self, changes: list[StoredChange]) -> Iterator[None]:
        batch = change_batch(changes, self._series)
        self._change_batches.append(batch)
        self.held_bytes += batch.nbytes
        yield
