"""Tests the availability job from segments to the report: transitions, results alone, downtimes, absences, late
results."""

from __future__ import annotations

import json
import random
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.reports.availability import availability, choose, seconds_as_json, store
from helen.pipeline.reports.report_formats import render
from helen.pipeline.reports.report_jobs import availability_report
from helen.pipeline.reports.sla import sla

DAYS = local_days(date(2026, 10, 24), date(2026, 10, 25), "Europe/Berlin")
BEGIN = DAYS[0].begin / 1e6
H = 3600.0


def condition(status: str, at: float, reason: str | None = None, attempt: int = 0) -> dict[str, Any]:
    kind = "soft" if attempt else "hard"
    return {"status": status, "kind": kind, "since": at, "reason": reason, "attempt": attempt}


def transition(helen: Any, series: str, at: float, now: str, was: str = "ok", **more: Any) -> Any:
    document = {"number": 0, "at": at, "was": condition(was, at, more.pop("was_reason", None)),
                "now": condition(now, at, **more), "why": ""}  # fmt: skip
    return helen.change("transition", at, series, **document)


def minutes(row: dict[str, Any]) -> dict[str, Any]:
    names = ("ok", "bad", "planned", "unknown", "no_data")
    found = {name: row[name] / 60 for name in names if row[name]}
    return found | {"percent": row["percent"]}


def test_from_segments_to_the_report(spark: Any, history: Any, take_in: Any, tmp_path: Path) -> None:
    """A report over two days, one of 25 hours, uses all that is known of each check. Late data makes a new version
    of its day."""
    helen = history
    helen.segment(
        helen.change("helen_start", BEGIN - 30 * H),
        *(helen.result("web1/alone", BEGIN - H + n * 600, "critical" if 12 <= n < 18 else "ok") for n in range(307)),
        *(helen.result("web1/judged", BEGIN + n * 600, "critical") for n in range(10)),
        transition(helen, "web1/judged", BEGIN - 24 * H, "ok", "unknown", was_reason="pending"),
        transition(helen, "web1/judged", BEGIN + H, "critical", attempt=1),
        transition(helen, "web1/judged", BEGIN + 2 * H, "critical"),
        transition(helen, "web1/judged", BEGIN + 5 * H, "ok", "critical"),
        helen.change("downtime", BEGIN + 3 * H, None, id="a", until=BEGIN + 4 * H, checks=["judged"], agents=["web1"]),
        helen.change("helen_stop", BEGIN + 30 * H),
        helen.change("helen_start", BEGIN + 30 * H + 420),
        helen.result("web1/equus:gap", BEGIN, blob=b'{"from": 1, "to": 2}'),
    )
    lake = Lake(tmp_path / "lake")
    take_in(lake, helen.state)
    series = choose(lake)
    assert sorted(series.values()) == [("web1", "alone"), ("web1", "judged")]

    def report(profile: str) -> list[dict[str, Any]]:
        return availability(spark, lake, DAYS, profile, "Europe/Berlin", series)

    strict = report("strict")
    assert [(series[row["series"]][1], row["date"].day, row["seconds"] / 3600) for row in strict] == [
        ("alone", 24, 24), ("alone", 25, 25), ("judged", 24, 24), ("judged", 25, 25),
    ]  # fmt: skip
    assert [minutes(row) for row in strict] == [
        {"ok": 1380, "bad": 60, "percent": 95.8333},
        {"ok": 1500, "percent": 100.0},
        {"ok": 1260, "bad": 120, "planned": 60, "percent": 91.3043},
        {"ok": 1493, "no_data": 7, "percent": 99.5333},
    ]
    assert [(json.loads(row["why"]), row["outages"], row["from_changes"]) for row in strict] == [
        ({}, 1, False), ({}, 0, False), ({}, 1, True), ({"helen-down": 420}, 0, True),
    ]  # fmt: skip
    assert [minutes(row) for row in report("icinga")][2:] == [
        {"ok": 1260, "bad": 120, "planned": 60, "percent": 91.6667}, {"ok": 1500, "percent": 100.0},
    ]  # fmt: skip
    lake.lock()
    assert (store(lake, strict), store(lake, strict)) == (4, 0)
    lake.unlock()
    ended = BEGIN + 30 * H + 60
    helen.segment(helen.result("web1/judged", ended + H, "critical", started=ended))
    take_in(lake, helen.state)
    later = report("strict")
    assert minutes(later[3]) == {"ok": 1493, "bad": 6, "no_data": 1, "percent": 99.5333}
    lake.lock()
    assert store(lake, later) == 1
    lake.unlock()
    assert sorted(row["version"] for row in lake.rows("availability_daily")) == [0, 0, 0, 0, 1]
    assert sorted(row["version"] for row in lake.rows("availability_daily", [DAYS[1].date])) == [0, 0, 1]
    first = [file for file in lake.files("availability_daily") if file.day == DAYS[0].date]
    for file in first:  # what is not there can't be read: years of other days are not
        (lake.path("availability_daily") / file.path).rename(tmp_path / Path(file.path).name)
    lake.lock()
    assert first and store(lake, [row for row in later if row["date"] == DAYS[1].date]) == 0
    lake.unlock()
    (one, other) = sla(spark, lake, DAYS, series, "strict", 97.0).rows
    assert [one[name] for name in ("check", "percent", "met", "budget_s", "spent_s", "outages", "mttr_s")] == [
        "web1/judged", 95.5903, False, 5184.0, 7620.0, 2, 3780.0,
    ]  # fmt: skip
    assert (one["worst_day"], one["worst_percent"], one["burn_1h"], one["alert"]) == (DAYS[0].date, 91.3043, 0.0, None)
    assert (other["check"], other["met"], other["left_s"]) == ("web1/alone", True, 1692.0)
    shown = availability_report(later, series, False, 99.0)
    assert [(row["check"], row["percent"]) for row in shown.rows] == [
        ("web1/alone", 97.9592), ("web1/judged", 95.5903),
    ]  # fmt: skip
    assert "2 of 2 miss 99 %." in render(shown, "text")
    assert render(shown, "html").count("<svg") == 2


def test_seconds_are_written_as_json_writes_them() -> None:
    """Seconds are written as json.dumps writes them, so that a day that is stored again is the same text."""
    rng = random.Random(4)
    times = [0, 1, 5, 10, 99, 100, 123, 10**6, 10**7, 86_400 * 10**6, 90_000 * 10**6 - 1]
    times += [rng.randrange(10 ** rng.randrange(1, 14)) for _ in range(5000)]
    assert seconds_as_json(np.array(times)).to_pylist() == [json.dumps(each / 1_000_000) for each in times]
    assert seconds_as_json(np.zeros(0, np.int64)).to_pylist() == []
