"""Longer buckets from shorter ones: h1 from m5, d1 from h1, for those buckets only that new rows have touched.

A dirty (series, bucket) is computed anew from everything that the finer table has of it, and appended with a higher
`version`: the newest version counts. So a result that comes seven days late costs one hour and one day of one series,
and doing it twice changes nothing.
"""

from __future__ import annotations

from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake import File, Lake
from helen.pipeline.partials import bucket, merged, newest
from helen.pipeline.schema import DAY, HOUR

STEPS = (("m5", "h1", HOUR), ("h1", "d1", DAY))


def cascade(spark: SparkSession, lake: Lake) -> dict[str, int]:
    """Bring h1 and d1 up to what m5 has. Returns the rows written to each."""
    return {to: _step(spark, lake, of, to, seconds) for of, to, seconds in STEPS}


def _step(spark: SparkSession, lake: Lake, of: str, to: str, seconds: int) -> int:
    done = lake.done(to, f"cascade:{of}")
    files = lake.files(of)
    fresh = [file for file in files if file.fresh and file.version + 1 > done]
    if not fresh:
        return 0
    version = max(file.version for file in fresh) + 1
    days = {file.day for file in fresh}
    dirty = lake.frame(spark, of, fresh).select("series", bucket(F.col("bucket"), seconds).alias("dirty")).distinct()
    rows = whole(lake.frame(spark, of, [file for file in files if _near(file, days)]), of)
    found = rows.withColumn("dirty", bucket(F.col("bucket"), seconds)).join(dirty, ["series", "dirty"], "left_semi")
    summed = merged(found.drop("dirty"), seconds).withColumn("version", F.lit(version).cast("long"))
    staged = lake.stage(to, summed, files=1)
    return lake.publish(to, staged, {f"cascade:{of}": version})


def whole(rows: DataFrame, table: str) -> DataFrame:
    """The rows of a rollup that count: all of m5, the newest of h1 and d1."""
    return rows if table == "m5" else newest(rows)


def _near(file: File, days: set[date | None]) -> bool:
    """Buckets don't cross UTC days, so only the files of the dirty days matter."""
    return file.day in days
