"""Tests the segments of a batch as a frame: the same as the data source names, in as many tasks, without a Python
worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from helen.pipeline.driver import Driver, Settings
from helen.pipeline.engine import SETTING, SPARK
from helen.pipeline.ingest.offsets import Options, Part, initial, latest, ranges
from helen.pipeline.ingest.segment_frames import segments_of
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import SEGMENTS

PARTS = [Part(0, "/a history", 3, 7), Part(0, "/a history", 8, 8), Part(4, "/it's another", 1, 2)]


def test_each_part_is_a_partition(spark: Any) -> None:
    frame = segments_of(spark, PARTS)
    schema = frame.toArrow().schema
    assert (schema.names, schema.types) == (SEGMENTS.arrow.names, SEGMENTS.arrow.types)
    found = frame.withColumn("task", F.spark_partition_id()).collect()
    assert [tuple(row) for row in found] == [
        *((0, number, "/a history", 0) for number in range(3, 8)), (0, 8, "/a history", 1),
        (4, 1, "/it's another", 2), (4, 2, "/it's another", 2),
    ]  # fmt: skip


def test_changes_alone_are_no_segments(spark: Any) -> None:
    frame = segments_of(spark, [])
    assert (frame.columns, frame.collect()) == (SEGMENTS.arrow.names, [])


def test_it_names_what_the_data_source_names(spark: Any, history: Any) -> None:
    for number in range(12):
        history.segment(history.result("web1/disk", 1_790_000_000.0 + number, "ok"))
    options = Options({"path": str(history.folder)})
    start = initial(options)
    parts = ranges(options, start, latest(options, start, 11))
    source = spark.read.format("helen").option("rows", "segments").load(str(history.folder)).where("segment <= 11")
    order = ["helen", "segment"]
    assert segments_of(spark, parts).orderBy(order).collect() == source.orderBy(order).collect()
    assert segments_of(spark, parts).rdd.getNumPartitions() == 3


def test_a_run_once_plans_no_data_source(spark: Any, history: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A run with --once lets Spark's workers take segments in without the data source."""
    for number in range(7):
        history.segment(history.result("web1/disk", 1_790_000_000.0 + number, "ok"))

    def refuse(*_: Any) -> None:
        raise AssertionError("a batch without a stream needs no data source")

    monkeypatch.setattr("pyspark.sql.readwriter.DataFrameReader.format", refuse)
    spark.conf.set(SETTING, SPARK)
    try:
        Driver(spark, Lake(tmp_path / "lake"), [history.folder], Settings(once=True, upkeep=False)).run()
    finally:
        spark.conf.unset(SETTING)
    assert sorted(row["segment"] for row in Lake(tmp_path / "lake").rows("results")) == list(range(1, 8))
