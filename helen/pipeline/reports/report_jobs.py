"""Turns rows of jobs into reports. Each job over frames is a few lines of grouping over sums."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.local_days import MICROS, Day, date_of
from helen.pipeline.lake.schema import ASKED, CHECK, STATUSES
from helen.pipeline.reports import availability_math
from helen.pipeline.reports.day_rows import DayRows, RowsAnew
from helen.pipeline.reports.report_formats import AVAILABILITY, Report, Row, bars
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup.frames import moment

LOOK_BACK = 86_400 * MICROS  # for the status that a check had when the days of a report began
_COSTS = ("agents", "runs", "cpu", "cpu_runs", "took", "timed")
NO_ALERTS = {"alerts": 0, "messages": 0}
ACCOUNTS = ("ok", "bad", "planned", "unknown", "no_data")
_UNITS = dict.fromkeys((*ACCOUNTS, "mttr", "budget_left", "why"), "s") | {"percent": AVAILABILITY}
_COLOURS = {"ok": "#2f855a", "bad": "#c53030", "planned": "#2b6cb0", "unknown": "#b7791f", "no_data": "#a0aec0"}
Names = Mapping[int, tuple[str, str]]


def wanted(series: Names, names: Sequence[str]) -> Names:
    """Return the series of a report. Raises PipelineError for a name that is none of them: no empty table says so."""
    known = {agent for agent, _ in series.values()} | {f"{agent}/{check}" for agent, check in series.values()}
    for name in names:
        if name not in known:
            raise PipelineError(f"The lake knows no {name}: write AGENT or AGENT/CHECK as `helen status` shows them.")
    return series


def availability_report(rows: DayRows | Sequence[Row], series: Names, each_day: bool, target: float | None) -> Report:
    """Report on rows of availability_daily, in order of names and days, one by one or added up per check.

    One by one they are made when they are read, so those of DayRows stay in their file; added up they are as many as
    there are checks.
    """

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        row["check"] = "/".join(series[row.pop("series")])
        row["mttr"] = row["bad"] / row["outages"] if row["outages"] else None
        if target is not None:
            row["budget_left"] = budget_left(row, target)
        return row

    first, last = _ends(rows)
    made: Sequence[Row]
    if each_day:
        made = RowsAnew(lambda: (shown({**row, "why": json.loads(row["why"])}) for row in rows), len(rows))
    else:
        made = [shown(row) for row in added_up({**row, "why": json.loads(row["why"])} for row in rows)]
    span = f"{first['date']} to {last['date']}, {first['zone']}" if first else "no checks"
    columns = ["check", *(["date"] if each_day else []), "percent", *ACCOUNTS, "outages", "mttr", "why"]
    columns += ["budget_left"] if target is not None else []
    notes = []
    if target is not None:
        in_file = rows.missing(target) if each_day and isinstance(rows, DayRows) else None
        missed = _missing(made, target) if in_file is None else in_file
        notes = [f"{missed} of {len(made)} miss {target:g} %."]
    return Report(f"Availability ({first.get('profile', '')}), {span}", columns, made, notes, _bar, _UNITS)


def _ends(rows: DayRows | Sequence[Row]) -> tuple[Row, Row]:
    """Return the first and the last row; all checks have the same days."""
    first = next(iter(rows), {})
    if isinstance(rows, DayRows):
        return first, first and {"date": rows.days[-1].date}
    return first, rows[-1] if first else {}


def _missing(rows: Iterable[Row], target: float) -> int:
    return sum(row["percent"] is not None and row["percent"] < target for row in rows)


def added_up(daily: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all days of each check as one row. Seconds are added and divided once: per cents can't be averaged."""
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
    """Return the per cent of a row as availability_math.py computes it for a day."""
    good, counted = _counted(row)
    return availability_math.percent_of(good, counted)


def budget_left(row: Mapping[str, Any], target: float) -> float | None:
    """Return the seconds that may still be bad before the target is missed; negative if it is missed."""
    if row["percent"] is None:
        return None
    return round(_counted(row)[1] * (row["percent"] - target) / 100, 3)


def _counted(row: Mapping[str, Any]) -> tuple[float, float]:
    total = sum(row[name] for name in ACCOUNTS)
    if row["profile"] == "strict":
        return row["ok"], total - row["planned"]
    counted = total - row["no_data"]
    return counted - row["bad"] - row["unknown"], counted


def offenders(spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, top: int) -> Report:
    """Report bad results from sums, changes of status from results, alerts and messages from recorded changes."""
    sums = _checks(spark, lake, days)
    bad = sums.groupBy("series").agg(*(F.sum(word).alias(word) for word in STATUSES), F.sum("n").alias("results"))
    rows = [
        {"check": "/".join(series[row["series"]]), **row,
         "bad_percent": round(100 * (1 - row["ok"] / row["results"]), 2)}
        for row in bad.toArrow().to_pylist() if row["series"] in series and row["results"] > row["ok"]
    ]  # fmt: skip
    flips, alerts = flips_of(spark, lake, days), _alerts(spark, lake, days)
    for row in rows:
        number = row.pop("series")
        row |= {"changes": flips.get(number, 0), **alerts.get(number, NO_ALERTS)}
    rows.sort(key=lambda row: (-(row["results"] - row["ok"]), -row["changes"], row["check"]))
    columns = ["check", "bad_percent", "changes", "alerts", "messages", "results", *STATUSES]
    return Report(f"Top offenders, {span_of(days)}", columns, rows[:top], (), _result_bar)


