"""Tests what a task of the ingestion writes when it has many segments: blobs of few at once, and sums of all."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helen.pipeline.ingest import task as ingestion
from helen.pipeline.ingest.offsets import PER_TASK
from helen.pipeline.ingest.task import Task
from helen.pipeline.lake.schema import SEGMENTS

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC


@pytest.fixture
def named(history: Any) -> pa.Table:
    """Return twelve segments, of two checks with a counter."""
    for number in range(2 * PER_TASK + 2):
        history.segment(*(
            history.result(f"web1/c{check}", T + number * 10, "critical" if number % 3 else "ok",
                           metrics=[{"name": "sent", "value": number * 5.0, "kind": "counter"}])
            for check in range(2)
        ))  # fmt: skip
    rows = [{"helen": 0, "segment": n + 1, "folder": str(history.folder)} for n in range(2 * PER_TASK + 2)]
    return pa.Table.from_pylist(rows, schema=SEGMENTS.arrow)


def written(named: pa.Table, folder: Path, *tables: str, **more: Any) -> dict[str, list[pa.Table]]:
    """Return the rows of each file that a task has written, by table."""
    staged = {table: str(folder / table) for table in tables}
    task = Task(staged, {table: {0: 0} for table in tables}, {0: np.arange(2, dtype=np.int32)}, **more)
    found = defaultdict(list)
    for batch in task(named.to_batches()):
        for row in batch.to_pylist():
            if row["path"] is not None:
                found[row["table"]].append(pq.ParquetFile(row["path"]).read())
    return found


def test_blobs_of_few_segments_are_held(named: pa.Table, tmp_path: Path) -> None:
    """Raw rows of each five segments are a file, and sums of all segments one, with a row for each bucket."""
    found = written(named, tmp_path, "m5", "segments", "results")
    segments = [sorted(set(rows["segment"].to_pylist())) for rows in found["results"]]
    assert segments == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12]]
    assert [rows.num_rows for rows in found["segments"]] == [12]
    (sums,) = found["m5"]
    keys = ("series", "metric", "n", "critical", "increase")
    assert [tuple(row[name] for name in keys) for row in sums.to_pylist()] == [
        (0, "", 12, 8, None), (1, "", 12, 8, None), (0, "sent", 12, 8, 55.0), (1, "sent", 12, 8, 55.0),
    ]  # fmt: skip
    assert written(named, tmp_path / "alone", "m5")["m5"][0].equals(sums)


def test_a_writer_that_carries_counters_has_all_raw_rows(named: pa.Table, tmp_path: Path) -> None:
    """Where the writer itself works, steps of counters may need each raw row."""
    raw: list[int] = []

    def carry(sums: Any, results: Any) -> pa.Table:
        raw.extend(rows.num_rows for rows in results())
        return sums[0].slice(0, 0)

    found = written(named, tmp_path, "m5", "results", carry=carry)
    assert raw == [2] * 12
    assert [rows.num_rows for rows in found["results"]] == [24]


def test_metrics_of_many_segments_are_summed_up_in_parts(
    named: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of as many metrics as a task may hold are a file, so that results with many take no more memory."""
    monkeypatch.setattr(ingestion, "MOST_METRICS", 10)
    found = written(named, tmp_path, "m5", "segments", "results")
    counts = [sum(row["n"] for row in rows.to_pylist() if row["metric"] == "") for rows in found["m5"]]
    assert counts == [10, 10, 4]
    assert [rows.num_rows for rows in found["segments"]] == [12]
    assert sum(rows.num_rows for rows in found["results"]) == 24
