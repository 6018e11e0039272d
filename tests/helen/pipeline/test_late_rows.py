"""Tests that late rows of a large day are added to longer levels: no large file is rewritten, and sums stay right."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from helen.pipeline.forget import forget
from helen.pipeline.lake import delta_log
from helen.pipeline.lake import lake as lake_module
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, Held, may_repeat
from helen.pipeline.lake.levels import D1, H1
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.log_entries import File
from helen.pipeline.reports.check_history import _condensed
from helen.pipeline.reports.export import export
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup import adding, job
from helen.pipeline.rollup.adding import Adding, choose
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import rebuild
from helen.pipeline.upkeep import compact
from helen.pipeline.verify import mending, verify_days

T = 1_790_035_200  # 2026-09-22 00:00:00 UTC
HOUR, DAY = 3600, 86_400
FIRST, SECOND, THIRD = date(2026, 9, 22), date(2026, 9, 23), date(2026, 9, 24)
KEYS = ("series", "bucket", "metric", "unit", "kind")


def file(day: date, rows: int = 200_000, adds: bool = True) -> File:
    return File(f"{day}-{rows}", 1, rows, day, 7, True, {}, {}, adds)


@pytest.mark.parametrize(
    ("level", "fresh", "newest", "old", "spans", "days"),
    [
        (H1, [file(FIRST)], T + DAY + 5 * HOUR, [file(FIRST)], [(0, DAY)], {FIRST}),
        (H1, [file(FIRST)], T + DAY + 5 * HOUR, [file(FIRST, 10_000)] * 2, [(0, DAY)], {FIRST}),
        (H1, [file(FIRST)], T + DAY + 5 * HOUR, [file(FIRST, 19_999)], [], set()),  # few rows: made anew
        (H1, [file(FIRST)], T + DAY + 5 * HOUR, [file(SECOND)], [], set()),  # nothing is there yet
        (H1, [file(FIRST), file(FIRST, adds=False)], T + DAY + 5 * HOUR, [file(FIRST)], [], set()),
        # Of a day that goes on the last two hours are made anew, so a part of it is, and so is its day.
        (H1, [file(FIRST)], T + 5 * HOUR, [file(FIRST)], [(0, 4 * HOUR)], set()),
        (H1, [file(FIRST)], T + DAY + 300, [file(FIRST)], [(0, DAY - HOUR)], set()),
        (H1, [file(FIRST), file(SECOND)], T + DAY + 5 * HOUR, [file(FIRST), file(SECOND)],
         [(0, DAY), (DAY, DAY + 4 * HOUR)], {FIRST}),
        (D1, [file(FIRST), file(THIRD, adds=False)], T + 2 * DAY, [file(FIRST)], [(0, DAY)], {FIRST}),
        (D1, [file(SECOND), file(THIRD)], T + 2 * DAY, [file(SECOND), file(THIRD)], [], set()),
    ],
)  # fmt: skip
def test_where_rows_are_added(level: Any, fresh: Any, newest: int, old: Any, spans: Any, days: set[date]) -> None:
    found = choose(level, fresh, newest * MICROS, old)
    assert [((begin // MICROS - T), (end // MICROS - T)) for begin, end in found.spans] == spans
    assert found.days == days


@pytest.mark.parametrize(
    ("spans", "file", "rest"),
    [
        ([], (5, 9), (5, 9)), ([(0, 10)], (5, 9), None), ([(0, 9)], (5, 9), (9, 9)), ([(6, 20)], (5, 9), (5, 5)),
        ([(6, 8)], (5, 9), (5, 9)), ([(0, 6), (6, 9)], (5, 9), (9, 9)), ([(0, 6), (8, 20)], (5, 9), (6, 7)),
    ],
)  # fmt: skip
def test_what_of_a_file_is_made_anew(spans: Any, file: tuple[int, int], rest: Any) -> None:
    assert Adding(tuple(spans)).rest(Held("", 1, 0, MOST, *file)) == rest


@pytest.mark.parametrize(
    ("boxes", "repeat"),
    [
        ([], False), ([(0, 9, 0, 9)], False), ([(0, 9, 0, 9), (0, 9, 10, 19)], False),
        ([(0, 4, 0, 9), (5, 9, 0, 9)], False), ([(0, 4, 0, 9), (4, 9, 9, 9)], True),
        ([(0, 9, 0, 9), (3, 3, 20, 29), (4, 4, 5, 5)], True), ([(0, 1, 0, 9), (2, 3, 0, 9), (0, 3, 10, 11)], False),
    ],
)  # fmt: skip
def test_files_that_may_have_rows_of_one_bucket(boxes: list[tuple[int, ...]], repeat: bool) -> None:
    files = [Held(str(at), 1, *box) for at, box in enumerate(boxes)]
    assert may_repeat(files) is may_repeat(files[::-1]) is repeat


# ------------------------------------------------------------------------------------------------ a lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Provide a lake in which each day counts as large."""
    monkeypatch.setattr(adding, "ADD_FROM", 1)
    return Lake(tmp_path / "lake")


