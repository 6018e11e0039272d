"""Tests results of days that a table has forgotten: they are added to the sums of those days, which stay."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from plainly import PlainBatch, sink_of

from helen.pipeline.forget import forget
from helen.pipeline.ingest.quarantine import readmit, set_aside
from helen.pipeline.lake.errors import BadSegment, LakeDamaged, PipelineError
from helen.pipeline.lake.kept_days import kept_from, oldest_day
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import D1, H1, LEVELS
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.log_entries import File
from helen.pipeline.rollup import adding
from helen.pipeline.rollup.adding import choose
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import check_kept, days_behind
from helen.pipeline.upkeep import compact, expire
from helen.pipeline.verify import verify_days, verify_segments

T = 1_790_035_200  # 2026-09-22 00:00:00 UTC
DAY, FIRST = 86_400, date(2026, 9, 22)
KEEP = {"results": 30, "m5": 90, "h1": 400}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def some(history: Any, begin: float, count: int) -> None:
    """Write a segment of one check with a gauge and a counter, a result each minute."""
    history.segment(*(
        history.result("web1/net", begin + n * 60, "critical" if n % 3 else "ok",
                       metrics=[{"name": "load", "value": float(n)},
                                {"name": "sent", "value": n * 5.0, "kind": "counter"}])
        for n in range(count)
    ))  # fmt: skip


def sums(lake: Lake, level: str) -> tuple[int, int, float]:
    """Return the number of results, of critical ones, and the sum of the gauge in a level."""
    rows = lake.rows(level)
    checks = [row for row in rows if row["metric"] == ""]
    load = sum(row["sum"] for row in rows if row["metric"] == "load")
    return sum(row["n"] for row in checks), sum(row["critical"] for row in checks), load


def day_of(number: int) -> date:
    return FIRST + timedelta(days=number)


def follow(lake: Lake) -> None:
    cascade(None, lake)  # type: ignore[arg-type]


@pytest.mark.parametrize("days", [40, 100, 500])
def test_a_segment_that_is_readmitted_when_its_day_is_forgotten(lake: Lake, history: Any, days: int) -> None:
    """A segment readmitted after its day was forgotten is added once to each level that has the day, with no loss."""
    for number in range(4):
        some(history, T + number * 600, 10)
    paths = [history.segments / f"seg-0000000{number}.parquet" for number in (2, 3)]
    whole = [path.read_bytes() for path in paths]
    for path in paths:
        path.write_bytes(b"cut")
    sink = sink_of(lake, history.state)
    for number in (2, 3):
        with pytest.raises(BadSegment) as told:
            sink.take(PlainBatch(sink, 9))
        sink.caps = {(0, "seg"): number - 1}
        sink.take(PlainBatch(sink, number - 1))
        sink.caps = {}
        set_aside(lake, sink, told.value)
    sink.take(PlainBatch(sink, 9))
    follow(lake)
    assert [sums(lake, level)[0] for level in LEVELS] == [20, 20, 20]
    some(history, T + days * DAY, 5)
    sink.take(PlainBatch(sink, 9))
    follow(lake)
    expire(lake, FIRST + timedelta(days=days), KEEP)
    for number, path in enumerate(paths):
        path.write_bytes(whole[number])
        assert readmit(lake, sink)[0].endswith("taken in")
        expire(lake, FIRST + timedelta(days=days), KEEP)  # the upkeep of a run that begins now
        follow(lake)
        if days < KEEP["h1"]:
            assert sums(lake, "h1") == sums(lake, "d1")
        assert sums(lake, "d1")[0] == 25 + 10 * (number + 1)
        assert [each.faults for each in verify_days(lake)] == [[]]
        assert verify_segments(lake) == []
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    assert sums(lake, "d1") == (45, 27, 4 * 45.0 + 10.0)
    expire(lake, FIRST + timedelta(days=days), KEEP)
    gone = {name for name, kept in KEEP.items() if kept < days}
    assert {name for name in KEEP if not lake.files(name, (FIRST, FIRST))} == gone
    lake.unlock()


def test_days_from_which_a_table_keeps_all(lake: Lake, history: Any, take_in: Any) -> None:
    """The first day of which a table keeps all rows is known after a start, and neither later rows nor a longer
    retention move it."""
    some(history, T, 10)
    some(history, T + 50 * DAY, 10)
    take_in(lake, history.state)
    lake.lock()
    assert (kept_from(lake, "results"), oldest_day(lake, "results")) == (date.min, FIRST)
    expire(lake, FIRST + timedelta(days=60), {"results": 30})
    expire(lake, FIRST + timedelta(days=61), {"results": 40})
    lake.unlock()
    some(history, T + 600, 10)
    take_in(lake, history.state)
    lake.lock()
    assert len(lake.files("results", (FIRST, FIRST))) == 1
    assert kept_from(lake, "results") == FIRST + timedelta(days=1)
    assert oldest_day(lake, "results") == FIRST + timedelta(days=50)
    with pytest.raises(PipelineError, match="results has nothing before 2026-11-11 any more"):
        check_kept(lake, "results", [FIRST])
    assert days_behind(lake, [FIRST - timedelta(days=1)]) == []
    expire(lake, FIRST + timedelta(days=61), {"results": 90})
    assert len(lake.files("results")) == 1
    lake.unlock()


def test_a_clock_that_ran_ahead(lake: Lake, history: Any, take_in: Any) -> None:
    """A clock that ran ahead has old days deleted, and later days stay once it is right again."""
    some(history, T, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    expire(lake, FIRST + timedelta(days=30_000), KEEP)
    assert [len(lake.files(name)) for name in KEEP] == [0, 0, 0]
    lake.unlock()
    some(history, T + DAY, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    expire(lake, FIRST + timedelta(days=1), KEEP)
    assert [sum(file.rows for file in lake.files(name)) for name in KEEP] == [10, 8, 3]  # one is a step
    assert [oldest_day(lake, name) for name in KEEP] == [FIRST + timedelta(days=1)] * 3
    lake.unlock()


@pytest.mark.parametrize("level", [H1, D1])
@pytest.mark.parametrize(("rows", "newest"), [(0, 9 * DAY), (100, 9 * DAY), (100, 0), (30_000, 60)])
def test_rows_of_a_forgotten_day_are_added(level: Any, rows: int, newest: int) -> None:
    """Rows of a forgotten day choose that day's whole span, few or many, and where nothing newer is known."""
    fresh = [File("new", 1, 5, FIRST, 7, True, {}, {}, True)]
    old = [File("old", 1, rows, FIRST, 3, True, {}, {})] if rows else []
    found = choose(level, fresh, (T + newest) * MICROS, old, FIRST + timedelta(days=1))
    assert (found.spans, found.days) == (((T * MICROS, (T + DAY) * MICROS),), {FIRST})


