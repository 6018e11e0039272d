"""Names the segments of a batch to Spark by its own expressions, where no stream needs the data source `helen`.

A data source in Python costs three processes to plan each batch, and a second worker beside each that does the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from helen.pipeline.ingest.offsets import Part
from helen.pipeline.lake.schema import SEGMENTS


def segments_of(spark: SparkSession, parts: Sequence[Part]) -> DataFrame:
    """Return one row for each segment (helen, segment, folder); those of a part are in one partition."""
    if not parts:
        return spark.createDataFrame([], SEGMENTS.ddl)
    named = [
        F.struct(
            F.lit(part.helen).cast("int").alias("helen"), F.lit(part.folder).alias("folder"),
            F.lit(part.first).cast("long").alias("first"), F.lit(part.last).cast("long").alias("last"),
        )
        for part in parts
    ]  # fmt: skip
    part = F.element_at(F.array(*named), (F.col("id") + 1).cast("int")).alias("part")
    each = spark.range(0, len(parts), 1, len(parts)).select(part)
    segment = F.explode(F.sequence("part.first", "part.last")).alias("segment")
    return each.select("part.helen", segment, "part.folder")
