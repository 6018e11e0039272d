"""Makes rollups anew: m5 from the raw results of whole days, longer levels from the level that they follow.

A day is replaced in one entry of the log. Counters are carried into it from the days before, so the days into which its
own last values are carried are made anew behind it. Done twice it changes nothing more.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.day_files import write_days
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.kept_days import kept_from, oldest_day
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import Held, between, held, read
from helen.pipeline.lake.levels import Level
from helen.pipeline.lake.schema import HELENS, RESULTS, SUMS, WRITTEN
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.job import bounds_of, stage
from helen.pipeline.rollup.overlaps import OF_RESULTS
from helen.pipeline.rollup.segment_rows import sums_of
from helen.pipeline.rollup.steps import COLUMNS, DAYS, as_rows, changed_steps, last_of, stretches
from helen.pipeline.rollup.unseen import is_to_be_added

ROWS_PER_PART = 1_000_000  # of results, without their blobs: 300 MB in a worker
LITTLE_ROWS = 150_000  # that are summed up in this process
Say = Callable[[str], None]


@frozen
class SumTask:
    """Turns numbers of parts into files of m5, from results; `before` are the sums of the days before."""

    results: Sequence[Held]
    before: Sequence[Held]
    bounds: Sequence[tuple[int, int]]
    staged: str

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        paths = [path for batch in numbers for part in batch.column(0).to_pylist() for path in self._part(part)]
        rows = [{"table": SUMS.name, "path": str(path), "helen": 0, "segment": 0, "folder": ""} for path in paths]
        yield pa.RecordBatch.from_pylist(rows, schema=WRITTEN.arrow)

    def _part(self, part: int) -> list[Path]:
        rows = sums_of_raw(self.results, self.before, between(*self.bounds[part]))
        return write_days(SUMS, rows, Path(self.staged) / uuid.uuid4().hex) if rows.num_rows else []


def sums_of_raw(results: Sequence[Held], before: Sequence[Held], wanted: Any) -> pa.Table:
    """Return rows of m5 for results, with the steps of counters from the rows of m5 of the days `before`."""
    rows = read(RESULTS, [file.path for file in results], OF_RESULTS, wanted)
    order = pc.sort_indices(rows, sort_keys=[("time", "ascending"), ("at", "ascending")])
    sums = sums_of(rows.take(order))
    there = stretches(read(SUMS, [file.path for file in before], [*COLUMNS, "kind"], wanted))
    last = {key: [last_of(rows)] for key, rows in there.items()}
    steps = {key: changed_steps([], [*last.get(key, ()), *new], new) for key, new in stretches(sums).items()}
    return pa.concat_tables([sums, as_rows(steps)])


def rebuild_sums(spark: SparkSession, lake: Lake, day: date, results: Sequence[Held]) -> int:
    """Replace m5 of a day by the sums of these results, and return the rows. The caller has the lock.

    Days behind it into which counters are carried aren't touched: `days_behind` names them.
    """
    old = lake.files(SUMS.name, (day, day))
    before = lake.files(SUMS.name, (day - DAYS, day - timedelta(days=1)))
    rows = sum(file.rows for file in results)
    bounds = bounds_of(RESULTS, results, -(-rows // ROWS_PER_PART))
    staged = lake.staging(SUMS.name)
    task = SumTask(results, held(lake, SUMS.name, before), bounds, str(staged))
    paths = sorted(Path(row["path"]) for row in run_parts(spark, task, len(bounds), rows, LITTLE_ROWS))
    return lake.publish(SUMS.name, paths, {}, old)


def rebuild(spark: SparkSession, lake: Lake, table: str, days: Sequence[date], say: Say = lambda line: None) -> int:
    """Make these days of a rollup anew, and return the rows. Levels that follow it are brought up to it.

    Raises PipelineError for a table that is no rollup, and for days whose source is not kept any more. The caller has
    the lock.
    """
    level = lake.levels.get(table)
    if level is None:
        raise PipelineError(f"{table} can't be made anew: only {', '.join(lake.levels)} come from other tables.")
    source = RESULTS.name if level.source is None else level.source
    check_kept(lake, source, days)
    check_even(lake)
    count = 0
    for day in days if level.source is not None else [*days, *days_behind(lake, days)]:
        rows = sum_again(spark, lake, day) if level.source is None else _rebuild_level(spark, lake, level, day)
        say(f"{table} {day}: {rows} rows")
        count += rows
    cascade(spark, lake, say=say)  # puts levels of an older format in order, too: by now damaged files have gone
    return count


def sum_again(spark: SparkSession, lake: Lake, day: date) -> int:
    """Replace m5 of a day by the sums of what `results` has of it, and return the rows."""
    files = held(lake, RESULTS.name, lake.files(RESULTS.name, (day, day)))
    return rebuild_sums(spark, lake, day, files) if files or lake.files(SUMS.name, (day, day)) else 0


def days_behind(lake: Lake, days: Sequence[date]) -> list[date]:
    """Return the days behind these into which their counters are carried, as far as there are results."""
    since = kept_from(lake, RESULTS.name)
    kept = {file.day for file in lake.files(RESULTS.name) if file.day is not None and file.day >= since}
    behind = {day + timedelta(days=number) for day in days for number in range(1, DAYS.days + 1)} - {*days}
    return sorted(day for day in behind if day in kept)


def check_even(lake: Lake) -> None:
    """Raise PipelineError if a run ended between two tables: sums made anew would lack what `results` gets next."""
    for row in lake.rows(HELENS.name):
        name = f"seg:{row['id']}"
        if lake.done(SUMS.name, name) != lake.done(RESULTS.name, name):
            raise PipelineError(
                f"{SUMS.name} has segments of {row['folder']} that {RESULTS.name} hasn't yet: first `helen pipeline run"
                " --once`."
            )


def check_kept(lake: Lake, source: str, days: Sequence[date]) -> None:
    """Raise PipelineError if days are older than what a table keeps: they would be replaced by nothing."""
    oldest = oldest_day(lake, source)
    if oldest is None or days[0] < oldest:
        since = "nothing" if oldest is None else f"nothing before {oldest}"
        raise PipelineError(f"{source} has {since} any more, so {days[0]} can't be made anew: choose later days.")


def _rebuild_level(spark: SparkSession, lake: Lake, level: Level, day: date) -> int:
    """Replace a day of a level that follows another one, as far as it has followed: what is added comes later, once."""
    assert level.source is not None
    last = day + timedelta(days=level.days - 1)
    old, sources = lake.files(level.name, (day, day)), lake.files(level.source, (day, last))
    sources = [file for file in sources if not is_to_be_added(lake, level, file)]
    version = max((file.version for file in lake.files(level.source)), default=0) + 1
    if not sources:
        return lake.publish(level.name, [], {}, old)
    staged = stage(spark, lake, level.source, level.name, sources, sources, version)
    return lake.publish(level.name, [path for path in staged if path.parent.name == f"day={day}"], {}, old)
