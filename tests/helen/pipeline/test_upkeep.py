"""Tests longer buckets, compaction and retention: the content stays, and late results are in all of it."""

from __future__ import annotations

import math
import random
import threading
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import plainly
import pyarrow as pa
import pytest

from helen.pipeline import driver, upkeep
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import D1, H1, M5
from helen.pipeline.lake.schema import RESULTS
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.frames import merged
from helen.pipeline.rollup.segment_rows import sums_of
from helen.pipeline.rollup.steps import as_rows, changed_steps, stretches
from helen.pipeline.upkeep import KEEP, check_keep, compact, expire, sweep

DAY = 86_400
T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC


def some(helen: Any, rng: random.Random, begin: float, count: int, late: float = 0.0) -> None:
    """Write a segment of two series, one of them a counter that begins again now and then."""
    records, total = [], 0.0
    for n in range(count):
        total = 0.0 if rng.random() < 0.05 else total + rng.randrange(9)
        metrics = [{"name": "sent", "value": total, "kind": "counter"}, {"name": "load", "value": rng.random()}]
        ended = begin + n * 60
        status = rng.choice(("ok", "critical"))
        records.append(helen.result(f"web1/c{n % 2}", ended + late, status, metrics=metrics, started=ended))
    helen.segment(*records)


def rows(frame: Any) -> list[dict[str, Any]]:
    found = frame.drop("version", "day").toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["series"], row["metric"], row["bucket"]))


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """Check that rows are equal, counts and times exactly, and sums to 1e-9."""
    assert len(one) == len(other) > 0
    for mine, yours in zip(one, other, strict=True):
        wrong = {
            name: (mine[name], yours[name]) for name in mine
            if not (mine[name] == yours[name] or (isinstance(mine[name], float) and isinstance(yours[name], float)
                    and math.isclose(mine[name], yours[name], rel_tol=1e-9, abs_tol=1e-9)))
        }  # fmt: skip
        assert not wrong


def recomputed(lake: Lake) -> pa.Table:
    """Return the sums of all raw results at once, whichever batch they came in."""
    results = pa.Table.from_pylist(lake.rows("results"), schema=RESULTS.arrow).sort_by([("time", "ascending")])
    sums = sums_of(results)
    steps = {key: changed_steps([], found, found) for key, found in stretches(sums).items()}
    return pa.concat_tables([sums, as_rows(steps)])


