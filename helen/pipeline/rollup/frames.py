"""Merges rows of rollups by Spark's frames, for views, and has the expressions that reports share.

lake/merging.py says how each column is merged. The sums of results are made by segment_rows.py alone, and counters.py
carries counters over the edges of buckets.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.merging import KEY, MERGING, Merging


def bucket(time: Column, level: Level) -> Column:
    """Return the beginning of the bucket that a time falls into."""
    micros = F.unix_micros(time)
    into = F.pmod(micros - F.lit(level.begins * MICROS), F.lit(level.step))
    return F.timestamp_micros(micros - into)


def moment(micros: int) -> Column:
    """Return a time, in microseconds since 1970, as a literal."""
    return F.timestamp_micros(F.lit(micros))


def metric_name(metric: str = "m") -> Column:
    """Return a metric and its labels as one text, `used{path="/"}`, labels in the order of their names."""
    labels = F.col(f"{metric}.labels")
    entry = F.transform(
        F.array_sort(F.map_entries(labels)),
        lambda each: F.concat(each["key"], F.lit('="'), F.replace(F.replace(each["value"], F.lit("\\"), F.lit("\\\\")),
                                                                  F.lit('"'), F.lit('\\"')), F.lit('"')),
    )  # fmt: skip
    labelled = F.concat(f"{metric}.name", F.lit("{"), F.array_join(entry, ","), F.lit("}"))
    return F.when(F.size(labels) > 0, labelled).otherwise(F.col(f"{metric}.name"))


def merged(rows: DataFrame, level: Level) -> DataFrame:
    """Return one row for each series, metric and bucket of a level, from rows of a finer one or of its own."""
    longer = rows.withColumn("bucket", bucket(F.col("bucket"), level))
    versions = [F.max("version").alias("version")] if "version" in rows.columns else []
    return with_day(longer.groupBy(*KEY).agg(*_sums(), *versions))


def newest(rows: DataFrame) -> DataFrame:
    """Return the rows that count, of a table that has versions."""
    newest_version = F.max("version").over(Window.partitionBy("series", "bucket"))
    return rows.withColumn("_newest", newest_version).where("version = _newest").drop("_newest")


def with_day(rows: DataFrame) -> DataFrame:
    """Add the partition column."""
    return rows.withColumn("day", F.to_date("bucket"))


def _sums() -> list[Column]:
    return [_merged(name, way).alias(name) for name, way in MERGING.items()]


def _merged(name: str, way: Merging) -> Column:
    match way:
        case Merging.COUNT:
            return F.coalesce(F.sum(name), F.lit(0))
        case Merging.SUM:
            return F.sum(name)
        case Merging.LEAST:
            return F.min(name)
        case Merging.MOST:
            return F.max(name)
        case Merging.FIRST:
            return F.min(name) if name == "first_at" else F.min_by(name, "first_at")
        case Merging.LAST:
            return F.max(name) if name == "last_at" else F.max_by(name, "last_at")
