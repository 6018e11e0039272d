"""Tests the content of an export: each row that counts once, with names, of all agents or some; or an error without
a manifest."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from helen.pipeline.commands import main
from helen.pipeline.lake.errors import LakeDamaged, PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports import export as exporting
from helen.pipeline.reports.availability import store
from helen.pipeline.reports.export import csv_cell, export
from helen.pipeline.rollup.following import cascade

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
DAY = 86_400.0
ALWAYS = (date.min, date.max)
ODD = 'a "quoted"; =1+1 agent'


@pytest.fixture
def lake(tmp_path: Path, history: Any, take_in: Any) -> Lake:
    """Provide a lake of two days in segments that split a bucket, with a day of availability in two versions."""
    lake = Lake(tmp_path / "lake")
    for number in range(6):
        begin = T + number // 3 * DAY + number % 3 * 100
        history.segment(
            *(history.result(f"{agent}/disk", begin + n, "critical" if n == 1 else "ok", summary=f"=cmd {n}",
                             metrics=[{"name": "used", "value": n * 1.5, "unit": "B", "labels": {"path": "/ü"}}])
              for n in range(3) for agent in ("web1", ODD)),
            history.change("link", begin, "web1/equus:link", event="up"),
        )  # fmt: skip
    take_in(lake, history.state, most=1)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    row = {"series": 0, "date": date(2026, 9, 22), "zone": "UTC", "profile": "strict", "seconds": 86_400.0, "ok": 1.0,
           "bad": 0.0, "planned": 0.0, "unknown": 0.0, "no_data": 0.0, "percent": 100.0, "outages": 0, "why": "{}",
           "from_changes": False}  # fmt: skip
    assert [store(lake, [row]), store(lake, [row | {"percent": 50.0}])] == [1, 1]
    lake.unlock()
    return lake


def read_parquet(folder: Path) -> pa.Table:
    return ds.dataset(folder, format="parquet", partitioning="hive").to_table()


def read_csv(folder: Path) -> list[dict[str, str]]:
    texts = [path.read_bytes().decode() for path in sorted(folder.glob("*.csv"))]
    return [row for text in texts for row in csv.DictReader(io.StringIO(text, newline=""))]


def test_parquet_has_all_that_counts(lake: Lake, tmp_path: Path) -> None:
    """A Parquet export has all rows that count: m5 merged, the newest availability, and names in the first columns."""
    target = tmp_path / "out"
    found = export(lake, str(target), "parquet", [], ALWAYS)
    assert set(found) == set(lake.tables)
    assert (found["results"], found["m5"], found["h1"], found["d1"], found["availability_daily"]) == (36, 8, 8, 8, 1)
    results = read_parquet(target / "results")
    assert results.schema.names[:2] == ["agent", "check_id"]
    assert sorted(set(results["agent"].to_pylist())) == [ODD, "web1"]
    stored = sorted(lake.rows("results"), key=lambda row: row["at"])
    exported = sorted(results.to_pylist(), key=lambda row: row["at"])
    for name in ("raw", "metrics", "summary", "time", "series"):
        assert [row[name] for row in exported] == [row[name] for row in stored]
    m5 = read_parquet(target / "m5")
    assert m5["n"].to_pylist() == [9] * 8
    assert read_parquet(target / "availability_daily")["percent"].to_pylist() == [50.0]
    changes = {row["agent"] for row in read_parquet(target / "changes").to_pylist()}
    assert changes == {"web1"}
    said = json.loads((target / "export.json").read_text())
    assert {name: each["rows"] for name, each in said["tables"].items()} == found
    assert all((target / file).exists() for each in said["tables"].values() for file in each["files"])
    counted = f"select agent, sum(n) n from read_parquet('{target}/d1/*/*.parquet') where metric = '' group by 1"
    assert sorted(duckdb.sql(counted).fetchall()) == [(ODD, 18), ("web1", 18)]


def test_csv_of_some_agents_and_days(lake: Lake, tmp_path: Path) -> None:
    """A CSV export of some agents and days has JSON in nested columns and no cell that begins a formula."""
    target = tmp_path / "out"
    found = export(lake, str(target), "csv", [], (date(2026, 9, 23), date(2026, 9, 23)), [ODD])
    assert found == {
        "results": 9,
        "changes": 0,
        "standing": 0,
        "m5": 2,
        "h1": 2,
        "d1": 2,
        "series": 1,
        "availability_daily": 0,
    }
    rows = read_csv(target / "results")
    assert {row["agent"] for row in rows} == {'a "quoted";\' =1+1 agent'}
    assert [row["summary"] for row in rows[:2]] == ["'=cmd 0", "'=cmd 1"]
    assert json.loads(rows[2]["metrics"])[0]["value"] == 3.0
    assert json.loads(rows[2]["raw"])["status"] == "ok"
    assert rows[0]["time"] == "2026-09-23T00:00:00Z"
    assert {row["n"] for row in read_csv(target / "d1")} == {"9"}


def test_an_agent_that_is_new_meanwhile_has_its_name(
    lake: Lake, history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is new while the files are listed is exported with its name."""
    given = lake.files
    coming = [lambda: take_in(Lake(lake.folder), history.state)]
    history.segment(history.result("new/disk", T + DAY + 900))

    def files(*words: Any) -> Any:
        if coming:
            coming.pop()()
        return given(*words)

    monkeypatch.setattr(lake, "files", files)
    found = export(lake, str(tmp_path / "out"), "parquet", [], ALWAYS)
    assert (found["results"], found["series"]) == (37, 4)
    (row,) = [each for each in read_parquet(tmp_path / "out" / "results").to_pylist() if each["series"] == 3]
    assert (row["agent"], row["check_id"]) == ("new", "disk")


