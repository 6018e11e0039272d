"""Tests reports at the edges of a history: before the first state, at midnight, across the clocks of a zone."""

from __future__ import annotations

import json
import math
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day, local_days
from helen.pipeline.reports.availability import Task, availability, choose
from helen.pipeline.reports.availability_inputs import plan
from helen.pipeline.reports.flapping import flapping
from helen.pipeline.reports.forecasts import HOUR, MONDAY, Strange, local_hour
from helen.pipeline.reports.forgotten_results import note_on
from helen.pipeline.reports.report_jobs import cost, offenders
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.segment_rows import LONGEST, times
from helen.pipeline.upkeep import expire

H = 3600.0
NAMES = ("ok", "bad", "planned", "unknown", "no_data")
DAYS = local_days(date(2026, 11, 18), date(2026, 11, 21), "UTC")
NOON = DAYS[2].begin / 1e6 + 12 * H  # 2026-11-20 12:00 UTC


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def condition(status: str, at: float, attempt: int = 0, reason: str | None = None) -> dict[str, Any]:
    kind = "soft" if attempt else "hard"
    return {"status": status, "kind": kind, "since": at, "reason": reason, "attempt": attempt}


def step(helen: Any, at: float, was: dict[str, Any], now: dict[str, Any], series: str = "web1/disk") -> Any:
    return helen.change("transition", at, series, number=0, at=at, was=was, now=now, why="")


def pending() -> dict[str, Any]:
    return condition("unknown", 0, reason="pending")


def heard(helen: Any) -> Any:
    """Return a change after all of these days, which shows that Helen was there."""
    return helen.change("link", NOON + 26 * H, "web1", event="up")


def accounts(
    spark: Any, lake: Lake, profile: str, days: list[Day], counted: str = "confirmed"
) -> list[tuple[dict[str, float], float | None]]:
    rows = availability(spark, lake, days, profile, "UTC", choose(lake), counted)
    return [({name: row[name] for name in NAMES if row[name]}, row["percent"]) for row in rows]


def first_critical(helen: Any, at: float = NOON) -> list[Any]:
    """Return transitions of a check whose first three results are critical, a minute apart: the third confirms it."""
    steps = [pending(), condition("critical", at, 1), condition("critical", at, 2), condition("critical", at)]
    return [step(helen, at + n * 60, was, now) for n, (was, now) in enumerate(pairwise(steps))]


@pytest.mark.parametrize("profile", ["icinga", "strict"])
def test_before_the_first_confirmed_state_nothing_is_known(
    spark: Any, lake: Lake, history: Any, take_in: Any, profile: str
) -> None:
    """Before its first confirmed state a check has no data, also if it begins with a problem."""
    history.segment(history.change("helen_start", NOON - 72 * H), *first_critical(history), heard(history))
    take_in(lake, history.state)
    nothing = ({"no_data": 86_400.0}, None if profile == "icinga" else 0.0)
    bad = {"bad": 43_080.0, "no_data": 43_320.0}
    assert accounts(spark, lake, profile, DAYS[1:3]) == [nothing, (bad, 0.0)]


