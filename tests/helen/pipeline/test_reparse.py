"""Tests blobs that are parsed again: a better parser replaces the values that it changes, sums included."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.ingest.reparse import load_parser, reparse
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.reports import forecasts
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup.following import cascade

T = 1_790_035_200.0
DAY = date(2026, 9, 22)


def test_a_day_is_read_anew(
    spark: Any, history: Any, take_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual parser changes nothing; another one changes its columns, sums and hours; rows of gaps stay."""
    history.segment(
        *(history.result("web1/disk", T + n, ("ok", "warning")[n % 2], summary="é", metrics=[
            {"name": "used", "value": float(n), "labels": {"path": "/"}}]) for n in range(6)),
        history.result("web1/equus:gap", T, blob=b'{"status": "warning", "from": 1, "to": 2}'),
        history.result("web1/disk", T - 86_400, "warning"),
    )  # fmt: skip
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    lake.lock()
    cascade(spark, lake)
    assert sum(reparse(spark, lake, [DAY]).values()) == 0
    (tmp_path / "better.py").write_text(
        "from attrs import evolve\nfrom equus_protocol.results import parse\n\n\ndef read(blob):\n"
        "    found = parse(blob)\n    return evolve(found, status=2) if found.status == 1 else found\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    spark.sparkContext.addPyFile(str(tmp_path / "better.py"))
    dry = reparse(spark, lake, [DAY], "better:read", dry=True)
    assert {name: count for name, count in dry.items() if count} == {"status": 3}
    assert reparse(spark, lake, [DAY], "better:read") == dry
    assert sum(reparse(spark, lake, [DAY], "better:read").values()) == 0
    rows = sorted(lake.rows("results"), key=lambda row: row["at"])
    assert [row["status"] for row in rows] == [0, 2, 0, 2, 0, 2, 3, 1]
    assert {row["summary"] for row in rows[:6]} == {"é"}
    for table in ("m5", "h1", "d1"):
        found = view(spark, lake, table).where("metric = '' and n = 6").select("ok", "warning", "critical").collect()
        assert [tuple(row) for row in found] == [(3, 0, 3)]


@pytest.mark.parametrize("name", ["nowhere:read", "json:nothing", "json", "json:__doc__", ""])
def test_a_parser_that_is_none(name: str) -> None:
    """A parser that cannot be loaded is refused before anything starts."""
    with pytest.raises(PipelineError, match=r"write MODULE:FUNCTION, such as equus_protocol\.results:parse"):
        load_parser(name)


def test_capacity_and_anomalies_from_segments(spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """A disk that fills reaches its limit on the day forecast, and one strange hour is the only anomaly."""
    records = []
    for hour in range(24 * 24):
        used = {"name": "used", "value": 40 + hour / 24, "labels": {"path": "/"}, "crit": "90", "unit": "%"}
        load = {"name": "load", "value": 50.0 if hour == 23 * 24 + 5 else 1.0}
        records.append(history.result("web1/disk", T + hour * 3600 + 60, metrics=[used, load]))
    history.segment(*records)
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    cascade(spark, lake)
    days = local_days(DAY, date(2026, 10, 15), "UTC")
    names = {0: ("web1", "disk")}
    (row,) = forecasts.capacity(spark, lake, days, names, 60).rows
    assert (row["check"], row["metric"], row["per_day"], row["limit"]) == ("web1/disk", 'used{path="/"}', 1.0, 90.0)
    assert row["days"] == pytest.approx(26.04, abs=0.01)
    assert [*forecasts.capacity(spark, lake, days, names, 20).rows] == []
    (odd,) = forecasts.anomalies(spark, lake, days[-1:], names).rows
    assert (odd["metric"], odd["value"], odd["usual"]) == ("load", 50.0, 1.0)
    assert odd["hour"] == datetime(2026, 10, 15, 5, tzinfo=UTC)