CELLS: dict[str, tuple[Any, Any]] = {
    "bytes that are no text": (b"\xff=", "\\xff="),
    "a list": ([{"a": 1}], '[{"a": 1}]'),
    "a day": (date(2026, 9, 22), "2026-09-22"),
    "a formula": ("=1", "'=1"),
    "null": (None, None),
    "a figure": (1.5, 1.5),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str) -> None:
    value, text = CELLS[name]
    assert csv_cell(value) == text


def test_parts_of_a_day_are_added_up_one_by_one(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day exported in parts that fit into memory has the same rows as a whole one."""
    export(lake, str(tmp_path / "whole"), "parquet", ["m5"], ALWAYS)
    monkeypatch.setattr(exporting, "PART_ROWS", 5)
    export(lake, str(tmp_path / "parts"), "parquet", ["m5"], ALWAYS)
    one, other = (sorted(read_parquet(tmp_path / name / "m5").to_pylist(), key=str) for name in ("whole", "parts"))
    assert one == other


def not_empty(lake: Lake, target: Path) -> None:
    target.mkdir()
    (target / "mine").touch()


def a_file(lake: Lake, target: Path) -> None:
    target.touch()


def cut(lake: Lake, target: Path) -> None:
    path = lake.path("h1") / lake.files("h1")[0].path
    path.write_bytes(path.read_bytes()[:100])


REFUSED: dict[str, tuple[Callable[[Lake, Path], None], type[Exception], str]] = {
    "a folder with files": (not_empty, PipelineError, r"out is not empty: give a folder that is new"),
    "a file": (a_file, PipelineError, r"out can't be written \("),
    "a damaged file": (cut, LakeDamaged, r"h1/day=2026-09-2[23]/.* can't be read .*rebuild h1 --from"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_whole_has_no_manifest(lake: Lake, tmp_path: Path, name: str) -> None:
    """An export that is not whole raises an error and writes no manifest, but the readable rows."""
    damage, kind, sentence = REFUSED[name]
    damage(lake, tmp_path / "out")
    with pytest.raises(kind, match=sentence):
        export(lake, str(tmp_path / "out"), "parquet", [], ALWAYS)
    assert not (tmp_path / "out" / "export.json").exists()
    if name == "a damaged file":
        assert read_parquet(tmp_path / "out" / "d1").num_rows == 8


def test_the_command(lake: Lake, tmp_path: Path) -> None:
    """The export command works without Spark and says the rows it wrote, or the fault in its options."""

    def say(*words: str) -> Any:
        return CliRunner().invoke(main, ["export", "--lake", str(lake.folder), "--to", str(tmp_path / "out"), *words])

    for words, sentence in (
        (("--table", "m1"), "--table m1: there are results, changes, standing, m5"),
        (("web9",), "The lake knows no agent 'web9'"),
        (
            ("--to", "nosuch://x"),
            "nosuch:// is no kind of store that is known: s3://",
        ),
    ):
        failed = say(*words)
        assert failed.exit_code != 0 and sentence in failed.stderr
    done = say("web1", "--table", "d1", "--format", "csv", "--from", "2026-09-22", "--until", "2026-09-22")
    assert (done.exit_code, done.stdout) == (0, f"2 rows of 1 table in {tmp_path / 'out'}\n")