def cost(spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, top: int) -> Report:
    """Report the cost of runs as agents measured it, added up over all agents that run a check id."""
    sums = _checks(spark, lake, days).groupBy("series").agg(
        F.sum("n").alias("runs"), F.sum("cpu_ms").alias("cpu"), F.sum(_cpu_runs()).alias("cpu_runs"),
        F.sum("sum").alias("took"),
        F.sum("values").alias("timed"), F.max("max").alias("slowest_ms"), F.max("peak_kib").alias("peak_kib"),
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    for row in sums.toArrow().to_pylist():
        if row["series"] not in series:
            continue
        into = found.setdefault(series[row["series"]][1], dict.fromkeys(_COSTS, 0))
        into["agents"] += 1
        for name in _COSTS[1:]:
            into[name] += row[name] or 0
        for name in ("slowest_ms", "peak_kib"):
            into[name] = max(into.get(name) or 0.0, row[name] or 0.0)
    rows = [
        {"check": check, "agents": row["agents"], "runs": row["runs"],
         "cpu_seconds": round(row["cpu"] / 1000, 3) if row["cpu_runs"] else None,
         "cpu_ms_per_run": round(row["cpu"] / row["cpu_runs"], 3) if row["cpu_runs"] else None,
         "mean_ms": round(row["took"] / row["timed"], 3) if row["timed"] else None,
         "slowest_ms": row["slowest_ms"], "peak_kib": row["peak_kib"]}
        for check, row in found.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: (-(row["cpu_seconds"] or 0.0), row["check"]))
    columns = ["check", "agents", "runs", "cpu_seconds", "cpu_ms_per_run", "mean_ms", "slowest_ms", "peak_kib"]
    return Report(f"Cost of checks, {span_of(days)}", columns, rows[:top])


def _cpu_runs() -> Column:
    """Return the runs that told their CPU time. Rows of a version that didn't count them have 0 or nothing there."""
    told = F.when(F.col("cpu_ms").isNotNull(), F.col("n"))
    return F.when(F.coalesce("cpu_runs", F.lit(0)) > 0, F.col("cpu_runs")).otherwise(told)


def _checks(spark: SparkSession, lake: Lake, days: Sequence[Day]) -> DataFrame:
    """Return sums of the checks themselves within these days. From m5: local days begin at any quarter of an hour."""
    begin, end = days[0].begin, days[-1].end
    files = lake.files(M5.name, (date_of(begin), date_of(end)))
    rows = view(spark, lake, M5.name, files).where(F.col("metric") == CHECK)
    return rows.where((F.col("bucket") >= moment(begin)) & (F.col("bucket") < moment(end)))


def flips_of(spark: SparkSession, lake: Lake, days: Sequence[Day]) -> dict[int, int]:
    """Return how often the status of each series was another than the one before.

    The last result of LOOK_BACK before these days says what it was when they began.
    """
    begin, end = days[0].begin, days[-1].end
    files = lake.files("results", (date_of(begin - LOOK_BACK), date_of(end)))
    rows = lake.frame(spark, "results", files).where(F.col("origin") != ASKED)
    rows = rows.where((F.col("time") >= moment(begin - LOOK_BACK)) & (F.col("time") < moment(end)))
    before = F.expr("lag(status) over (partition by series order by time, at)")
    is_within = F.col("time") >= moment(begin)
    changed = rows.select("series", ((before != F.col("status")) & is_within).alias("changed")).where("changed")
    return {row["series"]: row["count"] for row in changed.groupBy("series").count().collect()}


def _alerts(spark: SparkSession, lake: Lake, days: Sequence[Day]) -> dict[int, dict[str, int]]:
    """Return how many alerts there were of each series, and how many messages went out."""
    begin, end = days[0].begin, days[-1].end
    changes = lake.frame(spark, "changes", lake.files("changes", (date_of(begin), date_of(end))))
    within = (F.col("received") >= moment(begin)) & (F.col("received") < moment(end)) & F.col("series").isNotNull()
    action = F.get_json_object("document", "$.action")
    alert = F.count_if((F.col("kind") == "decision") & (action == "notify")).alias("alerts")
    message = F.count_if((F.col("kind") == "notice") & (action == "sent")).alias("messages")
    found = changes.where(within & F.col("kind").isin("decision", "notice")).groupBy("series").agg(alert, message)
    return {row["series"]: {"alerts": row["alerts"], "messages": row["messages"]} for row in found.collect()}


def span_of(days: Sequence[Day]) -> str:
    first: date = days[0].date
    return f"{first} to {days[-1].date}"


def _bar(row: Row) -> str:
    return bars([(name, row[name], _COLOURS[name]) for name in ACCOUNTS])


def _result_bar(row: Row) -> str:
    colours = ("#2f855a", "#d69e2e", "#c53030", "#805ad5")
    return bars([(name, row[name], colour) for name, colour in zip(STATUSES, colours, strict=True)])
