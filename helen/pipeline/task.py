"""What of the ingestion runs in Spark's workers: segments in, Parquet files out. Each worker pays for the imports."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import field, frozen

from helen.pipeline.digest import rows_of, sums_of
from helen.pipeline.histories import RESULTS, History
from helen.pipeline.parquet import write_days
from helen.pipeline.schema import SOURCE, WRITTEN

Place = tuple[int, int]  # Helen, segment


@frozen
class Task:
    """What runs in Spark's workers: segments in, files out. Goes there by pickle, so it holds plain values only.

    `done` is, per table, the last segment of each Helen that it has; `numbers` is series_id -> series, per Helen.
    """

    staged: Mapping[str, str]
    done: Mapping[str, Mapping[int, int]]
    numbers: Mapping[int, Any]
    dropped: Mapping[Place, frozenset[int]] = field(factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: dict[str, list[pa.Table]] = {table: [] for table in self.done}
        read: list[tuple[str | None, str | None, int, int, str]] = []
        for batch in batches:
            for helen, segment, folder in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                read.append((None, None, helen, segment, folder))
                self._digest(helen, segment, folder, rows)
        for table, parts in rows.items():
            if not parts:
                continue
            whole = pa.concat_tables(parts)
            target = Path(self.staged[table]) / uuid.uuid4().hex
            for path in write_days(table, sums_of(whole) if table == "m5" else whole, target):
                read.append((table, str(path), 0, 0, ""))
        columns = list(zip(*read, strict=True)) or [()] * len(WRITTEN.arrow)
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, WRITTEN.arrow, strict=True)], schema=WRITTEN.arrow
        )

    def _digest(self, helen: int, segment: int, folder: str, rows: dict[str, list[pa.Table]]) -> None:
        wanted = [table for table, done in self.done.items() if segment > done[helen]]
        if not wanted:
            return
        stored = pq.read_table(History(Path(folder)).path(RESULTS, segment), schema=SOURCE.stored)
        dropped = self.dropped.get((helen, segment), frozenset())
        results = rows_of(stored, helen, segment, self.numbers[helen], dropped)
        for table in wanted:
            rows[table].append(results)
