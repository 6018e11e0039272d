"""Keeps the lake small and quick: compaction by day, retention by whole days, and the sweep of superfluous files.

Compaction replaces files of one day by few large ones, sorted by series, and leaves out rows that a rollup doesn't
need any more (older versions; several sums of one bucket become one). The content stays the same, and the log says so:
neither the cascade nor a reader of changes sees new rows. Retention ends with whole UTC days.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from groundwork.counts import count
from helen.pipeline.file_runs import worth_rewriting
from helen.pipeline.lake.answer_folders import sweep_folders
from helen.pipeline.lake.damaged_files import Damage
from helen.pipeline.lake.errors import LakeDamaged, PipelineError
from helen.pipeline.lake.kept_days import EXPIRED, kept_from
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import LATEST_DAYS, LEVELS, Levels, least_days
from helen.pipeline.lake.log_entries import File
from helen.pipeline.lake.schema import AVAILABILITY, CHANGES, RESULTS, STANDING, Table
from helen.pipeline.rollup import job
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.frames import merged, newest
from helen.pipeline.rollup.sorting import VERSIONED, stage_sorted
from helen.pipeline.rollup.unseen import is_unseen
from helen.pipeline.standing import bring_up, unseen

LIVELY_FILES = 60  # new ones of a day that goes on: a reader of today opens some hundred files instead of 8,640
ROWS_PER_FILE = 4_000_000  # 100 MB of results: large enough to compress, small enough for a task
Keep = Mapping[str, int | None]


def retention(levels: Levels) -> Keep:
    """Return the days that each table keeps, None for ever: {"results": 30, "m5": 90, ...}.

    Raw results are for re-parsing and back-tests; changes and the tables of days are small.
    """
    rollups = {level.name: level.keep_days for level in levels.values()}
    return {RESULTS.name: 30, **rollups, CHANGES.name: None, STANDING.name: None, AVAILABILITY.name: None}


KEEP = retention(LEVELS)
Say = Callable[[str], None]


def compact(
    spark: SparkSession, lake: Lake, now: datetime | None = None, all_days: bool = False, say: Say = lambda line: None
) -> int:
    """Put files of days together that have many of them and are over (or all). Returns the number of these days.

    Files that can't be read are left out, and named at the end. Raises LakeDamaged.

    Only the new files of a day that goes on are put together: no row is written more than twice in a day. For a day
    that is over, as many are put together as came late: file_runs.py says which.
    """
    damage, today = Damage(), (now or datetime.now(UTC)).date()
    try:
        cascade(spark, lake, say=say)
    except LakeDamaged as error:
        damage.sentences.append(str(error))
    with lake.turn:
        changes = lake.files(CHANGES.name)
    damage.without(lake, CHANGES.name, changes, lambda _: bring_up(spark, lake, today, say))
    rewritten = 0
    try:
        rewritten = gather(spark, lake, LIVELY_FILES, now, all_days, say=say)
    except LakeDamaged as error:
        damage.sentences.append(str(error))
    damage.tell()
    return rewritten


def gather(
    spark: SparkSession, lake: Lake, lively: int, now: datetime | None = None, all_days: bool = False,
    tables: Iterable[str] | None = None, past: bool = True, say: Say = lambda line: None,
) -> int:  # fmt: skip
    """Do the same for some tables with new rows that the cascade has seen; `past`: on days that are over, too.

    A file that can't be read holds back its own day alone. Raises LakeDamaged at the end.
    """
    today = (now or datetime.now(UTC)).date()
    rewritten, damage = 0, Damage()
    for name in lake.tables if tables is None else tables:
        table = lake.tables[name]
        by_day: dict[date, list[File]] = defaultdict(list)
        for file in _seen_files(lake, table) if table.by_day else ():
            by_day[file.day or today].append(file)
        for day, files in sorted(by_day.items()):
            goes_on = last_day(table, day) >= today and not all_days
            if not goes_on and not past:
                continue
            chosen = _chosen(table, files, lively if goes_on else None, all_days)
            if chosen:
                say(f"{name} {day}: {count(len(chosen), 'file')}")
                damage.without(lake, name, chosen, lambda files, of=table: compact_day(spark, lake, of, list(files)))
                rewritten += 1
    damage.tell()
    return rewritten


def _chosen(table: Table, files: list[File], lively: int | None, every: bool) -> list[File]:
    """Return the files of a day that are to be put together: every one, those that are new, or those worth it.

    `lively` is how many new files a day that goes on may have; None: it is over.
    """
    if every:
        needed = -(-sum(file.rows for file in files) // rows_per_file(table))
        return files if len(files) >= 1 + needed else []
    if lively is None:
        return worth_rewriting(files, rows_per_file(table))
    new = [file for file in files if file.fresh]
    return new if len(new) >= lively else []


def _seen_files(lake: Lake, table: Table) -> list[File]:
    """Return the files of a table, without those that came in since what follows it was made: they are new to it."""
    with lake.turn:
        files = lake.files(table.name)
        if table is CHANGES:
            new = {file.path for file in unseen(lake, files)}
            return [file for file in files if file.path not in new]
        return files if table.level is None else [file for file in files if not is_unseen(lake, table.level, file)]


def last_day(table: Table, day: date) -> date:
    """Return the last day of the buckets that begin on `day`."""
    return day if table.level is None else day + timedelta(days=table.level.days - 1)


def rows_per_file(table: Table) -> int:
    """Return how many rows of a table one compacted file has at most."""
    return ROWS_PER_FILE if table.level is None else job.ROWS_PER_PART


def compact_day(spark: SparkSession, lake: Lake, table: Table, files: list[File]) -> None:
    """Replace these files of one day by one, or by as many as their rows need."""
    if table.level is not None:
        staged = job.stage(spark, lake, table.name, table.name, files)
    else:
        staged = stage_sorted(spark, lake, table, files, ROWS_PER_FILE)
    with lake.turn:
        lake.publish(table.name, staged, {}, files, fresh=False)


def condensed(rows: DataFrame, table: Table, is_live: bool = True) -> DataFrame:
    """Return the rows of a table that count: one for each bucket of a rollup, the newest version of a day.

    A level of an older format is not live: it has several versions of a bucket.
    """
    if table.level is not None:
        return merged(rows, table.level) if is_live else newest(rows)
    if table.name == AVAILABILITY.name:
        same = Window.partitionBy(*VERSIONED)
        newest_version = F.max("version").over(same)
        return rows.withColumn("_newest", newest_version).where("version = _newest").drop("_newest")
    return rows


def expire(lake: Lake, today: date, keep: Keep = KEEP) -> dict[str, int]:
    """Take whole days out of the tables. Returns how many files went, by table. Raises PipelineError.

    Files that a longer level has not seen stay until it has: late results of such a day are in its sums, too. The last
    day that went is noted, not the one that the clock says: a clock that runs ahead once would take all for forgotten.
    """
    check_keep(keep, lake.levels)
    gone = {}
    for name, days in keep.items():
        if days is None:
            continue
        with lake.turn:
            noted = kept_from(lake, name)
            since = max(noted, today - timedelta(days=days))
            old = [file for file in lake.files(name) if file.day is not None and file.day < since]
            level = lake.tables[name].level
            old = [file for file in old if level is None or not is_unseen(lake, level, file)]
            if old:
                last = max(file.day or date.min for file in old)
                lake.publish(name, [], {EXPIRED: max(noted, last + timedelta(days=1)).toordinal()}, old)
        gone[name] = len(old)
    return gone


def check_keep(keep: Keep, levels: Levels = LEVELS) -> None:
    """Raise PipelineError if sums would be wrong because a source of a level is kept for too few days."""
    least = least_days(levels)
    for name, days in keep.items():
        if days is not None and days < least.get(name, 0):
            raise PipelineError(
                f"{name} must be kept {least[name]} days or longer: results may come {LATEST_DAYS - 1} days late."
            )


def sweep(lake: Lake, hours: int | None = None) -> int:
    """Delete files that no version needs: replaced ones, and those of attempts that a crash ended. Returns how many.

    Readers of an old version have `hours` to finish, by default as long as the tables' own property says.
    """
    found = 0
    for name in lake.tables:
        with lake.turn:  # the staging folder goes as well
            found += lake.sweep(name, hours)
    sweep_folders(lake, time.time())
    return found
