"""Simulates a lake that a large fleet fills for years: files, logs, upkeep, reports, and what ends first. Pure.

    days = simulate(Fleet(), Policy.of_code(), costs, 400)

`Policy` is read from the pipeline's own constants and `Costs` are measured (bench/lake_settings.py), so a change of
either moves the answer. The simulation does what the driver does, in its order: batches; each time that h1 follows, the
hour is made anew and m5's new files are put together; each time that upkeep is due, days expire, d1 follows, and the
new files of a day that goes on are put together, as are those of a day that is over. It counts files, rows and entries
as the rules of helen/pipeline/upkeep.py make them, and never touches a disk.

Results of agents that come back after an outage are simulated by bench/lake_late_days.py. Several Helens and failures
are left out. All times are seconds, all sizes bytes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import define, field, frozen
from lake_late_days import LateDays
from lake_settings import Costs, Fleet, Policy
from lake_store import Store

from helen.pipeline.lake.levels import D1, DAY_SECONDS, H1, M5
from helen.pipeline.lake.schema import CHANGES, RESULTS, STANDING, TAKEN

COPIES = 4  # of an answer: in the JVM as it comes and as it goes on, in Python's memory, in pages of the file
TABLES = (RESULTS.name, M5.name, H1.name, D1.name, CHANGES.name, TAKEN.name)


@frozen
class Snapshot:
    """Says how a lake is at the end of one day, and what that day has cost."""

    day: int
    batches: int
    files: Mapping[str, float]
    bytes: Mapping[str, float]
    log_bytes: Mapping[str, float]
    cpu: Mapping[str, float]  # seconds of this day, by kind of work
    alone: float  # seconds of the driver for one batch
    hold: float  # the longest time that upkeep holds the turn of batches
    memory: float  # of the driver and its JVM, while no report runs
    day_report: tuple[float, float]  # CPU seconds, bytes in the driver
    month_report: tuple[float, float]
    month_shown: float  # seconds of the driver alone to print a month by days
    month_file: float  # bytes of the file that has its rows meanwhile


@define
class Lake:
    """Simulates a lake, day by day."""

    fleet: Fleet
    policy: Policy
    costs: Costs
    cores: int = 8
    stores: dict[str, Store] = field(factory=lambda: {name: Store() for name in TABLES})
    cpu: dict[str, float] = field(factory=dict)
    hold: float = 0.0
    standing: float = 0.0
    day: int = 0
    hour_files: int = 0  # of the hour that goes on
    late: LateDays = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.late = LateDays(self.fleet, self.policy, self.costs)

    @property
    def batch_rows(self) -> float:
        return self.fleet.per_second * self.policy.trigger

    def live_day(self) -> None:
        """Let one day pass."""
        policy = self.policy
        self.cpu, self.hold = (
            dict.fromkeys(("taking in", "hours and days", "today's files", "whole days", "late rows"), 0.0),
            0.0,
        )
        for store in self.stores.values():
            store.begin()
        for slot in range(round(DAY_SECONDS / policy.follow)):
            self._take(round(policy.follow / policy.trigger))
            self._follow_hour(slot)
            if (slot + 1) % round(policy.upkeep / policy.follow) == 0:
                self._keep_up()
        self._end_day()
        self.day += 1

    def _take(self, batches: int) -> None:
        rows, costs = self.batch_rows, self.costs
        tasks = math.ceil(min(rows / self.policy.segment_rows, self.policy.max_segments) / self.policy.per_task)
        self.cpu["taking in"] += batches * rows * costs.taken
        changes = self.fleet.series * self.fleet.changes / DAY_SECONDS * self.policy.trigger
        self.cpu["taking in"] += batches * changes * costs.change
        self.stores[RESULTS.name].add(batches, tasks, rows)
        self.stores[M5.name].add(batches, tasks, rows * self._rows_per_result)
        self.stores[TAKEN.name].add(batches, tasks, rows / self.policy.segment_rows)
        self.stores[CHANGES.name].add(batches, 1, changes)

    @property
    def _rows_per_result(self) -> float:
        """Return the rows of m5 for a result of one batch: as many as for a bucket, if no check comes twice in it."""
        return self.costs.rows_per_bucket / max(1.0, min(self.policy.trigger, M5.seconds) / self.fleet.seconds)

    @property
    def bucket_rows(self) -> float:
        """Return the rows of one bucket of any level, put together."""
        return self.fleet.series * self.costs.rows_per_bucket

    def _gathered(self, new: float) -> float:
        """Return the rows of m5 that stay of new ones of one interval, which begins anywhere within a bucket."""
        each = max(1.0, self.policy.follow / self.fleet.seconds)
        return min(new, self.bucket_rows * self.policy.follow / M5.seconds * (2 - 1 / each))

    def _follow_hour(self, slot: int) -> None:
        """Make the hours anew that have new rows, then put the new files of m5 together."""
        m5, h1, policy = self.stores[M5.name], self.stores[H1.name], self.policy
        done = slot % round(H1.seconds / policy.follow)
        files = [*m5.new, *m5.runs[len(m5.runs) - done :]]
        source = sum(files)
        parts = math.ceil(source / policy.part_rows)
        group = policy.group_rows[M5.name]
        pieces = read_of_all(files, parts, group) - source
        self._spend("hours and days", source * self.costs.follow + pieces * self.costs.merge_piece)
        h1.replace(parts, self.bucket_rows, self.hour_files if done else 0)
        self.hour_files = parts
        self._hold(H1.name, parts)
        if len(m5.new) >= policy.gather:
            self._put_together(M5.name, self._gathered(sum(m5.new)))

    def _keep_up(self) -> None:
        """Let days expire, make the day anew, and put together what has many new files."""
        for name, store in self.stores.items():
            store.expire(self.policy.keep.get(name))
        h1, d1 = self.stores[H1.name], self.stores[D1.name]
        source = h1.rows
        self._spend("hours and days", source * self.costs.follow)
        parts = math.ceil(source / self.policy.part_rows)
        d1.replace(parts, self.bucket_rows, len(d1.new))
        for name, store in self.stores.items():
            if len(store.new) >= self.policy.lively:
                self._put_together(name, sum(store.new))
        self._spend("late rows", self.late.hour(self.stores, self._work, self._per_file))

    def _put_together(self, name: str, stays: float) -> None:
        """Put the new files of today together; so many rows stay."""
        store = self.stores[name]
        parts = self._parts(name, sum(store.new))
        self._spend("today's files", self._work(name, store.new, parts))
        store.put_together(parts, stays)
        self._hold(name, parts)

    def _parts(self, name: str, rows: float) -> int:
        return max(1, math.ceil(rows / self._per_file(name)))

    def _per_file(self, name: str) -> float:
        return self.policy.part_rows if name in (M5.name, H1.name, D1.name) else self.policy.file_rows

    def _work(self, name: str, files: list[float], parts: int) -> float:
        """Return the CPU seconds to put files, or runs of sorted files, with so many rows each together in parts."""
        rows, is_rollup = sum(files), name in (M5.name, H1.name, D1.name)
        group = self.policy.group_rows[M5.name if is_rollup else RESULTS.name]
        pieces = read_of_all(files, parts, group) - rows
        costs = self.costs
        if name in (CHANGES.name, TAKEN.name):
            return 0.0  # in the cost of a change; segments are few
        return rows * (costs.merge if is_rollup else costs.sort) + pieces * (
            costs.merge_piece if is_rollup else costs.sort_piece
        )

    def _end_day(self) -> None:
        whole = {}
        for name, store in self.stores.items():
            rows = self.day_rows(name)
            there, needed = store.today, self._parts(name, store.rows)
            if there >= self.policy.enough + needed - 1:
                self._spend("whole days", self._work(name, [*store.new, *store.runs], needed))
                self._hold(name, needed)
                there = needed
            store.close(there, rows * self.costs.final[name])
            whole[name] = rows, there
        self.late.close(whole)
        if (self.day + 1) % 7 == 0:
            self.standing = 3.0 * self.fleet.series * self.costs.final[CHANGES.name] * ((self.day + 1) // 7)

    def day_rows(self, name: str) -> float:
        """Return the rows of a table for one day, put together."""
        buckets = {level.name: DAY_SECONDS / level.seconds for level in (M5, H1, D1)}
        if name in buckets:
            return self.bucket_rows * buckets[name]
        results = self.fleet.per_second * DAY_SECONDS
        return {
            RESULTS.name: results,
            CHANGES.name: self.fleet.series * self.fleet.changes,
            TAKEN.name: results / self.policy.segment_rows,
        }[name]

    def _spend(self, what: str, seconds: float) -> None:
        self.cpu[what] += seconds

    def _hold(self, name: str, files: int) -> None:
        """Note how long upkeep holds the turn: it lists a table, or publishes files into it."""
        costs, there = self.costs, self.stores[name].files
        publish = costs.publish + files * costs.publish_file + there * (costs.publish_listed + costs.note_file)
        self.hold = max(self.hold, publish, there * costs.list_file)

    # -------------------------------------------------------------------------------------------- what it comes to

    def snapshot(self) -> Snapshot:
        """Return how it is now."""
        costs, policy, fleet = self.costs, self.policy, self.fleet
        files = {name: store.files for name, store in self.stores.items()}
        sizes = {name: sum(size for _, size in store.past) for name, store in self.stores.items()}
        logs = {name: self._log_bytes(name) for name in self.stores}
        written = (RESULTS.name, M5.name, TAKEN.name, CHANGES.name)
        noted = costs.publish_listed + costs.note_file / policy.checkpoint
        commits = sum(files[name] * noted for name in written)
        memory = costs.idle + fleet.series * costs.name + sum(files.values()) * costs.file_memory
        past = min(self.day, policy.look_back) + 1
        rows = fleet.per_second * DAY_SECONDS
        day = fleet.series * costs.check_day + past * rows * costs.report_row, memory + fleet.series * costs.answer
        days = min(self.day, 30)
        check_days = days * fleet.series
        month = (
            check_days * costs.check_day + min(self.day, 30 + policy.look_back) * rows * costs.report_row,
            memory + min(check_days, policy.days_at_once * self.cores) * costs.packed * COPIES,
        )
        return Snapshot(
            self.day, round(DAY_SECONDS / policy.trigger), files, sizes | {STANDING.name: self.standing}, logs,
            dict(self.cpu), self.batch_rows * costs.taken_alone + commits, self.hold, memory, day, month,
            check_days * costs.shown, check_days * costs.packed,
        )  # fmt: skip

    def _log_bytes(self, name: str) -> float:
        """Return the bytes of a table's log: entries that are kept, and as many checkpoints as they have."""
        store, costs, policy = self.stores[name], self.costs, self.policy
        kept = policy.log_seconds / DAY_SECONDS
        removed = sum(store.removed) * policy.removed_seconds / DAY_SECONDS / len(store.removed)
        checkpoints = 1 + int(store.entries * kept) // policy.checkpoint
        return store.added * kept * costs.entry + checkpoints * (store.files + removed) * costs.checkpoint


def read_of(rows: float, parts: int, group: int) -> float:
    """Return how many rows all parts together read of a file, or of a run of sorted files, with so many rows.

    A part is a range of series. Parquet gives whole groups: what a part wants of a sorted run begins and ends within
    one, and a file that is smaller than a group is read whole by each part.
    """
    return parts * min(rows, rows / parts + group) if parts > 1 else rows


def read_of_all(files: Iterable[float], parts: int, group: int) -> float:
    """Return the same for many files or runs, of their rows. Most are equally large, and computed once."""
    return sum(many * read_of(rows, parts, group) for rows, many in Counter(files).items())


def simulate(fleet: Fleet, policy: Policy, costs: Costs, days: int, cores: int = 8) -> list[Snapshot]:
    """Return the lake at the end of each day; Spark has so many cores."""
    lake, found = Lake(fleet, policy, costs, cores), []
    for _ in range(days):
        lake.live_day()
        found.append(lake.snapshot())
    return found
