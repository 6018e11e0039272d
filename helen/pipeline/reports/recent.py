"""Shows the last minutes in two tables: sums of five minutes, and the accounts of each check. The demo ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from groundwork.counts import count
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import M5
from helen.pipeline.lake.local_days import MICROS, Day, date_of
from helen.pipeline.reports.availability import availability
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.reports.report_jobs import availability_report
from helen.pipeline.reports.sql_statements import MOST_ROWS
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup.frames import moment

Names = Mapping[int, tuple[str, str]]


def span(now: datetime, minutes: float) -> Day:
    """Return the minutes until now as if they were a day."""
    end = round(now.timestamp() * MICROS)
    return Day(now.date(), end - round(minutes * 60 * MICROS), end)


def rollup(spark: SparkSession, lake: Lake, minutes: Day, series: Names) -> Report:
    """Return each bucket that isn't over before these minutes, of each check and metric; MOST_ROWS of them at most."""
    files = lake.files(M5.name, (date_of(minutes.begin), date_of(minutes.end)))
    rows = view(spark, lake, M5.name, files).where(F.col("bucket") > moment(minutes.begin - M5.step))
    mean = F.try_divide("sum", "values").alias("mean")
    rows = rows.select("series", "bucket", "metric", "n", mean, "min", "max", "unit")
    found = rows.orderBy("series", "metric", "bucket").limit(MOST_ROWS + 1).toArrow().to_pylist()
    shown: list[dict[str, Any]] = [
        {**row, "check": "/".join(series[row["series"]]), "metric": row["metric"] or "(run time)",
         "from": row["bucket"].astimezone(UTC).strftime("%H:%M")}
        for row in found[:MOST_ROWS] if row["series"] in series
    ]  # fmt: skip
    shown.sort(key=lambda row: (row["check"], row["metric"], row["bucket"]))
    columns = ["check", "metric", "from", "n", "mean", "min", "max", "unit"]
    is_cut = len(found) > MOST_ROWS
    of = f"Only {count(MOST_ROWS, 'row')} of more, of the checks known longest"
    said = f"{of}: `helen pipeline sql --limit 0` has all, in m5."
    notes = [said] if is_cut else []
    return Report("Sums of five minutes (UTC)", columns, shown, notes, hidden=frozenset(("unit",)))


def time_accounts(spark: SparkSession, lake: Lake, minutes: Day, series: Names) -> Report:
    """Return the accounts of the checks in these minutes, by the profile of Helen's own pages."""
    return availability_report(availability(spark, lake, [minutes], "strict", "UTC", series), series, False, None)
