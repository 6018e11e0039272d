"""Reports on hours: when a metric will run into its limit, and which hours were not as usual.

One task has all hours of a series and metric, in order, and puts them through trends.py.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from attrs import frozen
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake.kept_days import oldest_day
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import H1
from helen.pipeline.lake.local_days import MICROS, Day, date_of
from helen.pipeline.lake.schema import CHECK, COUNTER, ddl
from helen.pipeline.reports.answer_files import PIECE_ROWS, AnswerRows, answer
from helen.pipeline.reports.report_formats import Report, Row, line
from helen.pipeline.reports.sql_views import view
from helen.pipeline.reports.trends import limit_of, reach, strange, thinned, trend
from helen.pipeline.rollup.frames import metric_name, moment
from helen.pipeline.worker_memory import GivingBack

HOUR = H1.step
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
    """Turns hours sorted by series and metric into rows of `schema`, in Spark's workers."""

    rows: Callable[[Hours], list[dict[str, Any]]]
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[dict[str, Any]] = []
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, hours in itertools.groupby(rows, lambda row: (row["series"], row["metric"])):
            found += self.rows([*hours])
            if len(found) >= PIECE_ROWS:
                yield pa.RecordBatch.from_pylist(found, schema=self.schema)
                found = []
        yield pa.RecordBatch.from_pylist(found, schema=self.schema)


@frozen
class Forecast:
    """Finds in the hours of one metric when it will run into its limit, within so many days."""

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
    """Finds the hours of one metric, from `first` on, that were not as usual."""

    first: int
    threshold: float
    zone: str = "UTC"

    def __call__(self, hours: Hours) -> list[dict[str, Any]]:
        places = np.array([local_hour(row["hour"], self.zone) - MONDAY for row in hours])
        values, first = np.array([row["value"] for row in hours]), local_hour(self.first, self.zone) - MONDAY
        return [
            {"series": hours[at]["series"], "metric": hours[at]["metric"], "unit": hours[at]["unit"],
             "hour": hours[at]["hour"] * HOUR, "value": round(float(values[at]), 4),
             "usual": round(expected.value, 4), "score": round(score, 1)}
            for at, expected, score in strange(places, values, first, self.threshold)
        ]  # fmt: skip


@functools.lru_cache(maxsize=4096)  # five weeks and the days of a report; each metric asks for the same ones
def local_hour(hour: int, zone: str) -> int:
    """Return the hour on the clocks of a zone, counted from 1970-01-01 00:00 there, of an hour of UTC.

    People's weeks are local: load that begins at nine does so when the clocks are changed, too.
    """
    offset = datetime.fromtimestamp(hour * 3600, ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return (hour * 3600 + round(offset.total_seconds())) // 3600


def capacity(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, within: float = 365.0
) -> Report:  # fmt: skip
    """Return the metrics that will run into their limit `within` so many days of 86,400 s, the soonest first."""
    hours = _hours(spark, lake, days[0].begin, days[-1].end)
    limited = hours.join(F.broadcast(_limits(spark, lake, days[-1])), ["series", "metric"])
    task = Task(Forecast(within), CAPACITY)
    rows = _run(spark, lake, limited, task, series, [F.col("days"), F.col("check"), F.col("metric")])
    columns = ["check", "metric", "unit", "now", "per_day", "limit", "days", "earliest", "latest"]
    title = f"Capacity, trends of {days[0].date} to {days[-1].date}"
    return Report(title, columns, rows, (), _curve, hidden=frozenset(("unit",)))


def anomalies(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, threshold: float = THRESHOLD,
    zone: str = "UTC",
) -> Report:  # fmt: skip
    """Return the hours of these days that were not as usual, the strangest first. Weeks are those of the zone."""
    begin = days[0].begin
    hours = _hours(spark, lake, begin - WEEKS * 7 * 24 * HOUR, days[-1].end)
    task = Task(Strange(begin // HOUR, threshold, zone), ANOMALIES)
    order = [F.abs("score").desc(), F.col("check"), F.col("metric"), F.col("hour")]
    rows = _run(spark, lake, hours, task, series, order)
    columns = ["check", "metric", "unit", "hour", "value", "usual", "score"]
    title = f"Anomalies, {days[0].date} to {days[-1].date}"
    return Report(title, columns, rows, hidden=frozenset(("unit",)))


def _run(
    spark: SparkSession, lake: Lake, hours: DataFrame, task: Task, series: Names, order: Sequence[Column]
) -> AnswerRows:
    """Return the rows that a task makes of each metric of these checks, in this order. Spark sorts; the rows stay in
    files."""
    named = [(number, "/".join(name)) for number, name in series.items()]
    names = F.broadcast(spark.createDataFrame(named, "series int, check string"))
    ordered = hours.repartition("series").sortWithinPartitions("series", "metric", "hour")
    found = ordered.mapInArrow(GivingBack(task), ddl(task.schema)).join(names, "series")
    # One task sorts, on the disk if need be: to sort by ranges Spark would run the tasks before it twice.
    rows = found.select(*task.schema.names, "check").repartition(1).sortWithinPartitions(*order)
    return answer(spark, lake, rows, task.schema.append(pa.field("check", pa.string())))


def _hours(spark: SparkSession, lake: Lake, begin: int, end: int) -> DataFrame:
    """Return the mean of each hour of each metric; of a counter its gain in a second."""
    files = lake.files(H1.name, (date_of(begin), date_of(end)))
    rows = view(spark, lake, H1.name, files).where((F.col("bucket") >= moment(begin)) & (F.col("bucket") < moment(end)))
    lasted = F.coalesce("increase_s", (F.unix_micros("last_at") - F.unix_micros("first_at")) / MICROS)
    rate = F.when(lasted > 0, F.col("increase") / lasted)
    value = F.when(F.col("kind") == COUNTER, rate).otherwise(F.try_divide("sum", "values"))
    hour = (F.unix_micros("bucket") / HOUR).cast("long").alias("hour")
    return rows.where(F.col("metric") != CHECK).select(
        "series", "metric", "unit", hour, value.alias("value")).where(F.col("value").isNotNull())  # fmt: skip


def _limits(spark: SparkSession, lake: Lake, last: Day) -> DataFrame:
    """Return the ranges and bounds that the last results of each metric named within two days, the last ones kept."""
    first: date = max(date_of(last.begin) - timedelta(days=1), oldest_day(lake, "results") or date.min)
    until = max(date_of(last.end), first + timedelta(days=1))  # where those days are forgotten: what is known first
    rows = lake.frame(spark, "results", lake.files("results", (first, until)))
    each = rows.select("series", "time", F.explode("metrics").alias("m"))
    named = each.select("series", "time", metric_name().alias("metric"), "m.crit", "m.warn", "m.min", "m.max")
    named = named.where(F.coalesce("crit", "warn").isNotNull() | F.coalesce("max", "min").isNotNull())
    newest = [F.max_by(name, "time").alias(name) for name in ("crit", "warn", "min", "max")]
    return named.groupBy("series", "metric").agg(*newest)


def _curve(row: Row) -> str:
    return line(row["curve"])
