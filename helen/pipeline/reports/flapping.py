"""Reports the checks that flapped. Tasks fold the recorded flaps: the driver gets one row for each check."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day
from helen.pipeline.lake.schema import ddl
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.reports.report_jobs import Names, flips_of, span_of
from helen.pipeline.rollup.frames import moment
from helen.pipeline.worker_memory import GivingBack

_FLAPPED = pa.schema(
    [("series", pa.int32()), ("times", pa.int64()), ("seconds", pa.float64()), ("worst_percent", pa.float64()),
     ("percent_of_time", pa.float64())]
)  # fmt: skip


def flapping(spark: SparkSession, lake: Lake, days: Sequence[Day], series: Names, top: int) -> Report:
    """Report the checks that flapped, by Helen's own records, and how often their status changed."""
    begin, end = days[0].begin, days[-1].end
    task = GivingBack(Task(begin, end))
    found = flaps_of(spark, lake, begin, end).mapInArrow(task, ddl(_FLAPPED)).toArrow().to_pylist()
    flips = flips_of(spark, lake, days)
    rows = [
        {"check": "/".join(series[number]), **row, "changes": flips.get(number, 0)}
        for row in found if (number := row.pop("series")) in series
    ]  # fmt: skip
    rows.sort(key=lambda row: (-row["seconds"], -row["changes"], row["check"]))
    columns = ["check", "times", "seconds", "percent_of_time", "worst_percent", "changes"]
    return Report(f"Flapping, {span_of(days)}", columns, rows[:top])


@frozen
class Task:
    """Turns the flaps of checks, one check after the other and each in order, into one row for each, in workers."""

    begin: int
    end: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        flaps = (row for batch in batches for row in batch.to_pylist())
        found = [
            {"series": number, **figures}
            for _, of_check in itertools.groupby(flaps, lambda row: row["series"])
            for number, figures in flapped(of_check, self.begin, self.end).items()
        ]
        yield pa.RecordBatch.from_pylist(found, schema=_FLAPPED)


def flaps_of(spark: SparkSession, lake: Lake, begin: int, end: int) -> DataFrame:
    """Return the recorded flaps of a time, and the last one of each check before it, by check and in order."""
    flaps = lake.frame(spark, "changes").where(
        (F.col("kind") == "flap") & F.col("series").isNotNull() & (F.col("received") < moment(end))
    ).select("series", "received", "at", "document")  # fmt: skip
    is_before = F.col("received") < moment(begin)
    last = [F.max_by(name, F.struct("received", "at")).alias(name) for name in ("received", "at", "document")]
    before = flaps.where(is_before).groupBy("series").agg(*last)
    chosen = before.unionByName(flaps.where(~is_before)).repartition("series")
    ordered = chosen.sortWithinPartitions("series", "received", "at")
    return ordered.select("series", F.unix_micros("received").alias("at"), "document")


def flapped(flaps: Iterable[Mapping[str, Any]], begin: int, end: int) -> dict[int, dict[str, Any]]:
    """Return {SERIES: {"times", "seconds", "worst_percent", "percent_of_time"}} of those that flapped in a time.

    The rows are changes of kind `flap`, in order; `begin` and `end` are microseconds since 1970.
    """
    since: dict[int, int] = {}
    found: dict[int, dict[str, Any]] = {}

    def add(number: int, until: int) -> None:
        """Count flapping that ends at a time."""
        lasted, percent = min(until, end) - max(since.pop(number), begin), worst.pop(number)
        if lasted > 0:
            figures = found.setdefault(number, {"times": 0, "seconds": 0.0, "worst_percent": 0.0})
            figures["times"] += 1
            figures["seconds"] += lasted / MICROS
            figures["worst_percent"] = max(figures["worst_percent"], percent)

    worst: dict[int, float] = {}  # of the flapping that goes on
    for row in flaps:
        document, number = json.loads(row["document"]), row["series"]
        if document.get("on"):
            since.setdefault(number, row["at"])
            worst[number] = max(worst.get(number, 0.0), float(document.get("percent", 0.0)))
        elif number in since:
            add(number, row["at"])
    for number in list(since):
        add(number, end)
    for figures in found.values():
        figures["percent_of_time"] = round(100 * figures["seconds"] * MICROS / (end - begin), 2)
    return found
