"""The tables as views for SQL: of a rollup the rows that count, one for each bucket; of changes one view for each kind.

A change's document is JSON. What is asked for most of the kinds that Helen writes herself are columns here; everything
else is in `document`, for `get_json_object`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.lake import File, Lake
from helen.pipeline.schema import TABLES
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
    """One view for each table; the lake may go on meanwhile, the views stay at the version of now."""
    for name in TABLES:
        view(spark, lake, name).createOrReplaceTempView(name)
    for name in CHANGES:
        changes(spark, lake, name).createOrReplaceTempView(name)


def view(spark: SparkSession, lake: Lake, name: str, files: list[File] | None = None) -> DataFrame:
    """The rows of a table that count, of these files or of all."""
    return condensed(lake.frame(spark, name, files), name)


def changes(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    """The changes of one kind, their documents taken apart."""
    kind, columns = CHANGES[name]
    told = lake.frame(spark, "changes").where(F.col("kind") == kind)
    parts = [
        F.get_json_object("document", path).cast(type_).alias(column) for column, (type_, path) in columns.items()
    ]  # fmt: skip
    return told.select("helen", "at", "received", "series", *parts, "document", "day")
