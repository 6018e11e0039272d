"""The availability job: what the lake knows of each check -> how it spent its local days. The rule itself is spent.py.

Where a check has transitions (Helen judged it), those are read and only late results besides; where it has none, its
results are: each as if it had been confirmed, good for three times the usual distance between two. The facts of a
check come together in one task, which computes all of its days and makes sure that every second is accounted for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from attrs import frozen
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from equus_protocol.results import STATUS_WORDS
from helen.pipeline.days import MICROS, Day
from helen.pipeline.lake import Lake
from helen.pipeline.planned import absences, downtimes
from helen.pipeline.schema import ASKED, AVAILABILITY, ddl, spark_type
from helen.pipeline.spent import UNKNOWN, Facts, Moment, Run, Spent, check_sums, spend, union

LATEST = timedelta(days=9)  # a result lies in the file of its own day, and may have come 8 days later
LOOK_BACK = timedelta(days=4)  # for the result that says how a day begins, where no transition does
USUAL_TIMES = 3  # distances between results that one is good for
LEAST_GOOD, MOST_GOOD, GOOD_ALONE = 60 * MICROS, 6 * 3600 * MICROS, 900 * MICROS
RESERVED, LINK = "equus:", "equus:link"
_FACT = pa.schema(
    [("series", pa.int32()), ("what", pa.string()), ("a", pa.int64()), ("b", pa.int64()), ("status", pa.int32()),
     ("reason", pa.string()), ("was", pa.int32()), ("was_reason", pa.string()), ("good_for", pa.int64())]
)  # fmt: skip
_ROW = AVAILABILITY.columns
MOMENT, RUN, DOWNTIME, ABSENCE = "moment", "run", "downtime", "absence"


@frozen
class Task:
    """Runs in Spark's workers: the facts of many checks, sorted by series -> rows of availability_daily."""

    days: Sequence[Day]
    profile: str
    zone: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        for series, facts in grouped(batches):
            spent = spend(facts, self.days, self.profile)
            check_sums(spent)
            rows += [self._row(series, facts, each) for each in spent]
        yield pa.RecordBatch.from_pylist(rows, schema=_ROW)

    def _row(self, series: int, facts: Facts, spent: Spent) -> dict[str, Any]:
        accounts = {name: getattr(spent, name) / MICROS for name in ("ok", "bad", "planned", "unknown", "no_data")}
        why = {name: value / MICROS for name, value in sorted(spent.why.items())}
        return {
            "series": series, "date": spent.day.date, "zone": self.zone, "profile": self.profile,
            "seconds": (spent.day.end - spent.day.begin) / MICROS, **accounts, "percent": spent.percent,
            "outages": spent.outages, "why": json.dumps(why), "from_changes": bool(facts.moments), "version": 0,
        }  # fmt: skip


def availability(
    spark: SparkSession, lake: Lake, days: Sequence[Day], profile: str, zone: str, series: Mapping[int, tuple[str, str]]
) -> list[dict[str, Any]]:
    """Rows of availability_daily for these series (number -> agent, check_id), by name and day."""
    if not series:
        return []
    ordered = facts_in_order(spark, lake, days, series)
    found = ordered.mapInArrow(Task(days, profile, zone), ddl(_ROW)).toArrow().to_pylist()
    return sorted(found, key=lambda row: (*series[row["series"]], row["date"]))


def facts_in_order(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]]
) -> DataFrame:
    """All that is known of these series and matters to these days; the rows of a series are one after the other."""
    chosen = spark.createDataFrame([(number,) for number in sorted(series)], "series int")
    together = chosen.select("series", F.lit("known").alias("what"), *_nulls(_FACT.names[2:]))
    for each in facts_from_lake(spark, lake, days, series, chosen):
        together = together.unionByName(each)
    return together.repartition("series").sortWithinPartitions("series", "what", "a")


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


def facts_from_lake(
    spark: SparkSession, lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]], chosen: DataFrame
) -> list[DataFrame]:
    """Frames of facts."""
    begin, end = days[0].begin, days[-1].end
    until = date_of(end) + timedelta(days=1)
    changes = lake.frame(spark, "changes", lake.files("changes", (date.min, until)))
    moments = moments_of(changes, begin, end).join(F.broadcast(chosen), "series", "left_semi")
    judged = moments.select("series").distinct()
    files = lake.files("results", (date_of(begin) - LOOK_BACK, until))
    results = lake.frame(spark, "results", files).where((F.col("origin") != ASKED) & (F.col("time") < moment(end)))
    ours = results.join(F.broadcast(chosen), "series", "left_semi")
    alone = ours.join(F.broadcast(judged), "series", "left_anti")
    late = ours.where("time < received").join(F.broadcast(judged), "series", "left_semi")
    # Those of the day after, too: a Helen that was away at midnight says so when she comes back.
    few = changes.where(F.col("kind").isin("downtime", "rule", "helen_start", "helen_stop"))
    told = [row.asDict() for row in few.orderBy("received", "at").collect()]
    known = _known(spark, lake, told, series, (begin, end))
    return [moments, runs_of(alone), runs_of(late), known]


