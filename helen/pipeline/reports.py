"""Reports on the lake: rows of jobs -> what is shown. Each frame job is a few lines of grouping over sums."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.availability import date_of, moment
from helen.pipeline.days import Day
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import Lake
from helen.pipeline.partials import ASKED, CHECK, STATUSES
from helen.pipeline.shown import Report, Row, bars
from helen.pipeline.views import view

MOST_ROWS = 10_000  # of an answer to SQL: more is for a file, not for a terminal
ACCOUNTS = ("ok", "bad", "planned", "unknown", "no_data")
_COLOURS = {"ok": "#2f855a", "bad": "#c53030", "planned": "#2b6cb0", "unknown": "#b7791f", "no_data": "#a0aec0"}
Names = Mapping[int, tuple[str, str]]


def wanted(series: Names, names: Sequence[str]) -> Names:
    """The series of a report; a name that is none of them is an error, not an empty table."""
    known = {agent for agent, _ in series.values()} | {f"{agent}/{check}" for agent, check in series.values()}
    for name in names:
        if name not in known:
            raise PipelineError(f"The lake knows no {name}: write AGENT or AGENT/CHECK as `helen status` shows them.")
    return series


def availability_report(
    rows: Iterable[Mapping[str, Any]], series: Names, each_day: bool, target: float | None
) -> Report:
    """Rows of availability_daily, one by one or added up per check."""
    daily = [dict(row) | {"why": json.loads(row["why"])} for row in rows]
    shown = daily if each_day else added_up(daily)
    for row in shown:
        row["check"] = "/".join(series[row.pop("series")])
        row["mttr"] = row["bad"] / row["outages"] if row["outages"] else None
        if target is not None:
            row["budget_left"] = budget_left(row, target)
    profile = shown[0]["profile"] if shown else ""
    span = f"{daily[0]['date']} to {daily[-1]['date']}, {daily[0]['zone']}" if daily else "no checks"
    columns = ["check", *(["date"] if each_day else []), "percent", *ACCOUNTS, "outages", "mttr", "why"]
    columns += ["budget_left"] if target is not None else []
    missed = sum(row["percent"] is not None and row["percent"] < target for row in shown) if target is not None else 0
    notes = [f"{missed} of {len(shown)} miss {target:g} %."] if target is not None else []
    return Report(f"Availability ({profile}), {span}", columns, shown, notes, _bar)


def added_up(daily: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All days of each check as one row. Seconds are added and divided once: per cents can't be averaged."""
    found: dict[int, dict[str, Any]] = {}
    for row in daily:
        into = found.setdefault(row["series"], {**row, "why": {}, "outages": 0, **dict.fromkeys(ACCOUNTS, 0.0)})
        for name in (*ACCOUNTS, "outages"):
            into[name] += row[name]
        for reason, seconds in row["why"].items():
            into["why"][reason] = into["why"].get(reason, 0.0) + seconds
    for row in found.values():
        row["percent"] = percent_of(row)
        del row["date"]
    return list(found.values())


def percent_of(row: Mapping[str, Any]) -> float | None:
    """As spent.py computes it for a day."""
    total = sum(row[name] for name in ACCOUNTS)
    if row["profile"] == "strict":
        counted, good = total - row["planned"], row["ok"]
    else:
        counted = total - row["no_data"]
        good = counted - row["bad"] - row["unknown"]
    return round(100 * good / counted, 4) if counted > 0 else None


def budget_left(row: Mapping[str, Any], target: float) -> float | None:
    """Seconds that may still be bad before the target is missed; negative: it is."""
    if row["percent"] is None:
        return None
    total = sum(row[name] for name in ACCOUNTS)
    counted = total - (row["planned"] if row["profile"] == "strict" else row["no_data"])
    return round(counted * (row["percent"] - target) / 100, 3)