def test_a_damaged_file_of_a_forgotten_day_is_not_made_anew(lake: Lake, history: Any, take_in: Any) -> None:
    """A damaged file of a forgotten day is named and stays, since its source has only the latest rows."""
    some(history, T, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    expire(lake, FIRST + timedelta(days=100), KEEP)
    (file,) = lake.files("h1")
    lake.path("h1").joinpath(file.path).write_bytes(b"cut")
    lake.unlock()
    some(history, T + 600, 10)
    take_in(lake, history.state)
    lake.lock()
    with pytest.raises(LakeDamaged, match=Path(file.path).name):  # d1 would be made of its day
        follow(lake)
    assert sum(each.rows for each in lake.files("h1")) == 2 * file.rows
    assert file.path in {each.path for each in lake.files("h1")}
    assert sums(lake, "d1")[0] == 20  # it keeps what only the damaged file of h1 had
    lake.unlock()


def test_a_damaged_file_of_a_forgotten_day_holds_no_other_day_back(lake: Lake, history: Any, take_in: Any) -> None:
    """A damaged file is named; rows of its day are added, and a damaged day that is kept is made anew."""
    for day in (0, 100, 101):
        some(history, T + day * DAY, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    expire(lake, FIRST + timedelta(days=101), KEEP)
    forgotten, damaged, _ = lake.files("h1")
    for file in (forgotten, damaged):
        lake.path("h1").joinpath(file.path).write_bytes(b"cut")
    lake.unlock()
    for day in (0, 100, 101):
        some(history, T + day * DAY + 600, 10)
    take_in(lake, history.state)
    lake.lock()
    with pytest.raises(LakeDamaged, match=Path(forgotten.path).name):
        follow(lake)
    rows = {day: sum(file.rows for file in lake.files("h1", (day, day))) for day in map(day_of, (0, 100, 101))}
    assert rows == {day_of(0): 2 * forgotten.rows, day_of(100): damaged.rows, day_of(101): damaged.rows}
    assert forgotten.path in {each.path for each in lake.files("h1")}
    assert damaged.path not in {each.path for each in lake.files("h1")}
    assert sums(lake, "d1")[0] == 60
    lake.unlock()


@pytest.mark.parametrize("large", [False, True])
def test_results_of_a_day_that_a_longer_level_forgot_first(
    lake: Lake, history: Any, take_in: Any, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours may be kept for fewer days than five minutes: the day gets what is new, once."""
    monkeypatch.setattr(adding, "ADD_FROM", 1 if large else 20_000)
    some(history, T, 10)
    some(history, T + 100 * DAY, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    expire(lake, FIRST + timedelta(days=100), {"h1": 90})
    lake.unlock()
    some(history, T + 600, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    assert [sums(lake, level)[0] for level in LEVELS] == [30, 20, 30]
    lake.unlock()


def test_an_agent_is_forgotten_before_levels_have_seen_late_rows(lake: Lake, history: Any, take_in: Any) -> None:
    """Rows of others in the same file are added to the longer levels all the same."""
    some(history, T, 10)
    take_in(lake, history.state)
    lake.lock()
    follow(lake)
    expire(lake, FIRST + timedelta(days=100), KEEP)
    lake.unlock()
    history.segment(*(history.result(f"web{n % 2}/net", T + 600 + n * 60) for n in range(10)))
    take_in(lake, history.state)
    lake.lock()
    assert forget(None, lake, "web0").rows["m5"] > 0  # type: ignore[arg-type]
    follow(lake)
    assert [sums(lake, level)[0] for level in LEVELS] == [5, 15, 15]
    lake.unlock()