def moments_of(changes: DataFrame, begin: int, end: int) -> DataFrame:
    """Confirmed transitions of the days, and the last one before them."""
    document = F.col("document")
    part = {path: F.get_json_object(document, f"$.{path}") for path in
            ("at", "now.status", "now.reason", "now.attempt", "was.status", "was.reason")}  # fmt: skip
    told = changes.where((F.col("kind") == "transition") & F.col("series").isNotNull())
    hard = told.where(part["now.attempt"].cast("int") == 0).select(
        "series", F.lit(MOMENT).alias("what"), F.round(part["at"].cast("double") * MICROS).cast("long").alias("a"),
        F.lit(None).cast("long").alias("b"), _number_of(part["now.status"]).alias("status"),
        part["now.reason"].alias("reason"), _number_of(part["was.status"]).alias("was"),
        part["was.reason"].alias("was_reason"), F.lit(None).cast("long").alias("good_for"), "at",
    )  # fmt: skip
    latest = Window.partitionBy("series", F.col("a") <= begin).orderBy(F.desc("a"), F.desc("at"))
    placed = hard.where(F.col("a") < end).withColumn("_place", F.row_number().over(latest))
    return placed.where((F.col("a") > begin) | (F.col("_place") == 1)).drop("_place", "at")


def runs_of(results: DataFrame) -> DataFrame:
    """Results in a row that say the same and come as often as usual, as one fact."""
    order = Window.partitionBy("series").orderBy("time", "at")
    spaced = results.select("series", "at", F.unix_micros("time").alias("time"), F.col("status").cast("int"))
    spaced = spaced.withColumn("gap", F.col("time") - F.lag("time").over(order))
    usual = F.percentile_approx("gap", 0.5).over(Window.partitionBy("series"))
    good = F.coalesce(F.greatest(F.least(usual * USUAL_TIMES, F.lit(MOST_GOOD)), F.lit(LEAST_GOOD)), F.lit(GOOD_ALONE))
    timed = spaced.withColumn("good_for", good)
    changed = F.col("status") != F.lag("status").over(order)
    begins = F.coalesce(changed | (F.col("gap") > F.col("good_for")), F.lit(True))
    runs = timed.withColumn("run", F.sum(begins.cast("int")).over(order)).groupBy("series", "run", "status", "good_for")
    nothing = F.lit(None)
    return runs.agg(F.min("time").alias("a"), F.max("time").alias("b")).select(
        "series", F.lit(RUN).alias("what"), "a", "b", "status", nothing.cast("string").alias("reason"),
        nothing.cast("int").alias("was"), nothing.cast("string").alias("was_reason"), "good_for",
    )  # fmt: skip


def grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Facts]]:
    """The facts of one series after the other; a series may go on in the next batch."""
    held: int | None = None
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for row in batch.to_pylist():
            if row["series"] != held and held is not None:
                yield held, facts_of(rows)
                rows = []
            held = row["series"]
            rows.append(row)
    if held is not None:
        yield held, facts_of(rows)


def facts_of(rows: Iterable[Mapping[str, Any]]) -> Facts:
    """Rows of one series as values."""
    of: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        of[row["what"]].append(row)
    return Facts(
        [Moment(r["a"], r["status"], r["reason"], r["was"], r["was_reason"]) for r in of[MOMENT]],
        [Run(r["a"], r["b"], r["status"], r["good_for"]) for r in of[RUN]],
        [(r["a"], r["b"]) for r in of[DOWNTIME]],
        [(r["a"], r["b"]) for r in of[ABSENCE]],
    )


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


def moment(micros: int) -> Column:
    return F.timestamp_micros(F.lit(micros))


def date_of(micros: int) -> date:
    """The UTC day."""
    return datetime.fromtimestamp(micros // MICROS, UTC).date()


def _known(
    spark: SparkSession, lake: Lake, told: list[dict[str, Any]], series: Mapping[int, tuple[str, str]],
    span: tuple[int, int],
) -> DataFrame:  # fmt: skip
    """Downtimes, and times in which Helen was not there: few, so they are made here."""
    rows: list[tuple[Any, ...]] = []
    planned = downtimes(told, span)
    for number, (agent, check) in series.items() if planned else ():
        spans = union(on for each in planned if each.covers(agent, check) for on in each.spans)
        rows += [(number, DOWNTIME, *each, None, None, None, None, None) for each in spans]
    days = (date_of(span[0]) - LATEST, date_of(span[1]) + timedelta(days=1))
    heard = lake.frame(spark, "results", lake.files("results", days))
    newest = _newest(heard, lake.frame(spark, "changes", lake.files("changes", days)))
    away = absences(told, span, lambda helen, after, before: _last_heard(heard, helen, after, before), newest)
    rows += [(number, ABSENCE, *each, None, None, None, None, None) for number in series for each in away]
    return spark.createDataFrame(rows, ddl(_FACT))


def _last_heard(results: DataFrame, helen: int, after: int, before: int) -> int | None:
    """When a Helen that was killed got her last result, between two values of `at`; None: none that matters."""
    heard = results.where((F.col("helen") == helen) & F.col("at").between(after, before))
    found: int | None = heard.agg(F.max(F.unix_micros("received"))).collect()[0][0]
    return found


def _newest(*tables: DataFrame) -> dict[int, int]:
    """When each Helen got or wrote the last thing of all that is here."""
    found: dict[int, int] = {}
    for table in tables:
        for row in table.groupBy("helen").agg(F.max(F.unix_micros("received")).alias("last")).collect():
            found[row["helen"]] = max(found.get(row["helen"], 0), row["last"])
    return found


def _number_of(word: Column) -> Column:
    """STATUS_WORDS back to numbers."""
    found = F.lit(UNKNOWN)
    for number, each in enumerate(STATUS_WORDS):
        found = F.when(word == each, number).otherwise(found)
    return found


def _nulls(names: Iterable[str]) -> list[Column]:
    return [F.lit(None).cast(spark_type(_FACT.field(name).type)).alias(name) for name in names]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["series"], row["date"], row["zone"], row["profile"]
