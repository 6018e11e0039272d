"""Tests that any reader's sum over h1 and d1 is right: each row of a file that counts is counted."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from helen.pipeline.lake import delta_log
from helen.pipeline.lake.errors import LakeDamaged
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import D1, H1
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup import job
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import rebuild
from helen.pipeline.upkeep import compact
from helen.pipeline.verify import verify_days

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
HOUR, DAY = 3600.0, 86_400.0
KEYS = ("series", "bucket", "metric", "unit", "kind")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def follow(lake: Lake, *levels: Any) -> dict[str, int]:
    """Bring levels up to their sources, in this process."""
    lake.lock()
    made = cascade(None, lake, levels or None)  # type: ignore[arg-type]
    lake.unlock()
    return made


def some(helen: Any, rng: random.Random, begin: float, count: int, late: float = 0.0) -> None:
    """Write a segment of three series with a counter and a gauge each."""
    helen.segment(*(
        helen.result(f"web{n % 3}/net", begin + n * 60 + late, rng.choice(("ok", "critical")),
                     started=begin + n * 60, metrics=[{"name": "sent", "value": n * 5.0, "kind": "counter"},
                                                      {"name": "load", "value": rng.random()}])
        for n in range(count)
    ))  # fmt: skip


def everything(lake: Lake, table: str) -> list[dict[str, Any]]:
    """Return the rows that any reader of Delta gets of a table, each bucket once."""
    rows: list[dict[str, Any]] = DeltaTable(str(lake.path(table))).to_pyarrow_table().to_pylist()
    assert max(Counter(tuple(row[name] for name in KEYS) for row in rows).values()) == 1
    return rows


def total(lake: Lake, table: str) -> int:
    return sum(row["n"] for row in everything(lake, table) if row["metric"] == "")


@pytest.mark.parametrize("rows_per_part", [1_000_000, 40])
def test_each_bucket_is_there_once(
    lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch, rows_per_part: int
) -> None:
    """Each bucket is there once, however often an hour is made anew, with late results and compaction between."""
    monkeypatch.setattr(job, "ROWS_PER_PART", rows_per_part)
    rng, taken = random.Random(5), 0
    for turn in range(14):
        late = rng.choice((0.0, 0.0, 5 * HOUR, 3 * DAY))
        some(history, rng, T + turn * 1500 - late, 24, late)
        taken += 24
        take_in(lake, history.state)
        follow(lake, H1)
        assert total(lake, "h1") == taken
        if turn % 4 == 3:
            follow(lake)
            assert total(lake, "d1") == taken
        if turn == 9:
            lake.lock()
            compact(None, lake, all_days=True)  # type: ignore[arg-type]
            lake.unlock()
    follow(lake)
    assert (total(lake, "h1"), total(lake, "d1")) == (taken, taken)
    assert [each.faults for each in verify_days(lake)] == [[]] * len({*(file.day for file in lake.files("results"))})


def test_an_hour_that_is_over_is_not_written_again(lake: Lake, history: Any, take_in: Any) -> None:
    """Only the hour that goes on is made anew, and finished hours lie in a file that stays."""
    rng = random.Random(1)
    for hour in range(4):
        for turn in range(3):
            some(history, rng, T + hour * HOUR + turn * 1000, 9)
            take_in(lake, history.state)
            follow(lake, H1)
    files = {file.path for file in lake.files("h1")}
    assert 3 <= len(files) <= 5
    some(history, rng, T + 3 * HOUR + 3000, 9)
    take_in(lake, history.state)
    follow(lake, H1)
    kept = files & {file.path for file in lake.files("h1")}
    assert len(kept) >= len(files) - 1
    assert total(lake, "h1") == 13 * 9


def test_what_a_level_has_not_seen_stays_new_to_it(lake: Lake, history: Any, take_in: Any) -> None:
    """Rows of h1 that were written again stay new to d1, which follows once an hour."""
    rng = random.Random(2)
    some(history, rng, T, 30)
    take_in(lake, history.state)
    follow(lake, H1)
    some(history, rng, T + HOUR, 30)
    take_in(lake, history.state)
    follow(lake, H1)  # the first hour is written again: it shares its file with the second one
    some(history, rng, T + 2 * HOUR, 30)
    take_in(lake, history.state)
    follow(lake, H1)
    assert follow(lake, D1)["d1"] == 9
    assert total(lake, "d1") == 90
    assert follow(lake, D1)["d1"] == 0


def older(lake: Lake, table: str, number: str, copies: list[dict[str, Any]]) -> None:
    """Make a table of an older format: replaced rows lie beside those that count, in files of their own."""
    lake.lock()
    rows = pa.Table.from_pylist(copies, schema=lake.tables[table].arrow)
    lake.publish(table, lake.stage_rows(table, rows), {})
    opened = lake.open(table)
    assert opened is not None
    opened.alter.set_table_description(number)
    lake.unlock()


def unversioned(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str({name: value for name, value in row.items() if name != "version"}) for row in rows)


@pytest.mark.parametrize("description", ["lake of Helen, format 2", "", "lake of Helen, format 1"])
def test_a_lake_of_an_older_format_becomes_right(
    lake: Lake, spark: Any, history: Any, take_in: Any, description: str
) -> None:
    """A lake of an older format shows the newest versions, and the first follow-up leaves only those, once."""
    some(history, random.Random(3), T, 60)
    some(history, random.Random(3), T + 2 * DAY, 60)
    take_in(lake, history.state)
    follow(lake)
    right = {name: everything(lake, name) for name in ("h1", "d1")}
    for name, rows in right.items():
        first = [row | {"version": 0, "n": row["n"] + 7} for row in rows if row["bucket"].day == 22]
        older(lake, name, description, first)
        assert len(lake.rows(name)) > len(rows)
        assert not lake.is_live(name)
        shown = view(spark, lake, name).where("metric = ''").selectExpr("sum(n) as n").collect()
        assert shown[0]["n"] == 120
    follow(lake)
    for name, rows in right.items():
        assert unversioned(everything(lake, name)) == unversioned(rows)
        assert DeltaTable(str(lake.path(name))).metadata().description == delta_log.describe()
        assert lake.is_live(name)
    versions = {name: DeltaTable(str(lake.path(name))).version() for name in right}
    assert follow(lake) == {"h1": 0, "d1": 0}
    assert {name: DeltaTable(str(lake.path(name))).version() for name in right} == versions


def damaged(lake: Lake, table: str, day: date) -> None:
    """Cut the one file of a day."""
    (file,) = lake.files(table, (day, day))
    path = lake.path(table) / file.path
    path.write_bytes(path.read_bytes()[: file.size // 2])


@pytest.mark.parametrize("table", ["h1", "d1"])
def test_a_damaged_file_in_a_lake_of_an_older_format(lake: Lake, history: Any, take_in: Any, table: str) -> None:
    """A damaged file in a lake of an older format holds back its own level, until `rebuild` makes that right."""
    rng, day = random.Random(6), date(2026, 9, 22)
    some(history, rng, T, 60)
    some(history, rng, T + 2 * DAY, 60)
    take_in(lake, history.state)
    follow(lake)
    for name in ("h1", "d1"):
        rows = everything(lake, name)
        older(lake, name, "lake of Helen, format 2", [row | {"version": 0, "n": row["n"] + 7} for row in rows])
    bad = lake.path(table) / lake.files(table, (day, day))[0].path
    bad.write_bytes(bad.read_bytes()[:100])
    some(history, rng, T + 2 * DAY + HOUR, 9)
    take_in(lake, history.state)
    found: list[list[str]] = []
    for _ in range(2):
        lake.lock()
        with pytest.raises(LakeDamaged, match=f"{bad} can't be read .*helen pipeline rebuild {table} --from {day}`"):
            cascade(None, lake)  # type: ignore[arg-type]
        lake.unlock()
        found.append([file.path for name in ("h1", "d1") for file in lake.files(name)])
        assert not lake.is_live(table)
        assert len(lake.files(table, (day + timedelta(days=1), date.max))) == 1
    assert found[0] == found[1]
    assert lake.is_live("d1" if table == "h1" else "h1")
    assert total(lake, "d1" if table == "h1" else "h1") == (120 if table == "h1" else 129)
    lake.lock()
    rebuild(None, lake, table, [day])  # type: ignore[arg-type]
    lake.unlock()
    assert (lake.is_live("h1"), lake.is_live("d1")) == (True, True)
    assert (total(lake, "h1"), total(lake, "d1")) == (129, 129)
    assert [each.faults for each in verify_days(lake)] == [[], []]


@pytest.mark.parametrize(("table", "other"), [("h1", "d1"), ("d1", "h1")])
def test_days_of_an_older_format_are_made_anew_from_what_counts(
    lake: Lake, history: Any, take_in: Any, table: str, other: str
) -> None:
    """A rebuild of an older format sums up only rows that count, before the level is put in order."""
    some(history, random.Random(7), T, 60)
    take_in(lake, history.state)
    follow(lake)
    for name in (table, other):
        rows = everything(lake, name)
        older(lake, name, "lake of Helen, format 2", [row | {"version": 0, "n": row["n"] + 7} for row in rows])
    lake.lock()
    said: list[str] = []
    rebuild(None, lake, table, [date(2026, 9, 22)], said.append)  # type: ignore[arg-type]
    lake.unlock()
    assert f"{other} 2026-09-22: rows that don't count any more are taken out" in said
    assert (total(lake, table), total(lake, other)) == (60, 60)


def test_a_day_with_a_file_that_cannot_be_read_is_made_anew(lake: Lake, history: Any, take_in: Any) -> None:
    """A day with an unreadable file in a level is summed up again as a whole, and no other day is touched."""
    rng, day = random.Random(4), date(2026, 9, 22)
    some(history, rng, T, 60)
    some(history, rng, T + 2 * DAY, 60)
    take_in(lake, history.state)
    follow(lake)
    other = [file.path for file in lake.files("h1") if file.day != day]
    damaged(lake, "h1", day)
    some(history, rng, T + 20 * 60, 9)
    take_in(lake, history.state)
    lake.lock()
    said: list[str] = []
    cascade(None, lake, say=said.append)  # type: ignore[arg-type]
    lake.unlock()
    assert said == ["h1 2026-09-22 has a file that can't be read: the day is made anew"]
    assert [file.path for file in lake.files("h1") if file.day != day] == other
    assert (total(lake, "h1"), total(lake, "d1")) == (129, 129)


def test_nothing_is_lost_where_source_and_level_are_damaged(lake: Lake, history: Any, take_in: Any) -> None:
    """With source and level damaged late rows are added once; a backup and `rebuild` make the day whole."""
    rng, day = random.Random(4), date(2026, 9, 22)
    some(history, rng, T, 60)
    take_in(lake, history.state)
    follow(lake)
    (name,) = (file.path for file in lake.files("h1"))
    backup = {
        path: path.read_bytes() for path in (lake.path(table) / lake.files(table)[0].path for table in ("m5", "h1"))
    }
    damaged(lake, "m5", day)
    damaged(lake, "h1", day)
    some(history, rng, T + 20 * 60, 9)
    take_in(lake, history.state)
    lake.lock()
    with pytest.raises(LakeDamaged, match=r"m5.* can't be read .*make its day anew: `helen pipeline rebuild m5"):
        cascade(None, lake, [H1])  # type: ignore[arg-type]
    assert cascade(None, lake, [H1]) == {"h1": 0}  # type: ignore[arg-type]
    lake.unlock()
    assert name in {file.path for file in lake.files("h1")}
    for path, content in backup.items():
        path.write_bytes(content)
    follow(lake)
    rows = DeltaTable(str(lake.path("h1"))).to_pyarrow_table().to_pylist()
    assert sum(row["n"] for row in rows if row["metric"] == "") == 69
    lake.lock()
    rebuild(None, lake, "m5", [day])  # type: ignore[arg-type]  # counters near late rows were out of reach then
    lake.unlock()
    assert (total(lake, "h1"), total(lake, "d1")) == (69, 69)
    assert [each.faults for each in verify_days(lake)] == [[]]
