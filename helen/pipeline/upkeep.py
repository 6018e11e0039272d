"""Keeps the lake small and quick: compaction by day, retention by whole days, and the sweep of what counts no more.

Compaction replaces the files of one day by few large ones, sorted by series, and leaves out what a rollup doesn't need
any more (older versions; several sums of one bucket become one). The content stays the same, so it is published as a
change that isn't one: neither the cascade nor a reader of changes sees it. Retention ends with whole UTC days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from helen.pipeline import rollups
from helen.pipeline.cascade import cascade
from helen.pipeline.errors import PipelineError
from helen.pipeline.lake import File, Lake
from helen.pipeline.partials import merged, newest
from helen.pipeline.schema import FIVE_MINUTES, TABLES

ENOUGH_FILES = 8  # of one day and table: fewer are not worth a rewrite
LIVELY_FILES = 60  # new ones of a day that goes on: a reader of today opens some hundred files instead of 8,640
ROWS_PER_FILE = 4_000_000  # 100 MB of results: large enough to compress, small enough for a task
ROLLUPS = {"m5": FIVE_MINUTES, "h1": None, "d1": None}  # rows of one bucket are added up, or the newest counts
SWEEP_HOURS = 1  # readers of an old version have so long to finish
LATEST_DAYS = 9  # results may come 8 days late, and need the finer sums of their day
# Days that each table keeps. Raw results are for re-parsing and back-tests; changes and the daily tables are small.
KEEP: Mapping[str, int | None] = {
    "results": 30, "m5": 90, "h1": 400, "d1": None, "changes": None, "availability_daily": None,
}  # fmt: skip

Say = Callable[[str], None]


def compact(
    spark: SparkSession, lake: Lake, now: datetime | None = None, all_days: bool = False, say: Say = lambda line: None
) -> int:
    """Rewrite the days that have many files and are over (or all). Returns the number of days rewritten.

    Of a day that goes on only the files that are new are put together: no row is written more than twice in a day.
    """
    cascade(spark, lake)
    return gather(spark, lake, LIVELY_FILES, now, all_days, say=say)


def gather(
    spark: SparkSession, lake: Lake, lively: int, now: datetime | None = None, all_days: bool = False,
    tables: Sequence[str] = tuple(TABLES), past: bool = True, say: Say = lambda line: None,
) -> int:  # fmt: skip
    """The same for some tables, what is new in them was seen by the cascade; `past`: days that are over, too."""
    today = (now or datetime.now(UTC)).date()
    rewritten = 0
    for name in tables:
        by_day: dict[date, list[File]] = defaultdict(list)
        for file in lake.files(name) if TABLES[name].by_day else ():
            by_day[file.day or today].append(file)
        for day, files in sorted(by_day.items()):
            goes_on = day >= today and not all_days
            if not goes_on and not past:
                continue
            chosen = [file for file in files if file.fresh] if goes_on else files
            needed = -(-sum(file.rows for file in files) // rows_per_file(name))
            if len(chosen) >= (1 + needed if all_days else lively if goes_on else ENOUGH_FILES + needed - 1):
                say(f"{name} {day}: {len(chosen)} files")
                compact_day(spark, lake, name, chosen)
                rewritten += 1
    return rewritten


def rows_per_file(name: str) -> int:
    return rollups.ROWS_PER_PART if name in ROLLUPS else ROWS_PER_FILE


def compact_day(spark: SparkSession, lake: Lake, name: str, files: list[File]) -> None:
    """These files of one day become one, or as many as their rows need."""
    if name in ROLLUPS:
        staged = rollups.stage(spark, lake, name, name, ROLLUPS[name], files)
    else:
        count, sort = max(1, -(-sum(file.rows for file in files) // ROWS_PER_FILE)), TABLES[name].sort
        rows = condensed(lake.frame(spark, name, files), name)
        shaped = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, *sort)
        staged = lake.stage(name, shaped.sortWithinPartitions(*sort))
    lake.publish(name, staged, {}, files, fresh=False)


def condensed(rows: DataFrame, name: str) -> DataFrame:
    """Without what doesn't count any more."""
    if name == "m5":
        return merged(rows, FIVE_MINUTES)
    if name in ("h1", "d1"):
        return newest(rows)
    if name == "availability_daily":
        same = Window.partitionBy("series", "date", "zone", "profile")
        newest_version = F.max("version").over(same)
        return rows.withColumn("_newest", newest_version).where("version = _newest").drop("_newest")
    return rows


def expire(lake: Lake, today: date, keep: Mapping[str, int | None] = KEEP) -> dict[str, int]:
    """Take whole days out of the tables. Returns how many files went."""
    check_keep(keep)
    gone = {}
    for name, days in keep.items():
        if days is None:
            continue
        old = [f for f in lake.files(name) if f.day is not None and f.day < today - timedelta(days=days)]
        if old:
            lake.publish(name, [], {}, old)
        gone[name] = len(old)
    return gone


def check_keep(keep: Mapping[str, int | None]) -> None:
    """Raises PipelineError for days that would make sums wrong."""
    for name, days in keep.items():
        if name in ("m5", "h1") and days is not None and days < LATEST_DAYS:
            raise PipelineError(f"{name} must be kept {LATEST_DAYS} days or longer: results may come 8 days late.")


def sweep(lake: Lake, hours: int = SWEEP_HOURS) -> int:
    """Delete what no version needs: replaced files, and files of attempts that a crash ended."""
    return sum(lake.sweep(name, hours) for name in TABLES)
