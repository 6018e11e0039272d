"""The tables as views for SQL: of a rollup the rows that count, one for each bucket."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from helen.pipeline.lake import File, Lake
from helen.pipeline.schema import TABLES
from helen.pipeline.upkeep import condensed


def register(spark: SparkSession, lake: Lake) -> None:
    """One view for each table; the lake may go on meanwhile, the views stay at the version of now."""
    for name in TABLES:
        view(spark, lake, name).createOrReplaceTempView(name)


def view(spark: SparkSession, lake: Lake, name: str, files: list[File] | None = None) -> DataFrame:
    """The rows of a table that count, of these files or of all."""
    return condensed(lake.frame(spark, name, files), name)
