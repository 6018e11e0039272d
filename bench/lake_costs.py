"""Measures what the real pieces of the pipeline cost, for bench/lake_years.py: CPU seconds, bytes, rows.

CPU is that of all processes where Spark takes part, and of this one alone where a task's own work is called. Pieces
that may be called alone are called two or three times, and the least counts: other programs only add to it.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from lake import Fleet as Results
from lake import History
from lake_growth import TABLES
from lake_logs import measure_logs
from lake_meters import Meter, held_by, own_cpu, resident
from lake_settings import Costs, Fleet, Policy
from pyspark.sql import SparkSession

from helen.journal import segments
from helen.journal.columns import CHANGES as STORED_CHANGES
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.engine import SETTING, SPARK
from helen.pipeline.ingest.histories import open_history
from helen.pipeline.ingest.series_names import SeriesNames
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import Held, batches, between, held, read
from helen.pipeline.lake.levels import H1, M5
from helen.pipeline.lake.local_days import Day, local_days
from helen.pipeline.lake.schema import CHANGES, RESULTS, SUMS
from helen.pipeline.reports.availability import Task, availability, choose, day_rows
from helen.pipeline.reports.availability_inputs import plan
from helen.pipeline.reports.day_rows import DayRows
from helen.pipeline.reports.report_formats import pieces
from helen.pipeline.reports.report_jobs import availability_report
from helen.pipeline.rollup.following import cascade
from helen.pipeline.spark import start_spark
from helen.pipeline.upkeep import gather

DAY = date(2026, 9, 22)
DAY_BEGINS = 1_790_035_200  # Unix seconds
BATCHES = 4
SHARE = 1_000  # of the fleet, a thousandth lives for a day
MINUTES = 1440
WORDS = ("ok", "warning", "critical", "unknown")


# ---------------------------------------------------------------------------------------------- batches of the fleet


def measure_batches(spark: SparkSession, folder: Path, fleet: Fleet, policy: Policy) -> dict[str, Any]:
    """Take in batches of the fleet's own size, of all of its checks."""
    results = Results(fleet.agents, fleet.checks, start=DAY_BEGINS)
    history, lake = History(folder / "pace" / "history", results), Lake(folder / "pace-lake")
    in_batch = max(1, -(-round(fleet.per_second * policy.trigger) // policy.segment_rows))
    rows = round(fleet.per_second * policy.trigger / in_batch)
    settings = Settings(once=True, upkeep=False, max_segments=in_batch)

    def take(count: int) -> Meter:
        for _ in range(count * in_batch):
            history.add(results.take(rows))
        meter = Meter()
        with meter.on():
            Driver(spark, lake, [history.folder], settings).run()
        return meter

    take(1)
    alone = take(1)  # a start: names and counters of all checks are read again
    several = take(1 + BATCHES)
    count = BATCHES * in_batch * rows
    of_lake = {name: lake.files(name) for name in ("results", "m5", "segments")}
    chosen = dict(list(choose(lake).items())[:20_000])
    days = local_days(DAY, DAY, "UTC")
    idle = resident()

    def names() -> object:
        found = SeriesNames(lake)
        return found, found.map(found.number([open_history(history.folder)]))

    name = held_by(names) / fleet.series
    return {
        "taken": (several.cpu - alone.cpu) / count, "taken_alone": (several.own - alone.own) / count,
        "rows_per_bucket": sum(f.rows for f in of_lake["m5"]) / sum(f.rows for f in of_lake["results"]),
        "fresh": {name: sum(f.size for f in files) / sum(f.rows for f in files) for name, files in of_lake.items()},
        "check_day": own_cpu(lambda: report(lake, days, chosen), 2) / len(chosen),
        "name": name, "idle": idle - name * fleet.series,
    }  # fmt: skip


def report(lake: Lake, days: Sequence[Day], series: Mapping[int, tuple[str, str]]) -> None:
    """Compute a report's accounts as tasks do, in this process."""
    planned = plan(lake, days, series, 1)
    task = Task(planned, days, "strict", "UTC")
    for _ in task([pa.RecordBatch.from_pydict({"id": list(range(len(planned.parts)))})]):
        pass


# ------------------------------------------------------------------------------------------ a day of a part of it


def transitions(results: pa.Table, known: np.ndarray, at: int) -> pa.Table:
    """Return the changes of status in results as segments have them; `known` is each check's status, kept up."""
    series, status = results["series_id"].to_numpy(), results["status"].to_numpy()
    places, rows = np.flatnonzero(known[series] != status), []
    received = results["received"].take(pa.array(places)).to_pylist()
    for number, (place, when) in enumerate(zip(places.tolist(), received, strict=True)):
        was, now = WORDS[known[series[place]]], WORDS[status[place]]
        at_second = when.timestamp()
        states = {"now": {"status": now, "attempt": 0, "since": at_second}, "was": {"status": was, "attempt": 0}}
        document = json.dumps({"at": at_second, "code": "0" * 64, **states})
        rows.append({"at": at + number, "received": when, "series_id": int(series[place]), "kind": "transition",
                     "document": document})  # fmt: skip
    known[series] = status
    return pa.Table.from_pylist(rows, schema=STORED_CHANGES)


def add_day(history: History, results: Results, rows: int) -> int:
    """Write a day of results, minute by minute, and the changes of status in it. Returns how many changes."""
    known, minutes, changes = np.zeros(results.series, np.int8), [], []
    for minute in range(MINUTES):
        minutes.append(results.take(results.series))
        changes.append(transitions(minutes[-1], known, 10**9 + minute * results.series))
        if sum(table.num_rows for table in minutes) >= rows or minute == MINUTES - 1:
            history.add(pa.concat_tables(minutes).combine_chunks())
            minutes = []
    table = pa.concat_tables(changes).combine_chunks()
    path = history.folder / "segments" / "chg-00000001.parquet"
    path.write_bytes(memoryview(segments.to_parquet(table, 1)))
    return table.num_rows


def measure_day(spark: SparkSession, folder: Path, fleet: Fleet, policy: Policy) -> dict[str, Any]:
    """Let a part of the fleet live for a day, and do with it all that is done with a day."""
    results = Results(max(1, fleet.agents * 60 // round(fleet.seconds) // SHARE), fleet.checks, start=DAY_BEGINS)
    history, lake = History(folder / "day" / "history", results), Lake(folder / "day-lake")
    changes = add_day(history, results, policy.segment_rows)
    Driver(spark, lake, [history.folder], Settings(once=True, upkeep=False)).run()
    of_sums, of_results = (held(lake, name, lake.files(name)) for name in (M5.name, RESULTS.name))
    middle = between(results.series // 2, results.series // 2)
    sums, rows = sum(file.rows for file in of_sums), sum(file.rows for file in of_results)
    found: dict[str, Any] = {
        "merge_piece": own_cpu(lambda: read(SUMS, paths(of_sums), SUMS.columns.names, middle)) / sums,
        "sort_piece": own_cpu(
            lambda: sum(each.num_rows for each in batches(RESULTS, paths(of_results), RESULTS.columns.names, middle))
        ) / rows,
    }  # fmt: skip
    meter = Meter()
    lake.lock()
    with meter.on():
        cascade(spark, lake, [H1])
    found["follow"] = meter.cpu / sums
    cascade(spark, lake)
    for name, table, count in (
        ("merge", M5.name, sums),
        ("sort", RESULTS.name, rows),
        ("changes", CHANGES.name, changes),
    ):
        with meter.on():
            gather(spark, lake, 0, all_days=True, tables=[table])
        found[name] = meter.cpu / count
    gather(spark, lake, 0, all_days=True)
    lake.unlock()
    found["change"] = 2 * found.pop("changes")  # taken in, and put together
    files = {name: lake.files(name) for name in TABLES}
    found["final"] = {name: sum(f.size for f in each) / sum(f.rows for f in each) for name, each in files.items()}
    series, days = choose(lake), local_days(DAY, DAY, "UTC")
    found["report"] = own_cpu(lambda: report(lake, days, series)), len(series), rows
    answer = held_by(lambda: availability(spark, lake, days, "strict", "UTC", series))
    rows = day_rows(spark, lake, days, "strict", "UTC", series)
    month = a_month_of(rows, series)
    shown = own_cpu(lambda: [None for _ in pieces(availability_report(month, series, True, None), "csv")])
    return found | {"answer": answer / len(series), "packed": month.nbytes / len(month), "shown": shown / len(month)}


def a_month_of(rows: DayRows, series: Mapping[int, tuple[str, str]]) -> DayRows:
    """Return the rows of one day as those of 30 days: what a check costs is a part of what each of its days costs."""
    ((_, day),) = rows.by_day()
    days = local_days(DAY - timedelta(days=29), DAY, "UTC")
    found = DayRows(days, [day["series"].to_numpy()], series)
    dates = pa.array([each.date for each in days] * day.num_rows, pa.date32())
    table = day.take(pa.array(np.repeat(np.arange(day.num_rows), len(days))))
    table = table.set_column(table.schema.get_field_index("date"), "date", dates)
    found.add(table.combine_chunks().to_batches()[0])
    return found


def paths(files: Sequence[Held]) -> list[str]:
    return [file.path for file in files]


def measure(fleet: Fleet, policy: Policy, folder: Path, kept: Path | None = None) -> Costs:
    """Measure what the file `kept` has not yet; each of the three pieces is written there as soon as it is measured."""
    found: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}

    @functools.cache
    def spark() -> SparkSession:
        session = start_spark("bench", scratch=folder / "scratch")
        session.conf.set(SETTING, SPARK)
        return session

    pieces: dict[str, Callable[[], dict[str, Any]]] = {
        "batches": lambda: measure_batches(spark(), folder, fleet, policy),
        "day": lambda: measure_day(spark(), folder, fleet, policy),
        "logs": lambda: measure_logs(folder),
    }
    for name, piece in pieces.items():
        if name not in found:
            began = time.monotonic()
            found[name] = piece()
            print(f"{name}: {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}", flush=True)
            if kept is not None:
                kept.write_text(json.dumps(found))
    if spark.cache_info().currsize:
        spark().stop()
    costs = {name: cost for piece in found.values() for name, cost in piece.items()}
    seconds, checks, rows = costs.pop("report")
    costs["report_row"] = max(0.0, seconds - checks * costs["check_day"]) / rows
    return Costs(**costs)
