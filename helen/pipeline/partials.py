"""Frames to frames: results -> sums per series, metric and five minutes, and sums -> sums of longer buckets.

Everything in a row adds up (n, sum, sumsq), or is an extreme (min, max), or says where it begins and ends (first,
last), so rows of one bucket may come in any number and at any time: late results only make one row more. Never a mean:
means can't be added.

`increase` is what a counter has gained from the first to the last value of the bucket; a value below the one before it
began again at 0. It is exact as long as the rows of a bucket don't interleave in time, which a spool sent in order
never does; a rate is increase / (last_at - first_at).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from helen.pipeline.schema import ASKED, CHECK, COUNTER, FIVE_MINUTES, STATUSES

_KEYS = ("series", "bucket", "metric", "unit", "kind")
_ADD = ("n", *STATUSES, "values", "sum", "sumsq", "cpu_ms")


def bucket(time: Column, seconds: int) -> Column:
    """The beginning of the bucket that a time falls into. Days are UTC; nothing here knows of zones."""
    size = F.lit(seconds * 1_000_000)
    micros = F.unix_micros(time)
    return F.timestamp_micros(micros - micros % size)


def moment(micros: int) -> Column:
    """A literal."""
    return F.timestamp_micros(F.lit(micros))


def metric_name(metric: str = "m") -> Column:
    """A metric and its labels as one text, `used{path="/"}`, labels in the order of their names."""
    labels = F.col(f"{metric}.labels")
    entry = F.transform(
        F.array_sort(F.map_entries(labels)),
        lambda each: F.concat(each["key"], F.lit('="'), F.replace(F.replace(each["value"], F.lit("\\"), F.lit("\\\\")),
                                                                  F.lit('"'), F.lit('\\"')), F.lit('"')),
    )  # fmt: skip
    labelled = F.concat(f"{metric}.name", F.lit("{"), F.array_join(entry, ","), F.lit("}"))
    return F.when(F.size(labels) > 0, labelled).otherwise(F.col(f"{metric}.name"))


def partials(results: DataFrame) -> DataFrame:
    """Rows of m5 from rows of results."""
    counted = results.where(F.col("origin") != ASKED).withColumn("bucket", bucket(F.col("time"), FIVE_MINUTES))
    metrics = (
        counted.select("series", "bucket", "time", "at", "status", F.explode("metrics").alias("m"))
        .where(F.col("m.value").isNotNull())
        .select("series", "bucket", "time", "at", "status", metric_name().alias("metric"), "m.unit", "m.kind",
                F.col("m.value").alias("value"))
    )  # fmt: skip
    gauges = metrics.where(F.col("kind") != COUNTER)
    counters = _steps(metrics.where(F.col("kind") == COUNTER))
    rows = [_of_checks(counted), _of_values(gauges, F.lit(None).cast("double")), _of_values(counters, F.sum("step"))]
    return with_day(rows[0].unionByName(rows[1]).unionByName(rows[2]))


def merged(rows: DataFrame, seconds: int) -> DataFrame:
    """Rows of m5 or h1 -> one row for each series, metric and bucket of `seconds`."""
    longer = rows.withColumn("bucket", bucket(F.col("bucket"), seconds))
    counters = longer.where(F.col("kind") == COUNTER)
    gap = F.col("first") - F.lag("last").over(Window.partitionBy(*_KEYS).orderBy("first_at"))
    joined = counters.withColumn("increase", F.col("increase") + gained(gap, F.col("first")))
    return with_day(longer.where(F.col("kind") != COUNTER).unionByName(joined).groupBy(*_KEYS).agg(*_sums()))


def newest(rows: DataFrame) -> DataFrame:
    """Of h1 or d1: the rows that count."""
    order = Window.partitionBy(*_KEYS).orderBy(F.desc("version"))
    return rows.withColumn("_place", F.row_number().over(order)).where("_place = 1").drop("_place")


def gained(difference: Column, value: Column) -> Column:
    """What a counter gained from one value to the next; 0 for the first one."""
    return F.when(difference >= 0, difference).when(difference < 0, value).otherwise(F.lit(0.0))


def with_day(rows: DataFrame) -> DataFrame:
    """The partition column."""
    return rows.withColumn("day", F.to_date("bucket"))


def _steps(counters: DataFrame) -> DataFrame:
    order = Window.partitionBy(*_KEYS).orderBy("time", "at")
    step = F.col("value") - F.lag("value").over(order)
    return counters.withColumn("step", gained(step, F.col("value")))


def _of_checks(results: DataFrame) -> DataFrame:
    keys = [F.lit(CHECK).alias("metric"), F.lit("ms").alias("unit"), F.lit("gauge").alias("kind")]
    grouped = results.withColumn("value", F.col("took_ms")).groupBy("series", "bucket")
    return grouped.agg(
        *_counts(), *_spread(), F.lit(None).cast("double").alias("increase"), F.sum("cpu_ms").alias("cpu_ms"),
        F.max("peak_kib").alias("peak_kib"),
    ).select("*", *keys)  # fmt: skip


def _of_values(values: DataFrame, increase: Column) -> DataFrame:
    nothing = F.lit(None).cast("double")
    return values.groupBy(*_KEYS).agg(
        *_counts(), *_spread(), increase.alias("increase"), F.max(nothing).alias("cpu_ms"),
        F.max(nothing).alias("peak_kib"),
    )  # fmt: skip


def _counts() -> list[Column]:
    each = [F.count_if(F.col("status") == number).alias(word) for number, word in enumerate(STATUSES)]
    return [F.count(F.lit(1)).alias("n"), *each]


def _spread() -> list[Column]:
    value, when = F.col("value"), F.when(F.col("value").isNotNull(), F.col("time"))
    return [
        F.count(value).alias("values"), F.sum(value).alias("sum"), F.sum(value * value).alias("sumsq"),
        F.min(value).alias("min"), F.max(value).alias("max"), F.min_by(value, when).alias("first"),
        F.min(when).alias("first_at"), F.max_by(value, when).alias("last"), F.max(when).alias("last_at"),
    ]  # fmt: skip


def _sums() -> list[Column]:
    return [
        *(F.sum(name).alias(name) for name in _ADD), F.min("min").alias("min"), F.max("max").alias("max"),
        F.min_by("first", "first_at").alias("first"), F.min("first_at").alias("first_at"),
        F.max_by("last", "last_at").alias("last"), F.max("last_at").alias("last_at"),
        F.sum("increase").alias("increase"), F.max("peak_kib").alias("peak_kib"),
    ]  # fmt: skip