def offenders(spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, top: int) -> Report:
    """Bad results by sums, changes of status by the results themselves."""
    sums = _checks(spark, lake, days)
    bad = sums.groupBy("series").agg(*(F.sum(word).alias(word) for word in STATUSES), F.sum("n").alias("results"))
    rows = [
        {"check": "/".join(series[row["series"]]), **row,
         "bad_percent": round(100 * (1 - row["ok"] / row["results"]), 2)}
        for row in bad.toArrow().to_pylist() if row["series"] in series and row["results"] > row["ok"]
    ]  # fmt: skip
    flips = _flips(spark, lake, days)
    for row in rows:
        row["changes"] = flips.get(row.pop("series"), 0)
    rows.sort(key=lambda row: (-(row["results"] - row["ok"]), -row["changes"], row["check"]))
    columns = ["check", "bad_percent", "changes", "results", *STATUSES]
    return Report(f"Top offenders, {_span(days)}", columns, rows[:top], (), _result_bar)


def cost(spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, top: int) -> Report:
    """What the agents measured of each run, added up over all agents that run a check id."""
    sums = _checks(spark, lake, days).groupBy("series").agg(
        F.sum("n").alias("runs"), F.sum("cpu_ms").alias("cpu"), F.sum("sum").alias("took"),
        F.sum("values").alias("timed"), F.max("max").alias("slowest_ms"), F.max("peak_kib").alias("peak_kib"),
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    for row in sums.toArrow().to_pylist():
        if row["series"] not in series:
            continue
        into = found.setdefault(series[row["series"]][1], {"agents": 0, "runs": 0, "cpu": 0.0, "took": 0.0, "timed": 0})
        into["agents"] += 1
        for name in ("runs", "cpu", "took", "timed"):
            into[name] += row[name] or 0
        for name in ("slowest_ms", "peak_kib"):
            into[name] = max(into.get(name) or 0.0, row[name] or 0.0)
    rows = [
        {"check": check, "agents": row["agents"], "runs": row["runs"], "cpu_seconds": round(row["cpu"] / 1000, 3),
         "cpu_ms_per_run": round(row["cpu"] / row["runs"], 3),
         "mean_ms": round(row["took"] / row["timed"], 3) if row["timed"] else None,
         "slowest_ms": row["slowest_ms"], "peak_kib": row["peak_kib"]}
        for check, row in found.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (-row["cpu_seconds"], row["check"]))
    columns = ["check", "agents", "runs", "cpu_seconds", "cpu_ms_per_run", "mean_ms", "slowest_ms", "peak_kib"]
    return Report(f"Cost of checks, {_span(days)}", columns, rows[:top])


def _checks(spark: SparkSession, lake: Lake, days: Sequence[Day]) -> DataFrame:
    """Sums of the checks themselves within these days. From m5: local days begin at any quarter of an hour."""
    begin, end = days[0].begin, days[-1].end
    files = lake.files("m5", (date_of(begin), date_of(end)))
    rows = view(spark, lake, "m5", files).where(F.col("metric") == CHECK)
    return rows.where((F.col("bucket") >= moment(begin)) & (F.col("bucket") < moment(end)))


def _flips(spark: SparkSession, lake: Lake, days: Sequence[Day]) -> dict[int, int]:
    """How often the status of a series was another than the one before."""
    begin, end = days[0].begin, days[-1].end
    rows = lake.frame(spark, "results", lake.files("results", (date_of(begin), date_of(end))))
    rows = rows.where((F.col("time") >= moment(begin)) & (F.col("time") < moment(end)) & (F.col("origin") != ASKED))
    before = F.expr("lag(status) over (partition by series order by time, at)")
    changed = rows.select("series", (before != F.col("status")).alias("changed")).where("changed")
    return {row["series"]: row["count"] for row in changed.groupBy("series").count().collect()}


def _span(days: Sequence[Day]) -> str:
    first: date = days[0].date
    return f"{first} to {days[-1].date}"


def _bar(row: Row) -> str:
    return bars([(name, row[name], _COLOURS[name]) for name in ACCOUNTS])


def _result_bar(row: Row) -> str:
    colours = ("#2f855a", "#d69e2e", "#c53030", "#805ad5")
    return bars([(name, row[name], colour) for name, colour in zip(STATUSES, colours, strict=True)])
