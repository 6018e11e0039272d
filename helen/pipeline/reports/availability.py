"""Runs the availability job: from the lake's records of each check to the accounts of its local days.

availability_math.py has the rule itself, availability_inputs.py reads its inputs. All inputs of a check are in one
task, which computes all of its days and makes sure that every second is accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen
from pyspark.sql import SparkSession

from helen.pipeline.engine import run_parts
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day
from helen.pipeline.lake.schema import AVAILABILITY, ddl
from helen.pipeline.reports import availability_inputs
from helen.pipeline.reports.availability_inputs import Plan
from helen.pipeline.reports.availability_math import Accounts, accounts_of, percents
from helen.pipeline.reports.day_rows import DayRows, by_day
from helen.pipeline.reports.transitions import CONFIRMED
from helen.states.rollout_trials import ROLLOUT_KEY

RESERVED, LINK = "equus:", "equus:link"
LITTLE_ROWS = 1_000_000  # of the lake, and check-days, that are worked on in the driver: 200 MB
_ROW = AVAILABILITY.columns
_ACCOUNTS = ("ok", "bad", "planned", "unknown", "no_data")
_KEY = ["series", "date", "zone", "profile"]
_VALUES = [name for name in _ROW.names if name not in {*_KEY, "version"}]
PARTS_AT_ONCE = 4  # of each core: with 20,000 check-days in a part that is 8 MB for each core
_PACKED = pa.schema([("rows", pa.binary())])  # all rows of a part in one value: the JVM need not look at each of them
Array = Any  # of numpy


@frozen
class Task:
    """Turns numbers of a plan's parts into rows of availability_daily, in Spark's workers."""

    plan: Plan
    days: Sequence[Day]
    profile: str
    zone: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"rows": [packed(self.rows(part))]}, schema=_PACKED)

    def rows(self, part: int) -> pa.RecordBatch:
        """Return the rows of a part of the plan, by series and day."""
        rows = [
            self._rows(series, accounts_of(checks, self.days, self.profile))
            for series, checks in self.plan.inputs(part, len(self.days))
        ]
        return pa.concat_tables(rows).combine_chunks().to_batches()[0]

    def _rows(self, series: Array, made: Accounts) -> pa.Table:
        count = len(series) * len(self.days)
        lengths = np.array([day.end - day.begin for day in self.days])
        percent = percents(*made.counted())
        columns = {
            "series": np.repeat(series, len(self.days)), "date": self._dates(len(series)),
            "zone": pa.repeat(self.zone, count), "profile": pa.repeat(self.profile, count),
            "seconds": np.tile(lengths, len(series)) / MICROS,
            **{name: each / MICROS for name, each in zip(_ACCOUNTS, made.totals, strict=True)},
            "percent": pa.array(percent, mask=np.isnan(percent)), "outages": made.outages,
            "why": reasons_as_json(made, count), "from_changes": np.repeat(made.checks.has_moments, len(self.days)),
            "version": np.zeros(count, np.int64),
        }  # fmt: skip
        return pa.table([pa.array(columns[field.name]).cast(field.type) for field in _ROW], schema=_ROW)

    def _dates(self, checks: int) -> pa.Array:
        return pa.array([day.date for day in self.days]).take(pa.array(np.tile(np.arange(len(self.days)), checks)))


def reasons_as_json(made: Accounts, count: int) -> pa.Array:
    """Return the times by reason of each row as JSON: {REASON: SECONDS}."""
    rows, reasons, times = made.why
    names = pa.array([json.dumps(each) for each in made.checks.reasons]).take(pa.array(reasons))
    begins = np.searchsorted(rows, np.arange(count + 1)).astype(np.int32)
    pairs = pa.ListArray.from_arrays(pa.array(begins), pc.binary_join_element_wise(names, seconds_as_json(times), ": "))
    return pc.binary_join_element_wise("{", pc.binary_join(pairs, ", "), "}", "")


def seconds_as_json(times: Array) -> pa.Array:
    """Return times in microseconds as seconds, in the digits of Python's json."""
    seconds = pa.array(times / MICROS, pa.float64())
    texts = seconds.cast(pa.string())  # the shortest digits as well, but whole numbers without ".0", none as 1e-06
    texts = pc.if_else(pa.array(times % MICROS == 0), pc.binary_join_element_wise(texts, ".0", ""), texts)
    tiny = times < 100
    return pc.replace_with_mask(
        texts, pa.array(tiny), pa.array(map(json.dumps, seconds.filter(tiny).to_pylist()), pa.string())
    )