def some(helen: Any, rng: random.Random, begin: float, count: int, late: float = 0.0) -> None:
    """Write a segment of three series with a counter and a gauge each."""
    helen.segment(*(
        helen.result(f"web{n % 3}/net", begin + n * 60 + late, rng.choice(("ok", "critical")),
                     started=begin + n * 60, metrics=[{"name": "sent", "value": n * 5.0, "kind": "counter"},
                                                      {"name": "load", "value": rng.random()}])
        for n in range(count)
    ))  # fmt: skip


def follow(lake: Lake, *levels: Any) -> None:
    lake.lock()
    cascade(None, lake, levels or None)  # type: ignore[arg-type]
    lake.unlock()


def rows_of(lake: Lake, level: str) -> list[dict[str, Any]]:
    """Return the rows that any reader of Delta gets."""
    found: list[dict[str, Any]] = DeltaTable(str(lake.path(level))).to_pyarrow_table().to_pylist()
    return found


def total(lake: Lake, level: str) -> int:
    return sum(row["n"] for row in rows_of(lake, level) if row["metric"] == "")


def most_rows(lake: Lake, level: str) -> int:
    return max(Counter(tuple(row[name] for name in KEYS) for row in rows_of(lake, level)).values())


def check_sums(lake: Lake, taken: int) -> None:
    """Check that each column of each level is the sum of the raw results."""
    assert (total(lake, "h1"), total(lake, "d1")) == (taken, taken)
    assert [each.faults for each in verify_days(lake)] == [[]] * len({*(each.day for each in lake.files("results"))})


def test_no_file_of_the_day_is_written_again(lake: Lake, history: Any, take_in: Any) -> None:
    """Ten late results become added rows in both levels, and the files of the day stay."""
    rng = random.Random(1)
    for day in range(3):
        some(history, rng, T + day * DAY, 600)
    take_in(lake, history.state)
    follow(lake)
    before = {level: {each.path for each in lake.files(level, (FIRST, FIRST))} for level in ("h1", "d1")}
    some(history, rng, T + HOUR + 30, 10, late=2.5 * DAY)
    take_in(lake, history.state)
    follow(lake)
    for level, rows in (("h1", 9), ("d1", 9)):  # three series, each with a check's row and two metrics
        new = [each for each in lake.files(level, (FIRST, FIRST)) if each.path not in before[level]]
        assert before[level] <= {each.path for each in lake.files(level)}
        assert [(each.rows, each.adds, each.fresh) for each in new] == [(rows, True, True)]
    check_sums(lake, 1810)
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    lake.unlock()
    assert [most_rows(lake, level) for level in ("m5", "h1", "d1")] == [1, 1, 1]
    check_sums(lake, 1810)


