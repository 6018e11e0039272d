"""Starts Spark with settings as measured on 2 cores, each to be overridden by `--conf`.

All others are Spark's defaults. docs/pipeline.rst says what each of these costs and saves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from helen.pipeline.ingest.source import HelenSource
from helen.pipeline.java import Java, find_java
from helen.pipeline.java_banners import without_banners
from helen.pipeline.workers import worker_python

PARTITIONS = "spark.sql.shuffle.partitions"
WORKERS_SECONDS = 10.0  # for the first executor of a cluster to register
HEAP = "1g"  # 700m passed 5,000,000 rows as well, for 4 % more CPU; 2g saves 15 %
SETTINGS = {
    "spark.driver.memory": HEAP,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",  # a third less CPU than G1 on 2 cores
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.scheduler.mode": "FAIR",  # a batch doesn't wait for all tasks of a compaction
    "spark.sql.session.timeZone": "UTC",  # reports make local days, from the zone that they are asked for
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default is INT96, which others can't prune by
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",  # every file is named; no job to list them
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Spark's own notes, made anew for each run: a sum beside each file, and a new file's mode, cost a process each.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "20",  # of the checkpoint; the lake knows its own numbers
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def start_spark(
    application: str, master: str = "local[*]", settings: Mapping[str, str] | None = None, scratch: Path | None = None
) -> SparkSession:
    """Start the one Spark of this process. Raises PipelineError if there is no Java.

    `scratch` is a folder for shuffles and for the Java shim; the default is Spark's, under /tmp.
    """
    launchers = scratch or Path.home() / ".cache" / "helen-pipeline"
    set_environment(find_java(os.environ, launchers), worker_python(master, launchers))
    chosen = SETTINGS | dict(settings or {})
    if scratch is not None:
        chosen.setdefault("spark.local.dir", str(scratch))
        chosen.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    builder = SparkSession.builder.appName(application).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with without_banners():
        spark = builder.getOrCreate()
    spark.dataSource.register(HelenSource)
    if PARTITIONS not in chosen:
        spark.conf.set(PARTITIONS, str(cores_of(spark)))
    return spark


def cores_of(spark: SparkSession) -> int:
    """Return the cores that tasks have, at least 2; of a cluster, those of the executors that have registered.

    A shuffle is split into as many partitions: Spark's default of 200 costs seven times as much on two cores. It waits
    up to WORKERS_SECONDS for the first executor.
    """
    context = spark.sparkContext
    until = time.monotonic() + WORKERS_SECONDS
    executors = context._jsc.sc().getExecutorMemoryStatus  # the driver counts as one of them
    while not str(context.master).startswith("local") and executors().size() < 2 and time.monotonic() < until:
        time.sleep(0.1)
    return max(2, int(context.defaultParallelism))


def set_environment(java: Java, python: Path) -> None:
    """Set the environment that the JVM and its Python workers inherit. Call it before the JVM starts.

    Without PYSPARK_PYTHON a worker is whatever `python3` the PATH has, which lacks our packages.
    """
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = str(python)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
