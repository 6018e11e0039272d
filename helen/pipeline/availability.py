"""The availability job: what the lake knows of each check -> how it spent its local days.

The rule itself is spent.py, what is known is facts.py. All facts of a check are in one task, which computes all of its
days and makes sure that every second is accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession

from helen.pipeline import facts
from helen.pipeline.days import MICROS, Day
from helen.pipeline.facts import Facts, Plan
from helen.pipeline.lake import Lake
from helen.pipeline.schema import AVAILABILITY, ddl
from helen.pipeline.spent import Spent, check_sums, spend

RESERVED, LINK = "equus:", "equus:link"
_ROW = AVAILABILITY.columns
_PACKED = pa.schema([("rows", pa.binary())])  # all of a part in one value: the JVM need not look at each of them


@frozen
class Task:
    """Runs in Spark's workers: numbers of a plan's parts -> rows of availability_daily."""

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
        for series, known in self.plan.facts(part):
            spent = spend(known, self.days, self.profile)
            check_sums(spent)
            rows += [self._row(series, known, each) for each in spent]
        columns = list(zip(*rows, strict=True)) or [()] * len(_ROW)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_ROW)

    def _row(self, series: int, known: Facts, spent: Spent) -> tuple[Any, ...]:
        day = spent.day
        accounts = (spent.ok, spent.bad, spent.planned, spent.unknown, spent.no_data)
        why = {name: value / MICROS for name, value in sorted(spent.why.items())}
        seconds = (day.end - day.begin) / MICROS
        return (series, day.date, self.zone, self.profile, seconds, *(each / MICROS for each in accounts),
                spent.percent, spent.outages, json.dumps(why) if why else "{}", bool(known.moments), 0)  # fmt: skip


def availability(
    spark: SparkSession, lake: Lake, days: Sequence[Day], profile: str, zone: str, series: Mapping[int, tuple[str, str]]
) -> list[dict[str, Any]]:
    """Rows of availability_daily for these series (number -> agent, check_id), by name and day."""
    if not series:
        return []
    plan = planned(spark, lake, days, series)
    packs = parts(spark, plan).mapInArrow(Task(plan, days, profile, zone), ddl(_PACKED)).toArrow()["rows"]
    found = [row for pack in packs for row in pa.ipc.open_stream(pack.as_buffer()).read_all().to_pylist()]
    return sorted(found, key=lambda row: (*series[row["series"]], row["date"]))


def packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def planned(spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]]) -> Plan:
    """At least one part for each core that there is."""
    return facts.plan(lake, days, series, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


def parts(spark: SparkSession, plan: Plan) -> DataFrame:
    """Their numbers, each in a task of its own."""
    count = len(plan.parts)
    return spark.range(0, count, 1, count)


def choose(lake: Lake, wanted: Iterable[str] = ()) -> dict[int, tuple[str, str]]:
    """The series of a report: all checks and links, or those of these names, each an AGENT or an AGENT/CHECK."""
    names = set(wanted)
    found = {}
    for row in lake.rows("series"):
        agent, check = row["agent"], row["check_id"]
        reserved = check.startswith(RESERVED) and check != LINK
        if not reserved and (not names or agent in names or f"{agent}/{check}" in names):
            found[row["series"]] = (agent, check)
    return found


def store(lake: Lake, rows: Sequence[Mapping[str, Any]]) -> int:
    """Publish the days that are new or have changed, with the next version. The caller holds the lake's lock."""
    held = newest_of(lake.rows("availability_daily"))
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
    """Of each day the last version."""
    return {_key(row): row for row in sorted(rows, key=lambda row: row["version"])}


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["series"], row["date"], row["zone"], row["profile"]