def availability(
    spark: SparkSession, lake: Lake, days: Sequence[Day], profile: str, zone: str,
    series: Mapping[int, tuple[str, str]], counted: str = CONFIRMED,
) -> list[Mapping[str, Any]]:  # fmt: skip
    """Return rows of availability_daily for these series (number -> agent, check_id), by name and day."""
    return list(day_rows(spark, lake, days, profile, zone, series, counted))


def day_rows(
    spark: SparkSession, lake: Lake, days: Sequence[Day], profile: str, zone: str,
    series: Mapping[int, tuple[str, str]], counted: str = CONFIRMED,
) -> DayRows:  # fmt: skip
    """Return the same rows in a file: the driver gets those of PARTS_AT_ONCE parts for each core at a time.

    How many check-days a part has is bounded, so the memory doesn't grow with them.
    """
    if not series:
        return DayRows(days, [], series)
    plan = plan_for(spark, lake, days, series, counted)
    found = DayRows(days, plan.parts, series)
    at_once = PARTS_AT_ONCE * _cores(spark)
    for first in range(0, len(plan.parts), at_once):
        some = evolve(plan, parts=plan.parts[first : first + at_once])
        task = Task(some, days, profile, zone)
        for pack in run_parts(spark, task, len(some.parts), plan.work(len(days)), LITTLE_ROWS, ddl(_PACKED)):
            found.add(pa.ipc.open_stream(pack["rows"]).read_next_batch())
    return found


def packed(rows: pa.RecordBatch) -> bytes:
    """Return rows as bytes in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    packed_rows: bytes = sink.getvalue().to_pybytes()
    return packed_rows


def plan_for(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], counted: str
) -> Plan:
    """Return a plan with at least one part for each core that there is."""
    return availability_inputs.plan(lake, days, series, _cores(spark), counted)


def _cores(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def choose(lake: Lake, wanted: Iterable[str] = ()) -> dict[int, tuple[str, str]]:
    """Return the series of a report: all checks and links, or those of some AGENT or AGENT/CHECK."""
    names = set(wanted)
    found = {}
    for row in lake.rows("series"):
        agent, check = row["agent"], row["check_id"]
        reserved = check.startswith(RESERVED) and check != LINK
        if (
            not reserved
            and (agent, check) != ROLLOUT_KEY
            and (not names or agent in names or f"{agent}/{check}" in names)
        ):
            found[row["series"]] = (agent, check)
    return found


def store(lake: Lake, rows: DayRows | Sequence[Mapping[str, Any]]) -> int:
    """Publish the days that are new or have changed, and return how many. The caller holds the lake's lock.

    One day at a time is compared with what the lake has.
    """
    name, staged, count = AVAILABILITY.name, [], 0
    for day, new in rows.by_day() if isinstance(rows, DayRows) else by_day(rows):
        changed = changed_rows(lake.table(name, [day]), new)
        if changed.num_rows:
            staged += lake.stage_rows(name, changed.append_column("day", changed["date"]))
            count += changed.num_rows
    if staged:
        lake.publish(name, staged, {})
    return count


def changed_rows(held: pa.Table, new: pa.Table) -> pa.Table:
    """Return the rows of a day that are new or differ from their last version in `held`, with the next version."""
    if not held.num_rows:
        return new
    last = held.group_by(_KEY).aggregate([("version", "max")]).rename_columns([*_KEY, "version"])
    newest = held.join(last, [*_KEY, "version"], join_type="inner")
    joined = new.drop_columns(["version"]).join(newest, _KEY, right_suffix=" before")
    before = joined["version"]
    same = pc.is_valid(before)
    for value in _VALUES:
        ours, theirs = joined[value], joined[f"{value} before"]
        equal = pc.fill_null(pc.equal(ours, theirs), False)
        same = pc.and_(same, pc.or_(equal, pc.and_(pc.is_null(ours), pc.is_null(theirs))))
    versions = pc.add(pc.fill_null(before, -1), 1)
    changed = joined.select(_ROW.names[:-1]).append_column("version", versions).filter(pc.invert(same))
    return changed.select(_ROW.names).cast(_ROW)