def test_a_check_that_was_never_confirmed_is_pending(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """A judged check that was never confirmed has no data, unless states count since they began."""
    history.segment(
        history.change("helen_start", NOON - H),
        history.result("web1/disk", NOON, "critical"),
        step(history, NOON, pending(), condition("critical", NOON, 1)),
    )
    take_in(lake, history.state)
    assert accounts(spark, lake, "icinga", DAYS[2:3]) == [({"no_data": 86_400.0}, None)]
    assert accounts(spark, lake, "icinga", DAYS[2:3], "since") == [({"bad": 43_200.0, "no_data": 43_200.0}, 0.0)]


def test_what_was_confirmed_before_the_first_record_is_taken(
    spark: Any, lake: Lake, history: Any, take_in: Any
) -> None:
    """The first record's confirmed state counts before it, for a lake that begins in the middle of a history."""
    history.segment(
        step(history, NOON, condition("ok", NOON - 90 * H), condition("critical", NOON, 1)),
        step(history, NOON + 60, condition("critical", NOON, 1), condition("critical", NOON)),
    )
    take_in(lake, history.state)
    assert accounts(spark, lake, "icinga", DAYS[1:3]) == [
        ({"ok": 86_400.0}, 100.0), ({"ok": 43_260.0, "bad": 43_140.0}, 50.0694),
    ]  # fmt: skip


def test_time_counts_since_it_was_confirmed_or_since_it_began(
    spark: Any, lake: Lake, history: Any, take_in: Any
) -> None:
    """Time counts since a state was confirmed, or since it began if asked, also for an outage that ended before."""
    ok, soft = condition("ok", NOON - 30 * H), condition("critical", NOON, 1)
    history.segment(
        history.change("helen_start", NOON - 30 * H),
        step(history, NOON - 30 * H, pending(), ok),
        step(history, NOON, ok, soft),
        step(history, NOON + 300, soft, condition("critical", NOON)),
        step(history, NOON + 900, condition("critical", NOON), condition("ok", NOON + 900)),
        step(history, NOON + 3600, ok, condition("critical", NOON + 3600, 1)),
        step(history, NOON + 3720, condition("critical", NOON + 3600, 1), ok),
        heard(history),
    )
    take_in(lake, history.state)
    for profile in ("icinga", "strict"):
        day = Day(DAYS[2].date, round((NOON - H) * MICROS), round((NOON + 3 * H) * MICROS))
        assert [spent for spent, _ in accounts(spark, lake, profile, [day])] == [{"ok": 13_800.0, "bad": 600.0}]
        assert [spent for spent, _ in accounts(spark, lake, profile, [day], "since")] == [
            {"ok": 13_380.0, "bad": 1_020.0}
        ]


def every(helen: Any, series: str, begin: float, end: float, spool: str = "first") -> list[Any]:
    """Return a result each five minutes, the end not included; each is good for fifteen."""
    return [helen.result(series, at, spool=spool) for at in range(round(begin), round(end), 300)]


def why(spark: Any, lake: Lake, day: Day) -> dict[str, dict[str, float]]:
    """Return the seconds of each check without data, by reason."""
    series = choose(lake)
    rows = availability(spark, lake, [day], "strict", "UTC", series)
    return {"/".join(series[row["series"]]): json.loads(row["why"]) for row in rows}


def test_a_check_lacks_the_helen_that_had_its_agent(spark: Any, lake: Lake, histories: Any, take_in: Any) -> None:
    """A check lacks data while the Helen that had its agent was down, and not while another one was."""
    one, other = histories
    day = DAYS[2].begin / 1e6
    one.segment(
        one.change("helen_start", day - 9 * H), *every(one, "web1/disk", day - H, day + 6 * H),
        *every(one, "web3/disk", day - H, day + 6 * H),
    )  # fmt: skip
    one.segment(one.change("helen_start", day + 11 * H), *every(one, "web1/disk", day + 11 * H, day + 25 * H))
    other.segment(
        other.change("helen_start", day - 9 * H), *every(other, "web2/disk", day - H, day + 25 * H),
        *every(other, "web3/disk", day + 6.5 * H, day + 25 * H, "second"),
    )  # fmt: skip
    take_in(lake, one.state, other.state)
    assert why(spark, lake, DAYS[2]) == {
        "web1/disk": {"helen-down": 17_400.0}, "web2/disk": {}, "web3/disk": {"helen-down": 1_200.0},
    }  # fmt: skip


def test_a_helen_that_never_came_back_is_down(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """A Helen that never came back is down however long ago that was, so that its last states do not go on."""
    begin = NOON - 19 * 24 * H
    history.segment(
        history.change("helen_start", begin - H), *every(history, "web1/disk", begin - H, begin),
        step(history, begin - H, pending(), condition("ok", begin - H)),
    )  # fmt: skip
    take_in(lake, history.state)
    assert why(spark, lake, DAYS[2]) == {"web1/disk": {"helen-down": 86_400.0}}


def test_a_helen_was_there_though_its_results_are_forgotten(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """Helen's absence is known from the list of segments after its results are forgotten."""
    day = DAYS[1].begin / 1e6
    history.segment(
        history.change("helen_start", day - H), *every(history, "web1/disk", day - H, day + 12 * H),
        step(history, day - H, pending(), condition("ok", day - H)),
    )  # fmt: skip
    history.segment(*every(history, "web1/disk", day + 12 * H, day + 15 * H))
    history.segment(
        history.change("helen_start", day + 16 * H), *every(history, "web1/disk", day + 16 * H, day + 26 * H)
    )
    take_in(lake, history.state)
    lake.lock()
    assert expire(lake, date(2027, 6, 1), {"results": 30}) == {"results": 3}
    lake.unlock()
    assert why(spark, lake, DAYS[1]) == {"web1/disk": {"helen-down": 3_900.0}}


def test_sums_stand_in_for_results_that_are_forgotten(lake: Lake, history: Any, take_in: Any) -> None:
    """Sums stand in for forgotten results to five minutes, and a note says so."""
    begin = DAYS[0].begin / 1e6
    words = ["critical" if 40 <= n % 96 < 52 else "warning" if n % 96 == 60 else "ok" for n in range(4 * 96)]
    history.segment(*(history.result("web1/disk", begin + n * 900 + 20, word) for n, word in enumerate(words)))
    take_in(lake, history.state)

    def report() -> list[list[float]]:
        series = choose(lake)
        rows = Task(plan(lake, DAYS, series, 1), DAYS, "strict", "UTC").rows(0).to_pylist()
        return [[row[name] for name in NAMES] for row in rows]

    before = report()
    assert [row[:2] for row in before[1:]] == [[74_700.0, 11_700.0]] * 3
    assert note_on(lake, DAYS) == []
    lake.lock()
    assert expire(lake, date(2026, 12, 21), {"results": 30})["results"] == 3
    assert len(lake.files("results")) == 1
    lake.unlock()
    for row, old in zip(report(), before, strict=True):
        assert row == pytest.approx(old, abs=300)
        assert sum(row) == 86_400
    assert note_on(lake, DAYS)[0].startswith("Raw results of before 2026-11-21 are forgotten.")
    assert note_on(lake, DAYS[3:]) == []


def test_the_worst_flapping_is_of_these_days(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """A report's worst flapping is of its own days, without episodes that ended before."""

    def flap(at: float, on: bool, percent: float, series: str = "web1/disk") -> Any:
        return history.change("flap", at, series, on=on, percent=percent, status="ok")

    june = NOON - 160 * 24 * H
    history.segment(
        flap(june, True, 95.0), flap(june + H, False, 10.0),
        flap(NOON, True, 33.0), flap(NOON + 1800, False, 12.0),
        flap(NOON + H, True, 21.0), flap(NOON + 2 * H, False, 9.0),
        flap(june, True, 41.0, "web2/disk"),
        flap(june, True, 77.0, "web3/disk"), flap(NOON - 20 * H, False, 5.0, "web3/disk"),
    )  # fmt: skip
    take_in(lake, history.state)
    found = flapping(spark, lake, DAYS[2:3], choose(lake), 9).rows
    assert [(row["check"], row["times"], row["seconds"], row["worst_percent"]) for row in found] == [
        ("web2/disk", 1, 86_400.0, 41.0), ("web1/disk", 2, 5400.0, 33.0),
    ]  # fmt: skip


def test_a_change_at_midnight_is_one_of_the_new_day(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """A change at midnight is one of the new day, so that daily counts add up; an answer to a query is none."""
    midnight = DAYS[2].begin / 1e6
    history.segment(
        *(history.result("web1/disk", midnight + n * 300, "critical" if n >= 0 else "ok") for n in range(-20, 20)),
        history.result("web1/disk", midnight + 301, "ok", origin=1),
    )
    take_in(lake, history.state)
    counts = [
        [row["changes"] for row in offenders(spark, lake, days, choose(lake), 9).rows]
        for days in (DAYS[1:2], DAYS[2:3], DAYS[1:3])
    ]
    assert counts == [[], [1], [1]]


def test_a_run_costs_what_those_say_that_told_it(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """The CPU of a run is the mean of runs that report it, and unknown for a passive check."""
    history.segment(
        *(history.result("web1/disk", NOON + n, cpu_ms=(None, 6)[n % 2]) for n in range(10)),
        *(history.result("web1/backup", NOON + n, origin=2) for n in range(3)),
    )  # fmt: skip
    take_in(lake, history.state)
    rows = cost(spark, lake, DAYS[2:3], choose(lake), 9).rows
    assert [(row["check"], row["runs"], row["cpu_seconds"], row["cpu_ms_per_run"]) for row in rows] == [
        ("disk", 10, 0.03, 6.0), ("backup", 3, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(("zone", "strange"), [("Europe/Berlin", 0), ("UTC", 10)])
def test_the_usual_load_follows_the_clocks_of_a_zone(zone: str, strange: int) -> None:
    """A load from nine to five on workdays is usual in its own zone over the end of summer time, and strange in UTC."""
    first = local_days(date(2026, 9, 14), date(2026, 9, 14), "Europe/Berlin")[0].begin // HOUR
    report = local_days(date(2026, 10, 26), date(2026, 10, 30), "Europe/Berlin")
    hours = range(first, report[-1].end // HOUR)
    local = [local_hour(hour, "Europe/Berlin") for hour in hours]
    rows = [
        {"series": 1, "metric": "load", "unit": "", "hour": hour,
         "value": 50.0 if (at - MONDAY) % 168 < 120 and 9 <= at % 24 < 17 else 2.0}
        for hour, at in zip(hours, local, strict=True)
    ]  # fmt: skip
    assert len(Strange(report[0].begin // HOUR, 6.0, zone)(rows)) == strange


def test_hours_of_zones() -> None:
    """Local hours follow zones of half hours, and the repeated hour counts twice."""
    night = local_days(date(2026, 10, 25), date(2026, 10, 25), "Europe/Berlin")[0].begin // HOUR
    base = local_hour(night, "Europe/Berlin")
    assert [local_hour(night + n, "Europe/Berlin") - base for n in range(5)] == [0, 1, 2, 2, 3]
    assert [local_hour(n, "Asia/Kolkata") for n in range(3)] == [5, 6, 7]


@pytest.mark.parametrize("took", [math.inf, -math.inf, 1e300, math.nan, None, 2.0 * LONGEST / 1000])
def test_an_impossible_run_time_moves_no_result(took: float | None) -> None:
    received = 1_790_000_000 * MICROS
    started = received - 400 * MICROS
    kind = pa.timestamp("us", tz="UTC")
    stored = pa.table({
        "received": pa.array([received], pa.int64()).cast(kind), "started": pa.array([started], pa.int64()).cast(kind),
        "took_ms": pa.array([took], pa.float64()), "clock_offset_ms": pa.array([None], pa.int64()),
    })  # fmt: skip
    assert times(stored).tolist() == [started]


def test_infinity_stays_infinite_in_longer_buckets(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """A sum beyond the largest number is infinite in m5, h1 and d1 alike."""
    big = [{"name": "big", "value": 1e308}]
    history.segment(*(history.result("web1/disk", NOON + n * 60, metrics=big) for n in range(2)))
    take_in(lake, history.state)
    lake.lock()
    cascade(spark, lake)
    lake.unlock()
    found = {
        table: [(row["sum"], row["sumsq"], row["max"]) for row in lake.rows(table) if row["metric"] == "big"]
        for table in ("m5", "h1", "d1")
    }
    same = [(math.inf, math.inf, 1e308)]
    assert found == {"m5": same, "h1": same, "d1": same}
