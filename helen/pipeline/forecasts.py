"""Reports over the hours of h1: when a metric will run into its limit, and which hours were not as usual.

Each series and metric is one task's matter: its hours, in order, go through trends.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.days import MICROS, Day, date_of
from helen.pipeline.lake import Lake
from helen.pipeline.partials import metric_name, moment
from helen.pipeline.schema import CHECK, COUNTER, ddl
from helen.pipeline.shown import Report, Row, line
from helen.pipeline.trends import limit_of, reach, strange, thinned, trend
from helen.pipeline.views import view

HOUR = 3600 * MICROS
MONDAY = 4 * 24  # hours from 1970-01-01, a Thursday, to the first Monday
WEEKS = 5  # of hours before the days of a report that say what is usual
THRESHOLD = 6.0  # standard deviations: one hour in 500 million, were it chance
CAPACITY = pa.schema(
    [("series", pa.int32()), ("metric", pa.string()), ("unit", pa.string()), ("now", pa.float64()),
     ("per_day", pa.float64()), ("limit", pa.float64()), ("days", pa.float64()), ("earliest", pa.float64()),
     ("latest", pa.float64()), ("curve", pa.list_(pa.float64()))]
)  # fmt: skip
ANOMALIES = pa.schema(
    [("series", pa.int32()), ("metric", pa.string()), ("unit", pa.string()), ("hour", pa.timestamp("us", tz="UTC")),
     ("value", pa.float64()), ("usual", pa.float64()), ("score", pa.float64())]
)  # fmt: skip
Names = Mapping[int, tuple[str, str]]
Hours = list[dict[str, Any]]


@frozen
class Task:
    """Runs in Spark's workers: hours sorted by series and metric -> rows of `schema`."""

    rows: Callable[[Hours], list[dict[str, Any]]]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[dict[str, Any]] = []
        held: Hours = []
        for batch in batches:
            for row in batch.to_pylist():
                if held and (row["series"], row["metric"]) != (held[0]["series"], held[0]["metric"]):
                    found += self.rows(held)
                    held = []
                held.append(row)
        found += self.rows(held) if held else []
        yield pa.RecordBatch.from_pylist(found, schema=self.schema)


@frozen
class Forecast:
    """The hours of one metric -> when it runs into its limit, if it does."""

    within: float

    def __call__(self, hours: Hours) -> list[dict[str, Any]]:
        days = np.array([row["hour"] for row in hours]) / 24
        values = np.array([row["value"] for row in hours])
        found = trend(days, values)
        newest = hours[-1]
        if found is None or found.slope == 0:
            return []
        rising = found.slope > 0
        limits = (
            limit_of(newest["crit"], rising),
            limit_of(newest["warn"], rising),
            newest["max" if rising else "min"],
        )
        limit = next((each for each in limits if each is not None), None)
        if limit is None:
            return []
        met = reach(found, limit)
        if met.days is None or met.days > self.within:
            return []
        return [
            {"series": newest["series"], "metric": newest["metric"], "unit": newest["unit"],
             "now": round(found.level, 3), "per_day": round(found.slope, 4), "limit": limit, "days": met.days,
             "earliest": met.earliest, "latest": met.latest, "curve": thinned(values.tolist())}
        ]  # fmt: skip


@frozen
class Strange:
    """The hours of one metric -> those from `first` on that were not as usual."""

    first: int
    threshold: float

    def __call__(self, hours: Hours) -> list[dict[str, Any]]:
        places = np.array([row["hour"] - MONDAY for row in hours])
        values = np.array([row["value"] for row in hours])
        return [
            {"series": hours[at]["series"], "metric": hours[at]["metric"], "unit": hours[at]["unit"],
             "hour": hours[at]["hour"] * HOUR, "value": round(float(values[at]), 4),
             "usual": round(expected.value, 4), "score": round(score, 1)}
            for at, expected, score in strange(places, values, self.first - MONDAY, self.threshold)
        ]  # fmt: skip


def capacity(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, within: float = 365.0
) -> Report:  # fmt: skip
    """What will run into its limit within so many days, the soonest first; trends from these days."""
    hours = _hours(spark, lake, days[0].begin, days[-1].end)
    limited = hours.join(F.broadcast(_limits(spark, lake, days[-1])), ["series", "metric"])
    rows = _run(limited, Task(Forecast(within), CAPACITY), series)
    rows.sort(key=lambda row: (row["days"], row["check"], row["metric"]))
    columns = ["check", "metric", "unit", "now", "per_day", "limit", "days", "earliest", "latest"]
    return Report(f"Capacity, trends of {days[0].date} to {days[-1].date}", columns, rows, (), _curve)


def anomalies(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, threshold: float = THRESHOLD
) -> Report:
    """Hours of these days that were not as usual, the strangest first."""
    begin = days[0].begin
    hours = _hours(spark, lake, begin - WEEKS * 7 * 24 * HOUR, days[-1].end)
    rows = _run(hours, Task(Strange(begin // HOUR, threshold), ANOMALIES), series)
    rows.sort(key=lambda row: (-abs(row["score"]), row["check"], row["metric"]))
    columns = ["check", "metric", "unit", "hour", "value", "usual", "score"]
    return Report(f"Anomalies, {days[0].date} to {days[-1].date}", columns, rows)


def _run(hours: DataFrame, task: Task, series: Names) -> list[dict[str, Any]]:
    ordered = hours.repartition("series").sortWithinPartitions("series", "metric", "hour")
    found = ordered.mapInArrow(task, ddl(task.schema)).toArrow().to_pylist()
    return [{**row, "check": "/".join(series[row["series"]])} for row in found if row["series"] in series]


def _hours(spark: SparkSession, lake: Lake, begin: int, end: int) -> DataFrame:
    """The mean of each hour of each metric; of a counter what it gained in a second."""
    files = lake.files("h1", (date_of(begin), date_of(end)))
    rows = view(spark, lake, "h1", files).where((F.col("bucket") >= moment(begin)) & (F.col("bucket") < moment(end)))
    lasted = (F.unix_micros("last_at") - F.unix_micros("first_at")) / MICROS
    rate = F.when(lasted > 0, F.col("increase") / lasted)
    value = F.when(F.col("kind") == COUNTER, rate).otherwise(F.try_divide("sum", "values"))
    hour = (F.unix_micros("bucket") / HOUR).cast("long").alias("hour")
    return rows.where(F.col("metric") != CHECK).select(
        "series", "metric", "unit", hour, value.alias("value")).where(F.col("value").isNotNull())  # fmt: skip


def _limits(spark: SparkSession, lake: Lake, last: Day) -> DataFrame:
    """The ranges and bounds that the last results of each metric named; from the last two days that there are."""
    first: date = date_of(last.begin) - timedelta(days=1)
    rows = lake.frame(spark, "results", lake.files("results", (first, date_of(last.end))))
    each = rows.select("series", "time", F.explode("metrics").alias("m"))
    named = each.select("series", "time", metric_name().alias("metric"), "m.crit", "m.warn", "m.min", "m.max")
    named = named.where(F.coalesce("crit", "warn").isNotNull() | F.coalesce("max", "min").isNotNull())
    newest = [F.max_by(name, "time").alias(name) for name in ("crit", "warn", "min", "max")]
    return named.groupBy("series", "metric").agg(*newest)


def _curve(row: Row) -> str:
    return line(row["curve"])
