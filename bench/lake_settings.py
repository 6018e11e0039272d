"""Describes a large fleet, the settings of the pipeline that decide how its lake grows, and what its pieces cost. Pure.

Times are seconds, sizes are bytes. bench/lake_growth.py simulates with them, bench/lake_years.py measures the costs.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from helen.journal.limits import Limits
from helen.pipeline import driver, file_runs, upkeep
from helen.pipeline.ingest.offsets import MAX_SEGMENTS, PER_TASK
from helen.pipeline.lake.lake import CONFIGURATION
from helen.pipeline.lake.levels import H1, M5
from helen.pipeline.lake.schema import RESULTS, SUMS
from helen.pipeline.reports.availability import PARTS_AT_ONCE
from helen.pipeline.reports.availability_inputs import CHECK_DAYS_PER_PART, LOOK_BACK
from helen.pipeline.rollup import adding, job


@frozen
class Fleet:
    """Describes what comes in: each check once in `seconds`, and so many changes of each check a day.

    `back` is the share of the agents that come back on a day from an outage of so many hours, and send what they kept.
    """

    agents: int = 10_000
    checks: int = 50
    seconds: float = 60.0
    changes: float = 5.0
    back: float = 0.0
    outage: float = 8.0

    @property
    def series(self) -> int:
        return self.agents * self.checks

    @property
    def per_second(self) -> float:
        return self.series / self.seconds


@frozen
class Policy:
    """Holds the settings of the pipeline that decide how a lake grows."""

    trigger: float
    follow: float
    upkeep: float
    segment_rows: int
    per_task: int
    max_segments: int
    gather: int
    lively: int
    enough: int
    file_rows: int
    part_rows: int
    group_rows: Mapping[str, int]
    checkpoint: int
    log_seconds: float
    removed_seconds: float
    keep: Mapping[str, int | None]
    look_back: int
    days_at_once: int  # check-days that the driver gets at a time, for each core
    add_from: float  # rows of a day to which late rows are only added

    @classmethod
    def of_code(cls) -> Policy:
        """Return what the pipeline does without any option."""
        hours, days = (int(str(CONFIGURATION[name]).split()[1]) for name in (
            "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"))  # fmt: skip
        return cls(
            trigger=driver.TRIGGER, follow=H1.follow_seconds, upkeep=driver.UPKEEP,
            segment_rows=Limits().results_per_segment, per_task=PER_TASK, max_segments=MAX_SEGMENTS,
            gather=driver.GATHER, lively=upkeep.LIVELY_FILES, enough=file_runs.ENOUGH_FILES,
            file_rows=upkeep.ROWS_PER_FILE, part_rows=job.ROWS_PER_PART,
            group_rows={RESULTS.name: RESULTS.rows_per_group, M5.name: SUMS.rows_per_group},
            checkpoint=int(str(CONFIGURATION["delta.checkpointInterval"])), log_seconds=hours * 3600.0,
            removed_seconds=days * 86_400.0, keep=upkeep.KEEP, look_back=LOOK_BACK.days,
            days_at_once=PARTS_AT_ONCE * CHECK_DAYS_PER_PART, add_from=adding.ADD_FROM,
        )  # fmt: skip


@frozen
class Costs:
    """Holds what the real pieces cost: CPU seconds, bytes, and rows. A *piece* is a row that a task reads and drops."""

    taken: float  # a result taken in, all processes
    taken_alone: float  # of these, those of the driver, which no worker can help with
    rows_per_bucket: float  # rows of m5 for a check and five minutes
    follow: float  # a row of m5 (or h1) that goes into an hour (or a day)
    merge: float  # a row of a rollup that is put together
    merge_piece: float
    sort: float  # a row of results that is put together
    sort_piece: float
    change: float  # a change, taken in and put together
    fresh: Mapping[str, float]  # bytes of a row as it comes in
    final: Mapping[str, float]  # bytes of a row of a day that is put together
    list_file: float  # seconds for each file of a table, where its files are listed
    file_memory: float  # bytes in the driver for each file of a table
    entry: float  # bytes in the log for a file that an entry adds
    checkpoint: float  # bytes in a checkpoint for a file
    publish: float  # seconds for an entry with one file
    publish_file: float  # for each further file of an entry
    publish_listed: float  # for each file that the table has already
    note_file: float  # seconds for each file of a table, when a checkpoint of its log is written
    check_day: float  # seconds of a report for a check and day
    report_row: float  # and for a result of that time, or of the days before it
    answer: float  # bytes in the driver for each row of a report with one row for each check
    packed: float  # and for each check-day of a report by days, as long as it is not in the file yet
    shown: float  # seconds of the driver alone for each row that it prints as CSV
    name: float  # bytes in the driver for each series
    idle: float  # bytes of the driver and its JVM before any of that