@pytest.mark.parametrize(("seed", "rows_per_part"), [(1, 1_000_000), (2, 40)])
def test_sums_are_right_whatever_comes_late(
    lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch, seed: int, rows_per_part: int
) -> None:
    """Sums are right whatever comes late, with levels in turn, compaction and rebuilt days between."""
    monkeypatch.setattr(job, "ROWS_PER_PART", rows_per_part)
    rng, taken, now = random.Random(seed), 0, datetime.fromtimestamp(T + 4 * DAY, UTC)
    for turn in range(12):
        late = rng.choice((0, 0, 2 * HOUR, 5 * HOUR, DAY, 3 * DAY))
        some(history, rng, T + DAY + turn * 2400 - late, 24, late)
        taken += 24
        take_in(lake, history.state)
        follow(lake, H1)
        assert total(lake, "h1") == taken
        if turn % 4 == 3:
            follow(lake)
            check_sums(lake, taken)
        if turn in (5, 10):
            lake.lock()
            compact(None, lake, now, all_days=turn == 10)  # type: ignore[arg-type]
            lake.unlock()
        if turn == 8:
            lake.lock()
            rebuild(None, lake, rng.choice(("m5", "h1")), [SECOND])  # type: ignore[arg-type]
            lake.unlock()
    follow(lake)
    check_sums(lake, taken)


def test_rows_in_place_of_others_are_not_added(lake: Lake, history: Any, take_in: Any) -> None:
    """Rows in place of others, of rebuilt or foreign-edited days of m5, are not added twice."""
    rng = random.Random(3)
    for day in range(3):
        some(history, rng, T + day * DAY, 300)
    take_in(lake, history.state)
    follow(lake)
    lake.lock()
    rebuild(None, lake, "m5", [FIRST])  # type: ignore[arg-type]
    lake.unlock()
    check_sums(lake, 900)
    DeltaTable(str(lake.path("m5"))).delete("series = 0 and day = '2026-09-22'")
    some(history, rng, T + 2 * HOUR + 30, 9, late=2.5 * DAY)
    take_in(lake, history.state)
    follow(lake)
    of_m5 = [row for row in lake.rows("m5") if row["bucket"].date() == FIRST and row["metric"] == ""]
    of_h1 = [row for row in lake.rows("h1") if row["bucket"].date() == FIRST and row["metric"] == ""]
    by_series = [Counter(), Counter()]  # type: list[Counter[int]]
    for counts, rows in zip(by_series, (of_m5, of_h1), strict=True):
        for row in rows:
            counts[row["series"]] += row["n"]
    assert by_series[0][1] == by_series[1][1] == 103
    assert by_series[0][2] == by_series[1][2] == 103


@pytest.mark.parametrize("all_at_once", [True, False])
def test_a_day_made_anew_has_unseen_late_rows_once(lake: Lake, history: Any, take_in: Any, all_at_once: bool) -> None:
    """A day made anew has late rows once that its level had not seen yet."""
    rng = random.Random(9)
    for day in range(3):
        some(history, rng, T + day * DAY, 300)
    take_in(lake, history.state)
    follow(lake)
    some(history, rng, T + HOUR + 30, 20, late=2.5 * DAY)
    take_in(lake, history.state)
    if not all_at_once:
        follow(lake, H1)
    lake.lock()
    rebuild(None, lake, "h1" if all_at_once else "d1", [FIRST, SECOND])  # type: ignore[arg-type]
    lake.unlock()
    check_sums(lake, 920)


def test_an_agent_without_rows_of_a_day_is_exported(lake: Lake, history: Any, take_in: Any, tmp_path: Path) -> None:
    """An agent without rows of a day is exported, although a file of that day may cover its series."""
    rng = random.Random(11)
    some(history, rng, T, 300)
    history.segment(*(history.result(f"web{n}/net", T + DAY + n) for n in (0, 2)))
    take_in(lake, history.state)
    follow(lake)
    found = export(lake, str(tmp_path / "of"), "parquet", ["m5", "h1", "d1"], (date.min, date.max), ["web1"])
    assert {table: found[table] for table in ("m5", "h1", "d1")} == {"m5": 60 * 3, "h1": 5 * 3, "d1": 3}


