"""Turns segments into Parquet files of the lake, in Spark's workers. Each worker pays for the imports."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from helen.pipeline.ingest import histories
from helen.pipeline.ingest.histories import History
from helen.pipeline.ingest.offsets import PER_TASK
from helen.pipeline.ingest.segment_columns import read_for_sums, read_whole
from helen.pipeline.ingest.taken import taken_of
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.read_errors import READ_ERRORS, first_line, is_of_file, lack_of
from helen.pipeline.lake.schema import RESULTS, SUMS, TABLES, TAKEN, WRITTEN
from helen.pipeline.rollup.segment_rows import NEEDED, rows_of, sums_of

Place = tuple[int, int]  # Helen, segment
Carry = Callable[[Sequence[pa.Table], Callable[[], Sequence[pa.Table]]], pa.Table]
BAD = "bad"  # in place of a table's name: a segment that can't be read, with the reason in place of the path
LACK = "lack"  # the same for one that may be sound: descriptors or memory are short
MOST_METRICS = 2_000_000  # that are summed up at once, with one segment more: 250 bytes each


@frozen
class Task:
    """Reads segments and writes files. It goes to Spark's workers by pickle, so it holds plain values only.

    `done` is, per table, the last segment of each Helen that it has; `numbers` is series_id -> series, per Helen.
    """

    staged: Mapping[str, str]
    done: Mapping[str, Mapping[int, int]]
    numbers: Mapping[int, Any]
    dropped: Mapping[Place, frozenset[int]] = field(factory=dict)
    carry: Carry | None = None  # steps of counters, where the writer itself works

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Those of `results` are all that the lake doesn't have: that table is published after the sums.
        rows: dict[str, list[pa.Table]] = {table: [] for table in self.done}
        read: list[tuple[str | None, str | None, int, int, str]] = []
        for batch in batches:
            for helen, segment, folder in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                try:
                    self._read_segment(helen, segment, folder, rows)
                except READ_ERRORS as error:  # told as a row: Spark would make pages of it
                    path = History(Path(folder)).path(histories.RESULTS, segment)
                    told = (BAD, first_line(error)) if is_of_file(error, path) else (LACK, lack_of(path, error))
                    read.append((*told, helen, segment, folder))
                else:
                    read.append((None, None, helen, segment, folder))
                for table in rows:
                    if self.carry is None and _is_enough(table, rows[table]):
                        read += self._written(table, rows)
                        rows[table].clear()
        for table, parts in rows.items():
            if parts:
                read += self._written(table, rows)
        columns = list(zip(*read, strict=True)) or [()] * len(WRITTEN.arrow)
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, WRITTEN.arrow, strict=True)], schema=WRITTEN.arrow
        )

    def _summed(self, whole: pa.Table, rows: Mapping[str, Sequence[pa.Table]]) -> pa.Table:
        sums = sums_of(whole)
        if self.carry is None:
            return sums
        return pa.concat_tables([sums, self.carry([sums], lambda: rows[RESULTS.name])])

    def _written(self, table: str, rows: Mapping[str, Sequence[pa.Table]]) -> list[tuple[str, str, int, int, str]]:
        """Write the rows of a table, and return what is told of each file."""
        whole, target = pa.concat_tables(rows[table]), Path(self.staged[table]) / uuid.uuid4().hex
        whole = self._summed(whole, rows) if table == SUMS.name else whole
        return [(table, str(path), 0, 0, "") for path in write_days(TABLES[table], whole, target)]

    def _read_segment(self, helen: int, segment: int, folder: str, rows: dict[str, list[pa.Table]]) -> None:
        wanted = [table for table, done in self.done.items() if segment > done[helen]]
        if not wanted:
            return
        path = History(Path(folder)).path(histories.RESULTS, segment)
        stored = read_for_sums(path) if wanted == [SUMS.name] else read_whole(path)
        dropped = self.dropped.get((helen, segment), frozenset())
        results = rows_of(stored, helen, segment, self.numbers[helen], dropped)
        for table in wanted:
            if table == TAKEN.name:
                rows[table].append(taken_of(stored, results, helen, segment))
            else:  # blobs are most of a row, and sums don't need them
                rows[table].append(results.select(NEEDED) if table == SUMS.name else results)


def _is_enough(table: str, parts: Sequence[pa.Table]) -> bool:
    """Return True if a task holds no more rows of a table than these: results have blobs, and sums need metrics."""
    if table == SUMS.name:
        return sum(pc.sum(pc.list_value_length(rows["metrics"])).as_py() or 0 for rows in parts) >= MOST_METRICS
    return table == RESULTS.name and len(parts) == PER_TASK
