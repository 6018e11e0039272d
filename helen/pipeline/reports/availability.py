"""Runs the availability job: from the lake's records of each check to the accounts of its local days.

availability_math.py has the rule itself, availability_inputs.py reads its inputs. All inputs of a check are in one
task, which computes all of its days and makes sure that every second is accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, Day
from helen.pipeline.lake.schema import AVAILABILITY, ddl
from helen.pipeline.reports import availability_inputs
from helen.pipeline.reports.availability_inputs import CheckInputs, Plan
from helen.pipeline.reports.availability_math import DayAccount, accounts_of, check_sums
from helen.pipeline.reports.transitions import CONFIRMED
from helen.states.rollout_trials import ROLLOUT_KEY

RESERVED, LINK = "equus:", "equus:link"
_ROW = AVAILABILITY.columns
_PACKED = pa.schema([("rows", pa.binary())])  # all rows of a part in one value: the JVM need not look at each of them


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
                yield pa.RecordBatch.from_pydict({"rows": [packed(self._part(part))]}, schema=_PACKED)

    def _part(self, part: int) -> pa.RecordBatch:
        rows: list[tuple[Any, ...]] = []
        for series, known in self.plan.inputs(part):
            accounts = accounts_of(known, self.days, self.profile)
            check_sums(accounts)
            rows += [self._row(series, known, each) for each in accounts]
        columns = list(zip(*rows, strict=True)) or [()] * len(_ROW)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_ROW)

    def _row(self, series: int, known: CheckInputs, account: DayAccount) -> tuple[Any, ...]:
        day = account.day
        accounts = (account.ok, account.bad, account.planned, account.unknown, account.no_data)
        why = {name: value / MICROS for name, value in sorted(account.why.items())}
        seconds = (day.end - day.begin) / MICROS
        return (series, day.date, self.zone, self.profile, seconds, *(each / MICROS for each in accounts),
                account.percent, account.outages, json.dumps(why) if why else "{}", bool(known.moments), 0)  # fmt: skip


def availability(
    spark: SparkSession, lake: Lake, days: Sequence[Day], profile: str, zone: str,
    series: Mapping[int, tuple[str, str]], counted: str = CONFIRMED,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return rows of availability_daily for these series (number -> agent, check_id), by name and day."""
    if not series:
        return []
    plan = plan_for(spark, lake, days, series, counted)
    packs = parts(spark, plan).mapInArrow(Task(plan, days, profile, zone), ddl(_PACKED)).toArrow()["rows"]
    found = [row for pack in packs for row in pa.ipc.open_stream(pack.as_buffer()).read_all().to_pylist()]
    return sorted(found, key=lambda row: (*series[row["series"]], row["date"]))


def packed(rows: pa.RecordBatch) -> bytes:
    """Return rows as bytes in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def plan_for(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], counted: str
) -> Plan:
    """Return a plan with at least one part for each core that there is."""
    cores = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return availability_inputs.plan(lake, days, series, cores, counted)


def parts(spark: SparkSession, plan: Plan) -> DataFrame:
    """Return the numbers of the parts as a frame, each in a task of its own."""
    count = len(plan.parts)
    return spark.range(0, count, 1, count)


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


def store(lake: Lake, rows: Sequence[Mapping[str, Any]]) -> int:
    """Publish the days that are new or have changed, and return how many. The caller holds the lake's lock."""
    held = newest_of(lake.rows("availability_daily", {row["date"] for row in rows}))
    changed = []
    for row in rows:
        before = held.get(_key(row))
        if before is None or any(before[name] != row[name] for name in _ROW.names if name != "version"):
            changed.append({**row, "version": 0 if before is None else before["version"] + 1, "day": row["date"]})
    if changed:
        table = pa.Table.from_pylist(changed, schema=AVAILABILITY.arrow)
        lake.publish("availability_daily", lake.stage_rows("availability_daily", table), {})
    return len(changed)


def newest_of(rows: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the last version of each day."""
    return {_key(row): row for row in sorted(rows, key=lambda row: row["version"])}


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["series"], row["date"], row["zone"], row["profile"]
