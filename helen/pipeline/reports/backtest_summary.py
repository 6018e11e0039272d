"""Adds up what a back-test gave: its report, and whether the recorded rules gave what Helen wrote at the time.

Events are as many as there were changes, so Spark counts them. The driver gets a row for each check id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.schema import ddl
from helen.pipeline.reports.backtest import RECORDED, STATE_KINDS, TRIED
from helen.pipeline.reports.report_formats import Report
from helen.pipeline.rollup.frames import moment
from helen.pipeline.worker_memory import GivingBack
from helen.states.calm_results import RESERVED
from helen.states.model import LINK
from helen.states.rollout_trials import ROLLOUT_KEY

ALL = "(all)"
LATE = 3600 * MICROS  # a deadline is written some seconds after its own time
KEYS = pa.schema(
    [("agent", pa.string()), ("check_id", pa.string()), ("kind", pa.string()), ("what", pa.string()),
     ("ms", pa.int64())]
)  # fmt: skip
FIGURES = ("alerts", "recoveries", "held", "flaps", "changes", "delay_s")


def recorded_events(lake: Lake, spark: SparkSession, begin: int, end: int) -> DataFrame:
    """Return the keys of the events that Helen itself wrote between two moments, in microseconds since 1970."""
    named = [(row["series"], row["agent"], row["check_id"]) for row in lake.rows("series")]
    names = F.broadcast(spark.createDataFrame(named, "series int, agent string, check_id string"))
    rows = lake.frame(spark, "changes").where(F.col("kind").isin(*STATE_KINDS) & F.col("series").isNotNull())
    rows = rows.where(F.col("received").between(moment(begin), moment(end + LATE))).join(names, "series")
    task = GivingBack(RecordedTask(begin, end))
    return rows.select("agent", "check_id", "kind", "document").mapInArrow(task, ddl(KEYS))


@frozen
class RecordedTask:
    """Turns changes into the keys that events of a replay have, in Spark's workers."""

    begin: int
    end: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [key for row in batch.to_pylist() for key in self._keys(row)]
            yield pa.RecordBatch.from_pylist(found, schema=KEYS)

    def _keys(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        document = json.loads(row.pop("document"))
        what = _what(row["kind"], document)
        is_within = self.begin <= document["at"] * MICROS < self.end
        if what is not None and is_within and _is_of_a_check(row["agent"], row["check_id"]):
            yield {**row, "what": what, "ms": milliseconds(document["at"])}


def keys_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the keys of the events of a replay."""
    for batch in batches:
        ms = pa.array([milliseconds(at) for at in batch.column("at").to_pylist()], pa.int64())
        yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in KEYS.names[:-1]), ms], schema=KEYS)


def milliseconds(at: float) -> int:
    """Return seconds as whole milliseconds: the same ones for a moment from a document and from a replay."""
    return round(round(at, 3) * 1000)


def comparison(events: DataFrame, wrote: DataFrame) -> str:
    """Return a sentence for the report: does the replay by the recorded rules give the events that Helen wrote?"""
    of_replay = events.where(F.col("side") == RECORDED).select("agent", "check_id", "kind", "what", "at")
    again, was = (
        keys.groupBy(*KEYS.names).agg(F.count("*").alias(name))
        for name, keys in (("again", of_replay.mapInArrow(GivingBack(keys_of), ddl(KEYS))), ("wrote", wrote))
    )
    counts = [F.coalesce(name, F.lit(0)) for name in ("again", "wrote")]
    sums = [F.coalesce(F.sum(each), F.lit(0)) for each in (F.least(*counts), *counts)]
    same, replayed, written = again.join(was, KEYS.names, "full").agg(*sums).collect()[0]
    if same == written == replayed:
        return f"The replay by the recorded rules gave all {same} changes, flaps and decisions that Helen wrote."
    return (
        f"The replay by the recorded rules gave {same} of the {written} changes, flaps and decisions that Helen"
        f" wrote, and {replayed - same} others: states from before the first replayed day aren't known to it."
    )


def summary(events: DataFrame, begin: int, end: int, notes: Sequence[str] = ()) -> Report:
    """Return a report with both sides beside each other, for each check id and in all."""
    sides: dict[str, dict[str, dict[str, Any]]] = {}
    for found in _figures(events).collect():
        row = found.asDict()
        sides.setdefault(row.pop("name"), {})[row.pop("side")] = row
    rows = []
    for name in sorted(sides, key=lambda name: (name == ALL, name)):
        before, after = (sides[name].get(side, _NOTHING) for side in (RECORDED, TRIED))
        made: dict[str, Any] = {"check": name}
        for figure in FIGURES:
            made[figure], made[f"{figure}_tried"] = _told(before[figure]), _told(after[figure])
        rows.append(made)
    columns = list(rows[-1]) if rows else ["check"]
    days = (end - begin) / MICROS / 86_400
    return Report(f"Back-test over {days:g} days", columns, rows, notes if rows else ["Nothing would have happened."])


_NOTHING: Mapping[str, Any] = dict.fromkeys(FIGURES, 0) | {"delay_s": None}


def _told(figure: float | None) -> float | None:
    return round(figure, 1) if isinstance(figure, float) else figure


def _figures(events: DataFrame) -> DataFrame:
    """Return the figures of each side of each check id, and of all. The median is exact, and sorted on the disk."""
    named = events.withColumn("name", F.explode(F.array("check_id", F.lit(ALL))))
    of, what = ["name", "side"], F.col("what")
    is_alert = what.startswith("notify") & (what != "notify recovery")
    figures = {
        "alerts": is_alert, "recoveries": what == "notify recovery", "held": what.startswith("hold"),
        "flaps": (F.col("kind") == "flap") & (what == "begun"), "changes": what == "hard",
    }  # fmt: skip
    counted = named.groupBy(*of).agg(*(F.count_if(each).alias(name) for name, each in figures.items()))
    delays, window = named.where(F.col("delay").isNotNull()), Window.partitionBy(*of)
    ranked = delays.select(
        *of, "delay", F.row_number().over(window.orderBy("delay")).alias("place"), F.count("*").over(window).alias("n")
    )
    is_middle = F.expr("place = floor((n + 1) / 2) or place = ceil((n + 1) / 2)")
    middle = ranked.where(is_middle).groupBy(*of).agg(F.avg("delay").alias("delay_s"))
    return counted.join(middle, of, "left")


def _is_of_a_check(agent: str, check: str) -> bool:
    """Return False for what Helen tells without a state: of a rollout, of a quota."""
    return (agent, check) != ROLLOUT_KEY and (check == LINK or not check.startswith(RESERVED))


def _what(kind: str, document: Mapping[str, Any]) -> str | None:
    """Return the word that an event of a replay has for a change; None for one that is no alert."""
    if kind == "transition":
        return "soft" if document["now"]["attempt"] else "hard"
    if kind == "flap":
        return "begun" if document["on"] else "ended"
    return f"{document['action']} {document['what']}" if "what" in document else None  # the end of an ack is no alert
