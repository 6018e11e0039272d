"""Tests the table of rollup levels: its rules, and a weekly level as one row more, over the end of summer time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.doctor import examine
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import D1, DAY_SECONDS, H1, LEVELS, M5, Level, by_name, derived, least_days
from helen.pipeline.lake.local_days import MICROS, local_days
from helen.pipeline.lake.schema import TABLES, tables_of
from helen.pipeline.reports.check_history import HistoryRequest, answer
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import KEEP, check_keep, compact, retention

HOUR = 3600
# The weekly level. 1970-01-01 was a Thursday, so the first Monday is four days later.
W1 = Level("w1", seconds=7 * DAY_SECONDS, source="d1", follow_seconds=3600.0, keep_days=None, most_days=4000.0,
           read_days=3000, begins=4 * DAY_SECONDS)  # fmt: skip
WITH_WEEKS = by_name((*LEVELS.values(), W1))
BEGIN = datetime(2026, 10, 19, tzinfo=UTC)  # a Monday; on the Sunday after it Berlin's clocks go back at 01:00 UTC
T = BEGIN.timestamp()
WEEK = 7 * DAY_SECONDS


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the machine's time zone to one with summer time."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_each_level_follows_a_finer_one() -> None:
    """Each level's buckets fit into those of the next, each has a table, and only the first has no versions."""
    for level in derived(WITH_WEEKS):
        source = WITH_WEEKS[level.source or ""]
        assert level.seconds % source.seconds == 0
        assert list(WITH_WEEKS).index(source.name) < list(WITH_WEEKS).index(level.name)
        assert level.seconds % DAY_SECONDS == 0 or DAY_SECONDS % level.seconds == 0
    tables = tables_of(WITH_WEEKS)
    versioned = {name for name, table in tables.items() if table.level and "version" in table.arrow.names}
    assert versioned == {"h1", "d1", "w1"}
    assert tables.keys() - TABLES.keys() == {"w1"}


def test_where_buckets_begin() -> None:
    """A week begins on Monday and touches seven days of its source; a day touches one."""
    micros = int(T) * MICROS
    for offset in (0, 1, WEEK * MICROS - 1):
        assert W1.start(micros + offset) == micros
    assert W1.start(micros - 1) == micros - WEEK * MICROS
    assert W1.days_near(date(2026, 10, 25)) == [date(2026, 10, day) for day in range(19, 26)]
    assert (D1.days_near(date(2026, 10, 25)), H1.days_near(date(2026, 10, 25))) == ([date(2026, 10, 25)],) * 2
    assert M5.start(micros + 299 * MICROS) == micros


def test_sources_are_kept_until_no_result_can_come_for_them() -> None:
    """A source is kept until no result can come for the level above; a shorter retention raises PipelineError."""
    assert least_days(LEVELS) == {"m5": 9, "h1": 9}
    assert least_days(WITH_WEEKS) == {"m5": 9, "h1": 9, "d1": 15}
    assert retention(WITH_WEEKS) == {**KEEP, "w1": None}
    check_keep({"d1": 15}, WITH_WEEKS)
    with pytest.raises(PipelineError, match="d1 must be kept 15 days or longer"):
        check_keep({"d1": 14}, WITH_WEEKS)
    check_keep({"d1": 14})


def test_a_weekly_level_is_one_row(in_berlin: None, spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """A weekly level works as one row of the table: sums of 168 hours each, over the end of summer time, with late
    results."""
    lake = Lake(tmp_path / "lake", WITH_WEEKS)
    metrics = [{"name": "sent", "value": 0.0, "kind": "counter"}]
    for day in range(14):
        records = []
        for hour in range(24):
            if (day, hour) != (3, 5):
                at = T + day * DAY_SECONDS + hour * HOUR
                metrics[0]["value"] = (day * 24 + hour) * 10.0
                records.append(history.result("web1/disk", at, took_ms=float(hour), metrics=metrics))
        history.segment(*records)
    take_in(lake, history.state)
    lake.lock()
    assert cascade(spark, lake)["w1"] == 4  # of the check and of its metric
    assert cascade(spark, lake) == {"h1": 0, "d1": 0, "w1": 0}
    lake.unlock()
    late = T + 3 * DAY_SECONDS + 5 * HOUR  # a spool kept it for a week
    history.segment(history.result("web1/disk", late + WEEK, "critical", started=late - 0.005, took_ms=5.0))
    take_in(lake, history.state)
    lake.lock()
    assert cascade(spark, lake) == {"h1": 1, "d1": 2, "w1": 2}  # one bucket of the series each, with all its metrics
    expected = [(BEGIN, 168, 1, 7 * 276.0), (datetime(2026, 10, 26, tzinfo=UTC), 168, 0, 7 * 276.0)]
    assert weeks(lake, spark) == expected
    compact(spark, lake, all_days=True)
    assert weeks(lake, spark) == expected
    assert [finding.said[:11] for finding in examine(lake, []) if finding.what == "tables"] == ["336 results"]
    lake.unlock()
    end = int(T) * MICROS + 2 * WEEK * MICROS
    found = answer(lake, HistoryRequest("web1", "disk", end - 10 * DAY_SECONDS * MICROS, end, "w1"))
    (sent,) = [each["points"] for each in found["metrics"] if each["metric"] == "sent"]
    assert (found["step"], [(each["at"], each["n"]) for each in sent]) == (WEEK, [(int(T), 167), (int(T) + WEEK, 168)])
    berlin = local_days(date(2026, 10, 25), date(2026, 10, 25), "Europe/Berlin")[0]
    assert berlin.end - berlin.begin == 25 * HOUR * MICROS  # so the zone does have its long day in this week


def weeks(lake: Lake, spark: Any) -> list[tuple[datetime, int, int, float]]:
    """Return the begin of each week of the check, its results, its bad ones, and the sum of its run times."""
    rows = view(spark, lake, "w1").where("metric = ''").orderBy("bucket").toArrow().to_pylist()
    return [(row["bucket"], row["n"], row["critical"], row["sum"]) for row in rows]
