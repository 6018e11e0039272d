"""Decides where the tasks of a job run: in Spark's workers, or in this process where that costs less.

To hand out a job costs Spark more than the work on a few thousand rows. So what is little is done here, by the same
task, as long as Spark is on this machine alone; `--engine spark` hands out everything.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from helen.pipeline.lake.schema import WRITTEN
from helen.pipeline.worker_memory import GivingBack, Task, give_back

SETTING = "spark.helen.engine"
AUTO, SPARK = ENGINES = ("auto", "spark")


def works_here(spark: SparkSession | None) -> bool:
    """Return True if this process may do little work itself: never on a cluster, nor with `--engine spark`.

    Where there is no Spark at all, there is nothing else.
    """
    if spark is None:
        return True
    return spark.conf.get(SETTING, AUTO) == AUTO and str(spark.conf.get("spark.master", "")).startswith("local")


def run_parts(
    spark: SparkSession | None, task: Task, parts: int, rows: int, most_rows: int, columns: str = WRITTEN.ddl
) -> list[dict[str, Any]]:
    """Return the rows that a task hands back for the numbers of its parts, 0 to `parts` - 1; `columns` as Spark's DDL.

    At most `most_rows` are worked on in this process where `works_here`; their memory is given back.
    """
    if rows <= most_rows and works_here(spark):
        numbers = pa.RecordBatch.from_pydict({"id": list(range(parts))})
        made = [row for batch in task([numbers]) for row in batch.to_pylist()]
        give_back()
        return made
    assert spark is not None
    written = spark.range(0, parts, 1, parts).mapInArrow(GivingBack(task), columns).toArrow()
    found: list[dict[str, Any]] = written.to_pylist()
    return found
