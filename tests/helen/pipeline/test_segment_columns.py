"""Tests that sums from the few columns that they need equal those from all columns of a segment."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helen.pipeline.ingest import segment_columns
from helen.pipeline.ingest.segment_columns import read_for_sums, read_whole
from helen.pipeline.ingest.task import Task
from helen.pipeline.lake.schema import RESULTS, SEGMENTS, SUMS, TAKEN
from helen.pipeline.rollup.segment_rows import rows_of, sums_of

BEGIN = 1_790_000_000.0
SERIES = ("web1/disk", "web1/load", "web2/disk")
NUMBERS = np.array([4, 2, 9], np.int32)


def fill(history: Any, seed: int, count: int = 60, labelled: bool = True) -> None:
    """Write two segments of results: late ones, queries, and metrics with labels, without a value, or none."""
    rng = random.Random(seed)
    for segment in range(2):
        records = []
        for number in range(count):
            kinds = rng.sample(["used", "busy", "sent"], rng.randrange(4))
            metrics = [
                {"name": name, "value": rng.choice([None, rng.uniform(-5, 500), 7]), "unit": rng.choice(["%", "B"]),
                 "kind": "counter" if name == "sent" else "gauge",
                 **({"labels": {"path": rng.choice(["/", 'a"b'])}} if labelled and rng.random() < 0.3 else {})}
                for name in kinds
            ]  # fmt: skip
            received = BEGIN + segment * 600 + number * 7 + rng.uniform(0, 40)
            records.append(
                history.result(
                    rng.choice(SERIES), received, rng.choice(["ok", "ok", "warning", "critical", "unknown"]),
                    metrics=metrics, took_ms=rng.uniform(1, 90), origin=int(rng.random() < 0.1),
                    started=received - rng.choice([1, 4000]), summary=f"n {number}",
                )
            )  # fmt: skip
        history.segment(*records)


def by_key(sums: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = sums.to_pylist()
    return sorted(rows, key=lambda row: (row["series"], row["metric"], row["unit"], row["bucket"]))


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_sums_are_the_same(history: Any, seed: int, labelled: bool) -> None:
    """Sums from the columns read for sums equal those from whole segments, also for a part of the rows."""
    fill(history, seed, labelled=labelled)
    paths = sorted(history.segments.glob("seg-*"))
    for dropped in (frozenset[int](), frozenset(range(10, 30))):
        few, whole = (
            pa.concat_tables([rows_of(read(path), 0, at, NUMBERS, dropped) for at, path in enumerate(paths)])
            for read in (read_for_sums, read_whole)
        )
        assert {"raw", "summary"}.isdisjoint(few.column_names)
        assert whole.schema == RESULTS.arrow
        assert sums_of(few).schema == SUMS.arrow
        assert by_key(sums_of(few)) == by_key(sums_of(whole)) != []


def test_a_task_reads_blobs_only_where_they_go_somewhere(
    history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task reads blobs only if another table than the sums wants the segment."""
    fill(history, 7)
    asked: list[str] = []

    def told(name: str) -> Any:
        read = getattr(segment_columns, name)
        return lambda path: (asked.append(name), read(path))[1]

    for name in ("read_for_sums", "read_whole"):
        monkeypatch.setattr(f"helen.pipeline.ingest.task.{name}", told(name))
    batch = pa.RecordBatch.from_pydict(
        {"helen": [0, 0], "segment": [1, 2], "folder": [str(history.folder)] * 2}, schema=SEGMENTS.arrow
    )
    made = []
    for number, tables in enumerate(([SUMS.name], [SUMS.name, RESULTS.name], [TAKEN.name])):
        staged = {table: str(tmp_path / f"{number}-{table}") for table in tables}
        (written,) = Task(staged, {table: {0: 0} for table in tables}, {0: NUMBERS})([batch])
        paths = [row["path"] for row in written.to_pylist() if row["table"] == SUMS.name]
        made.append(
            by_key(pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])) if paths else []
        )
    assert asked == [*["read_for_sums"] * 2, *["read_whole"] * 4]
    assert made[0] == made[1] != []


def test_segments_of_other_writers(history: Any, tmp_path: Path) -> None:
    """Segments of other writers give the same sums, and a cut one raises an error of reading."""
    fill(history, 3)
    (path, _), other = sorted(history.segments.glob("seg-*")), tmp_path / "other.parquet"
    rows, expected = pq.read_table(path), by_key(sums_of(rows_of(read_whole(path), 0, 1, NUMBERS)))
    pq.write_table(rows.drop_columns(["clock_offset_ms"]), other)
    older = read_for_sums(other)
    assert older["clock_offset_ms"].null_count == older.num_rows
    assert by_key(sums_of(rows_of(older, 0, 1, NUMBERS))) == expected
    at, inside = rows.schema.get_field_index("metrics"), pa.field("item", rows.schema.field("metrics").type.value_type)
    renamed = rows.set_column(at, "metrics", rows["metrics"].cast(pa.list_(inside)))
    pq.write_table(renamed, other, use_compliant_nested_type=False)
    assert "raw" in read_for_sums(other).column_names
    pq.write_table(rows, other, row_group_size=20)
    assert by_key(sums_of(rows_of(read_for_sums(other), 0, 1, NUMBERS))) == expected
    other.write_bytes(path.read_bytes()[:-20])
    with pytest.raises((OSError, pa.ArrowException)):
        read_for_sums(other)
