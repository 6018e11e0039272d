"""Starts Spark with settings as measured on 2 cores, each to be overridden by `--conf`.

All others are Spark's defaults. docs/pipeline.rst says what each of these costs and saves.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from groundwork.arrow_memory import choose_arenas
from helen.pipeline.ingest.source import HelenSource
from helen.pipeline.java import Java, find_java
from helen.pipeline.java_banners import without_banners
from helen.pipeline.workers import HERE, worker_python

PARTITIONS = "spark.sql.shuffle.partitions"
WORKERS_SECONDS = 10.0  # for the first executor of a cluster to register
SETTLED_SECONDS = 1.0  # without another one: those of a cluster start at the same time
# Of executors on this machine: they pass on what Python's workers have made, and each compiles the same code anew. To
# compile it well takes 7 s of CPU for each of them, which a cluster to try things out on never gets back.
HERE_SETTINGS = {"spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
HEAP = "1g"  # 700m passed 5,000,000 rows as well, for 4 % more CPU; 2g saves 15 %
RETAINED = (
    "spark.ui.retainedJobs", "spark.ui.retainedStages", "spark.ui.retainedTasks", "spark.sql.ui.retainedExecutions",
)  # fmt: skip
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
    **dict.fromkeys(RETAINED, "50"),  # what Spark keeps of jobs that are done, for pages that there aren't
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
    chosen = SETTINGS | (HERE_SETTINGS if master.startswith(HERE) else {}) | dict(settings or {})
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
    up to WORKERS_SECONDS for the first executor, then until none has come for SETTLED_SECONDS.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("local"):
        wait_for_executors(lambda: int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1)  # the driver is in it
    return max(2, int(context.defaultParallelism))


def wait_for_executors(
    count: Callable[[], int], clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Wait until executors have registered and no more come, or none has come in time."""
    began = changed = clock()
    known = count()
    while clock() - changed < (SETTLED_SECONDS if known else WORKERS_SECONDS):
        sleep(0.1)
        if (now := count()) != known:
            known, changed = now, clock()
        if clock() - began > WORKERS_SECONDS + SETTLED_SECONDS:
            return


def set_environment(java: Java, python: Path) -> None:
    """Set the environment that the JVM and its Python workers inherit. Call it before the JVM starts.

    Without PYSPARK_PYTHON a worker is whatever `python3` the PATH has, which lacks our packages.
    """
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = str(python)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    choose_arenas(os.environ)  # some 20 MB of the JVM, more in workers
