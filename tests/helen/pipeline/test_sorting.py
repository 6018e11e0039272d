"""Tests days that are put together: the same rows in the same order as in plain Python, with little memory."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, Held
from helen.pipeline.lake.schema import AVAILABILITY, CHANGES, RESULTS, TAKEN, Table
from helen.pipeline.rollup import sorting
from helen.pipeline.rollup.sorting import SortTask
from helen.pipeline.upkeep import compact, gather

DAY = date(2026, 11, 20)
T = 1_795_132_800 * 1_000_000  # its beginning
TABLES = {table.name: table for table in (RESULTS, CHANGES, TAKEN, AVAILABILITY)}


def value(rng: random.Random, table: Table, name: str, kind: pa.DataType) -> Any:
    """Return a value of a column; keys have few different ones, so that many rows are equal by them."""
    if name in ("series", "segment", "helen"):
        return None if (table, name) == (CHANGES, "series") and rng.random() < 0.1 else rng.randrange(9)
    if pa.types.is_timestamp(kind):
        return T + rng.randrange(4) * 1_000_000
    if pa.types.is_date(kind):
        return date(2026, 11, 18 + rng.randrange(3))
    if pa.types.is_string(kind):
        return rng.choice(("", "a", "ü"))
    if pa.types.is_binary(kind):
        return rng.randbytes(rng.randrange(30))
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.random()
    if pa.types.is_integer(kind):
        return rng.randrange(100)
    return None


def some(table: Table, rng: random.Random, count: int) -> pa.Table:
    rows = [
        {field.name: value(rng, table, field.name, field.type) for field in table.columns} | {"day": DAY}
        for _ in range(count)
    ]
    for row in rows if table is RESULTS else ():
        row["metrics"] = [{"name": "used", "value": rng.random(), "labels": [("path", "/")]}] * rng.randrange(3)
    return pa.Table.from_pylist(rows, schema=table.arrow)


def key(table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((row[name] is not None, row[name]) for name in table.sort)


def expected(table: Table, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that count, in order."""
    if table is AVAILABILITY:
        newest: dict[tuple[Any, ...], int] = {}
        for row in rows:
            name = tuple(row[each] for each in sorting.VERSIONED)
            newest[name] = max(row["version"], newest.get(name, 0))
        rows = [row for row in rows if row["version"] == newest[tuple(row[each] for each in sorting.VERSIONED)]]
    return sorted(rows, key=lambda row: key(table, row))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("run_rows", [7, 40, 10_000])
@pytest.mark.parametrize("name", TABLES)
def test_as_plain_python_sorts_them(
    tmp_path: Path, name: str, run_rows: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted files have the rows of plain Python's stable sort, in runs and parts of any size, and no temporary file
    remains."""
    monkeypatch.setattr(sorting, "PIECE_ROWS", 4)
    table, rng = TABLES[name], random.Random(f"{name}{run_rows}{parts}")
    if parts > 1 and (table is TAKEN or table is AVAILABILITY):
        run_rows += 1  # they are never divided: another size instead
        parts = 1
    tables = [some(table, rng, rng.randrange(1, 60)) for _ in range(5)]
    paths = [write_days(table, rows, tmp_path / str(n))[0] for n, rows in enumerate(tables)]
    files = [Held(str(path), rows.num_rows, 0, MOST) for path, rows in zip(paths, tables, strict=True)]
    bounds = [(0, MOST)] if parts == 1 else [(0, 2), (3, 3), (4, MOST)]
    task = SortTask(table, f"day={DAY}", files, bounds, str(tmp_path / "staged"), run_rows)
    numbers = pa.RecordBatch.from_pydict({"id": list(range(len(bounds)))})
    (written,) = task([numbers])
    found = [Path(path) for path in written["path"].to_pylist()]
    assert {path.parent.name for path in found} == {f"day={DAY}"}
    rows = [row for path in found for row in pq.ParquetFile(path).read().to_pylist()]
    given = [row for each in tables for row in each.drop_columns(["day"]).to_pylist()]
    assert rows == expected(table, given)
    assert not list((tmp_path / "staged").rglob("*.arrow"))


def test_a_day_is_written_at_most_twice(lake_of: Any, history: Any, take_in: Any) -> None:
    """New files are put together while a day goes on, and all of them once it is over, with the same content."""
    lake, now = lake_of, T / 1e6
    for hour in range(3):
        for n in range(3):
            begin = now + hour * 3600 + n * 60
            history.segment(
                *(history.result(f"web{at % 4}/disk", begin + at) for at in range(8)), history.change("link", begin)
            )
            take_in(lake, history.state)
        lake.lock()
        before = {name: rows_of(lake, name) for name in ("results", "changes", "segments")}
        gather(None, lake, 3, moment(hour + 1), tables=before)  # type: ignore[arg-type]
        assert {name: rows_of(lake, name) for name in before} == before
        assert {name: len(lake.files(name)) for name in before} == dict.fromkeys(before, hour + 1)
        lake.unlock()
    kept = {file.path for file in lake.files("results")}
    lake.lock()
    compact(None, lake, moment(30), all_days=True)  # type: ignore[arg-type]
    lake.unlock()
    (whole,) = lake.files("results")
    assert (whole.rows, whole.fresh, whole.path in kept) == (72, False, False)
    order = [(row["series"], row["time"]) for row in lake.rows("results")]
    assert order == sorted(order)


@pytest.fixture
def lake_of(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def moment(hours: int) -> Any:
    return datetime.fromtimestamp(T / 1e6, UTC) + timedelta(hours=hours)


def rows_of(lake: Lake, table: str) -> list[str]:
    return sorted(str(row) for row in lake.rows(table))