def test_longer_buckets_equal_the_raw_results_however_late(
    spark: Any, history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """h1 and d1 equal the sums of all raw results after results a week late, and compaction keeps them. Only changed
    days are written again, and an old day goes as a whole."""
    lake, rng = Lake(tmp_path / "lake"), random.Random(3)
    some(history, rng, T - 7 * DAY, 70)
    some(history, rng, T, 100)
    take_in(lake, history.state)
    lake.lock()
    first = cascade(spark, lake)
    assert first == {"h1": 6 * 5, "d1": 6 * 2} or first["d1"] == 12
    assert cascade(spark, lake) == {"h1": 0, "d1": 0}
    lake.unlock()
    some(history, rng, T - 7 * DAY + 70 * 60, 40, late=7 * DAY)
    take_in(lake, history.state)
    lake.lock()
    again = cascade(spark, lake)
    assert again["d1"] == 6
    assert again["h1"] == 6

    raw = spark.createDataFrame(recomputed(lake))
    expected = {"m5": rows(merged(raw, M5)), "h1": rows(merged(raw, H1)), "d1": rows(merged(merged(raw, H1), D1))}

    def check(*names: str) -> None:
        for name in names:
            same(rows(view(spark, lake, name)), expected[name])

    check("m5", "h1", "d1")
    before = {name: len(lake.files(name)) for name in ("results", "m5", "h1", "d1")}
    monkeypatch.setattr(upkeep, "LIVELY_FILES", 2)
    today = datetime.fromtimestamp(T - 7 * DAY, UTC)  # a day that goes on: its new files are put together, once
    assert [compact(spark, lake, today), compact(spark, lake, today)] == [3, 0]
    assert cascade(spark, lake) == {"h1": 0, "d1": 0}
    after = {name: len(lake.files(name)) for name in ("results", "m5", "h1", "d1")}
    assert before["results"] == before["m5"] == 3
    assert after == {**before, "results": 2, "m5": 2}  # hours and days have no rows to leave out
    check("m5", "h1", "d1")
    assert sweep(lake, 0) > 0
    check("h1")
    gone = expire(lake, date(2026, 9, 22), {"results": 5, "m5": 9, "d1": None})
    assert gone == {"results": 1, "m5": 0}
    assert {file.day for file in lake.files("results")} == {date(2026, 9, 22)}
    lake.unlock()


def test_what_makes_room_comes_first(spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """Upkeep on a full disk deletes old days and the rest of an attempt first, although nothing can be compacted."""
    lake = Lake(tmp_path / "lake")
    some(history, random.Random(1), T, 20)
    take_in(lake, history.state)
    lake.lock()
    left = lake.path("m5") / "_staging" / "left"
    left.mkdir(parents=True)
    full = OSError(28, "No space left on device")
    with pytest.MonkeyPatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(upkeep, "compact", lambda *_, **__: (_ for _ in ()).throw(full))
        driver.tidy(spark, lake, {"results": 30}, print)
    assert (lake.files("results"), left.exists()) == ([], False)
    assert lake.files("m5") != []
    lake.unlock()


def test_upkeep_looks_at_the_log_in_its_turn(
    history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep lists files in turn with batches, which publish from another thread."""
    lake = Lake(tmp_path / "lake")
    some(history, random.Random(1), T, 20)
    history.segment(history.change("link", T, "web1", event="up"))
    take_in(lake, history.state)
    listed: dict[str, list[bool]] = {}
    given = lake.files

    def files(name: str, *words: Any) -> Any:
        listed.setdefault(name, []).append(is_taken(lake.turn))
        return given(name, *words)

    monkeypatch.setattr(lake, "files", files)
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    expire(lake, date(2026, 9, 23))
    sweep(lake)
    lake.unlock()
    assert {"results", "m5", "h1", "d1", "changes", "standing"} <= set(listed)
    assert {name: each.count(False) for name, each in listed.items()} == dict.fromkeys(listed, 0)


def is_taken(turn: Any) -> bool:
    """Return True if another thread would have to wait."""
    found: list[bool] = []

    def attempt() -> None:
        found.append(not turn.acquire(blocking=False))
        if not found[0]:
            turn.release()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]


def test_nothing_stays_in_the_staging_folder(spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """The staging folder is empty after batches and compaction, since left folders would use up a disk's inodes in
    months."""
    lake = Lake(tmp_path / "lake")
    some(history, random.Random(1), T, 20)
    history.segment(history.change("link", T, "web1", event="up"))
    take_in(lake, history.state)
    lake.lock()
    compact(spark, lake, all_days=True)
    assert list(lake.folder.glob("*/_staging/*")) == []
    lake.unlock()


def test_once_looks_after_the_lake_as_well(spark: Any, history: Any, tmp_path: Path) -> None:
    """A run with `--once` does the upkeep as well: a finished day becomes one file, and old results go."""
    lake = Lake(tmp_path / "lake")
    for number in range(9):
        some(history, random.Random(number), T + 1200 * number, 20)
        Driver(spark, lake, [history.state], Settings(once=True, upkeep=number == 8, keep={"results": 30})).run()
    assert (len(lake.files("m5")), lake.files("results")) == (1, [])
    assert sum(row["n"] for row in lake.rows("m5") if row["metric"] == "") == 180
    assert sum(row["n"] for row in lake.rows("d1") if row["metric"] == "") == 180


def test_sums_are_kept_until_no_result_can_come_for_them() -> None:
    """A retention that would make sums wrong is refused with its reason."""
    check_keep(KEEP)
    check_keep({"m5": 9})
    with pytest.raises(PipelineError, match="m5 must be kept 9 days or longer: results may come 8 days late"):
        check_keep({"m5": 8})


def test_batches_go_on_while_a_day_is_compacted(
    history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches go on while a day is compacted; rows that came meanwhile are there once, and new to the levels."""
    lake, rng = Lake(tmp_path / "lake"), random.Random(1)
    for number in range(9):
        some(history, rng, T + number * 1200, 20)
    take_in(lake, history.state, most=1)
    sink = plainly.sink_of(lake, history.state)
    begun, go_on = threading.Event(), threading.Event()
    sort = upkeep.stage_sorted

    def slow(*words: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return sort(*words)

    monkeypatch.setattr(upkeep, "stage_sorted", slow)
    worker = threading.Thread(target=compact, args=(None, lake), kwargs={"all_days": True})
    worker.start()
    assert begun.wait(60)
    some(history, rng, T + 12_000, 20)
    with lake.turn:  # as the driver takes a batch
        assert sink.take(plainly.PlainBatch(sink, 9)).results > 0
    assert len(lake.rows("results")) == 200
    assert worker.is_alive()
    go_on.set()
    worker.join(60)
    assert not worker.is_alive()
    files = lake.files("results")
    assert (sorted(file.fresh for file in files), sum(file.rows for file in files)) == ([False, True], 200)
    assert sorted(row["at"] for row in lake.rows("results")) == list(range(1, 201))
    cascade(None, lake)  # type: ignore[arg-type]
    for level in ("m5", "h1", "d1"):
        assert sum(row["n"] for row in lake.rows(level) if row["metric"] == "") == 200
    lake.unlock()
