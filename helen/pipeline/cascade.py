"""Longer buckets from shorter ones: h1 from m5, d1 from h1, for those buckets only that new rows have touched.

A dirty (series, bucket) is computed anew from everything that the finer table has of it, and appended with a higher
`version`: the newest version counts. So a result that comes seven days late costs one hour and one day of one series,
and doing it twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from helen.pipeline import rollups
from helen.pipeline.lake import Lake
from helen.pipeline.schema import DAY, HOUR

HOURS, DAYS = ("m5", "h1", HOUR), ("h1", "d1", DAY)


def cascade(spark: SparkSession, lake: Lake, steps: Sequence[tuple[str, str, int]] = (HOURS, DAYS)) -> dict[str, int]:
    """Bring h1 up to what m5 has, and d1 to h1. Returns the rows written to each."""
    return {to: _step(spark, lake, of, to, seconds) for of, to, seconds in steps}


def _step(spark: SparkSession, lake: Lake, of: str, to: str, seconds: int) -> int:
    done = lake.done(to, f"cascade:{of}")
    files = lake.files(of)
    fresh = [file for file in files if file.fresh and file.version + 1 > done]
    if not fresh:
        return 0
    version = max(file.version for file in fresh) + 1
    days = {file.day for file in fresh}
    near = [file for file in files if file.day in days]  # buckets don't cross UTC days
    staged = rollups.stage(spark, lake, of, to, seconds, near, fresh, version)
    return lake.publish(to, staged, {f"cascade:{of}": version})
