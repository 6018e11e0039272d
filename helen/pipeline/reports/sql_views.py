"""Registers the tables as views for SQL: rollups with one row for each bucket, and one view for each kind of changes.

A change's document is JSON. For kinds that Helen itself writes, the fields that are asked for most are columns here;
all others are in `document`, for `get_json_object`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held, may_repeat
from helen.pipeline.lake.log_entries import File
from helen.pipeline.upkeep import condensed

# view -> kind, and column -> its type and where it is in the document
CHANGES: Mapping[str, tuple[str, Mapping[str, tuple[str, str]]]] = {
    "transitions": ("transition", {
        "was": ("string", "$.was.status"), "status": ("string", "$.now.status"), "kind": ("string", "$.now.kind"),
        "reason": ("string", "$.now.reason"), "attempt": ("int", "$.now.attempt"), "why": ("string", "$.why"),
        "summary": ("string", "$.summary"),
    }),
    "flaps": ("flap", {
        "on": ("boolean", "$.on"), "percent": ("double", "$.percent"), "status": ("string", "$.status"),
    }),
    "decisions": ("decision", {
        "action": ("string", "$.action"), "what": ("string", "$.what"), "status": ("string", "$.status"),
        "why": ("string", "$.why"), "reasons": ("string", "$.reasons"),
    }),
    "notices": ("notice", {
        "action": ("string", "$.action"), "what": ("string", "$.what"), "channel": ("string", "$.channel"),
        "rule": ("string", "$.rule"), "tries": ("int", "$.tries"), "why": ("string", "$.why"),
    }),
}  # fmt: skip


def register(spark: SparkSession, lake: Lake) -> None:
    """Make one view for each table. The lake may go on meanwhile; the views stay at the version of now."""
    for name in lake.tables:
        view(spark, lake, name).createOrReplaceTempView(name)
    for name in CHANGES:
        changes(spark, lake, name).createOrReplaceTempView(name)


def view(spark: SparkSession, lake: Lake, name: str, files: list[File] | None = None) -> DataFrame:
    """Return the rows of a table that count, of these files or of all.

    In levels that follow another one, few days have several rows of a bucket, and only these are grouped.
    """
    chosen, table, is_live = lake.files(name) if files is None else files, lake.tables[name], lake.is_live(name)
    if table.level is None or table.level.source is None or not is_live:
        return condensed(lake.frame(spark, name, chosen), table, is_live)
    by_day: dict[Any, list[File]] = defaultdict(list)
    for file in chosen:
        by_day[file.day].append(file)
    again = {day for day, of in by_day.items() if may_repeat(held(lake, name, of))}
    once = lake.frame(spark, name, [file for file in chosen if file.day not in again])
    if not again:
        return once
    several = lake.frame(spark, name, [file for file in chosen if file.day in again])
    return once.unionByName(condensed(several, table), allowMissingColumns=True)


def changes(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """Return the changes of one kind, with the fields of their documents as columns."""
    kind, columns = CHANGES[name]
    rows = lake.frame(spark, "changes").where(F.col("kind") == kind)
    parts = [
        F.get_json_object("document", path).cast(type_).alias(column) for column, (type_, path) in columns.items()
    ]  # fmt: skip
    return rows.select("helen", "at", "received", "series", *parts, "document", "day")