def test_a_forgotten_agent_is_gone_from_added_files(lake: Lake, history: Any, take_in: Any) -> None:
    """A forgotten agent is gone from added files and from levels that had not seen its late rows; others keep
    theirs."""
    rng, taken = random.Random(13), 900
    for day in range(3):
        some(history, rng, T + day * DAY, 300)
    take_in(lake, history.state)
    follow(lake)
    for levels in ((), (H1,)):  # days have seen the first rows, and not the others
        some(history, rng, T + HOUR + 30 + len(levels), 18, late=2.5 * DAY)
        taken += 18
        take_in(lake, history.state)
        follow(lake, *levels)
    lake.lock()
    forget(None, lake, "web1")  # type: ignore[arg-type]
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    assert {row["series"] for level in ("m5", "h1", "d1") for row in rows_of(lake, level)} == {0, 2}
    check_sums(lake, taken * 2 // 3)


def test_verify_names_a_damaged_file_beside_added_ones(lake: Lake, history: Any, take_in: Any) -> None:
    """`verify` names a damaged file beside added ones, and its command mends the day."""
    rng = random.Random(15)
    for day in range(3):
        some(history, rng, T + day * DAY, 300)
    take_in(lake, history.state)
    follow(lake)
    bad = lake.path("h1") / lake.files("h1", (FIRST, FIRST))[0].path
    bad.write_bytes(b"PAR1" + bytes(bad.stat().st_size - 8) + b"PAR1")
    some(history, rng, T + HOUR + 30, 20, late=2.5 * DAY)
    take_in(lake, history.state)
    follow(lake)
    found = [each for each in verify_days(lake) if each.faults]
    assert [(each.day, each.counts) for each in found] == [(FIRST, {"h1": None})]
    assert found[0].faults[0].startswith(f"h1: {bad} can't be read (")
    assert mending(found) == ["helen pipeline rebuild h1 --from 2026-09-22 --to 2026-09-22"]
    lake.lock()
    rebuild(None, lake, "h1", [FIRST])  # type: ignore[arg-type]
    lake.unlock()
    check_sums(lake, 920)


def test_rows_are_added_in_a_lake_of_format_3(
    lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake of format 3 gets unseen rows by a rebuild of the day and later ones added, and is of format 4 then."""
    rng = random.Random(17)
    with monkeypatch.context() as before:
        before.setattr(lake_module, "ADDED", "b")
        before.setattr(adding, "ADD_FROM", 10**9)
        for day in range(3):
            some(history, rng, T + day * DAY, 300)
        take_in(lake, history.state)
        follow(lake)
        some(history, rng, T + HOUR + 30, 20, late=2.5 * DAY)
        take_in(lake, history.state)
    for name in lake.tables:
        if (opened := lake.open(name)) is not None:
            opened.alter.set_table_description("lake of Helen, format 3")
    assert {each.adds for name in ("m5", "h1", "d1") for each in lake.files(name)} == {False}
    old = Lake(lake.folder)
    follow(old)
    assert {delta_log.format_of(DeltaTable(str(old.path(name)))) for name in ("results", "m5", "h1", "d1")} == {4}
    assert [most_rows(old, level) for level in ("h1", "d1")] == [1, 1]
    check_sums(old, 920)
    some(history, rng, T + HOUR + 40, 20, late=2.5 * DAY)
    take_in(old, history.state)
    follow(old)
    assert [most_rows(old, level) for level in ("h1", "d1")] == [2, 2]
    check_sums(old, 940)


def test_our_readers_show_each_bucket_once(lake: Lake, spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """SQL, export and pages show each bucket once, with the same sums before and after compaction."""
    rng = random.Random(5)
    for day in range(3):
        some(history, rng, T + day * DAY, 300)
    take_in(lake, history.state)
    follow(lake)
    some(history, rng, T + HOUR + 30, 20, late=2.5 * DAY)
    take_in(lake, history.state)
    follow(lake)
    assert [most_rows(lake, level) for level in ("h1", "d1")] == [2, 2]

    def shown(name: str) -> dict[str, Any]:
        columns = ["series", "bucket", "metric", "n", "critical", "max", "last", "increase", "version"]
        export(lake, str(tmp_path / name), "parquet", ["h1", "d1"], (date.min, date.max))
        found: dict[str, Any] = {}
        for level in ("h1", "d1"):
            sql = view(spark, lake, level).select(*columns).toPandas().to_dict("records")
            exported = DeltaOf(tmp_path / name / level).rows(columns)
            pages = [{each: row[each] for each in columns} for row in _condensed(lake.table(level), lake.levels[level])]
            for way, rows in (("sql", sql), ("export", exported), ("pages", pages)):
                found[f"{level} {way}"] = sorted(
                    (row["series"], str(row["bucket"])[:19], row["metric"], row["n"], row["critical"],
                     rounded(row["max"]), rounded(row["last"]), rounded(row["increase"]), row["version"])
                    for row in rows
                )  # fmt: skip
        return found

    before = shown("before")
    assert before["h1 sql"] == before["h1 export"] == before["h1 pages"]
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    lake.unlock()
    assert shown("after") == before


def rounded(value: Any) -> Any:
    return None if value is None or value != value else round(value, 6)


class DeltaOf:
    """Read the files of an export as a table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rows(self, columns: list[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = ds.dataset(self._folder, partitioning="hive").to_table(columns).to_pylist()
        return found


# ------------------------------------------------------------------------------------------------ kills

CHILD = """
import os, signal, sys
from pathlib import Path
from helen.pipeline.lake import lake as module
from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup import adding
from helen.pipeline.rollup.following import cascade

adding.ADD_FROM = 1
where, left, lake = sys.argv[2], [int(sys.argv[3])], Lake(Path(sys.argv[1]))

def dies(name, call):
    def called(*words, **more):
        if name == "before":
            end()
        found = call(*words, **more)
        if name == "after":
            end()
        return found
    return called

def end():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

points = {"staged": (Lake, "publish", "before"), "moved": (Lake, "_move", "after"),
          "named": (module, "sync_file", "before"), "published": (Lake, "publish", "after")}
if where in points:
    owner, name, side = points[where]
    setattr(owner, name, dies(side, getattr(owner, name)))
lake.lock()
cascade(None, lake)
lake.unlock()
"""


@pytest.mark.parametrize("where", ["staged", "moved", "named", "published"])
def test_a_kill_adds_nothing_twice(lake: Lake, history: Any, take_in: Any, where: str) -> None:
    """A kill while late rows are added to hours or days adds none of them twice."""
    rng, taken = random.Random(7), 900
    for day in range(3):
        some(history, rng, T + day * DAY, 300)
    take_in(lake, history.state)
    follow(lake)

    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    for times in ("1", "2"):
        some(history, rng, T + HOUR + 30 + int(times), 20, late=2.5 * DAY)
        taken += 20
        take_in(lake, history.state)
        words = [sys.executable, "-c", CHILD, str(lake.folder), where, times]
        assert subprocess.run(words, env=environment, check=False).returncode == -signal.SIGKILL
        follow(lake)
        check_sums(lake, taken)
    entries = [json.loads(line) for path in sorted((lake.path("h1") / "_delta_log").glob("*.json"))
               for line in path.read_text().splitlines()]  # fmt: skip
    assert sum("/a0" in each["add"]["path"] for each in entries if "add" in each) == 2
