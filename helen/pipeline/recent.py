"""The last minutes in two tables: sums of five minutes, and how each check spent the time. The demo ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from helen.pipeline.availability import availability
from helen.pipeline.days import MICROS, Day, date_of
from helen.pipeline.lake import Lake
from helen.pipeline.partials import moment
from helen.pipeline.reports import availability_report
from helen.pipeline.shown import Report
from helen.pipeline.views import view

Names = Mapping[int, tuple[str, str]]


def span(now: datetime, minutes: float) -> Day:
    """The minutes until now, as if they were a day."""
    end = round(now.timestamp() * MICROS)
    return Day(now.date(), end - round(minutes * 60 * MICROS), end)


def rollup(spark: SparkSession, lake: Lake, minutes: Day, series: Names) -> Report:
    """Every bucket that isn't over before these minutes, of every check and metric."""
    files = lake.files("m5", (date_of(minutes.begin), date_of(minutes.end)))
    rows = view(spark, lake, "m5", files).where(F.col("bucket") > moment(minutes.begin - 300 * MICROS))
    mean = F.try_divide("sum", "values").alias("mean")
    found = rows.select("series", "bucket", "metric", "n", mean, "min", "max", "unit").toArrow().to_pylist()
    shown: list[dict[str, Any]] = [
        {**row, "check": "/".join(series[row["series"]]), "metric": row["metric"] or "(run time)",
         "from": row["bucket"].astimezone(UTC).strftime("%H:%M")}
        for row in found if row["series"] in series
    ]  # fmt: skip
    shown.sort(key=lambda row: (row["check"], row["metric"], row["bucket"]))
    columns = ["check", "metric", "from", "n", "mean", "min", "max", "unit"]
    return Report("Sums of five minutes (UTC)", columns, shown)


def spent(spark: SparkSession, lake: Lake, minutes: Day, series: Names) -> Report:
    """How the checks spent these minutes, by the profile of Helen's own pages."""
    return availability_report(availability(spark, lake, [minutes], "strict", "UTC", series), series, False, None)
