"""How long a question in PromQL takes here, in Prometheus, and as SQL in DuckDB, on the same samples in one run.

    python bench/query.py [--series 100] [--days 30] [--every 300] [--rounds 5]

Makes a lake of synthetic sums (seeded: a gauge and a counter of each agent, a result each `every` seconds), and the
blocks of a Prometheus with the same samples by `promtool tsdb create-blocks-from openmetrics`. Questions are ranges
over all days with an hour as step. Each is asked `rounds` times: printed are the least wall time, CPU time on the
average, and the greatest difference of values. Helen's time is that of its process that answers; Prometheus' is that of
the request over loopback, and of its process. `first` is a question whose files were read by none before it, `again`
one that is asked once more, as dashboards do. Ratios above 1 say that Helen takes longer.

DuckDB reads the same five-minute sums on all cores, for the question of which SQL is a natural form: the mean of each
hour and team. Its ratio is that of Helen's second question.

The host's load is in the output: on a machine that others use wall times say little, and CPU times more.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from attrs import frozen

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.schema import METRICS, RESULTS, TIME
from helen.pipeline.rollup.segment_rows import sums_of
from helen.promql.archive import Archive, Facts
from helen.promql.kept_pieces import KeptPieces
from helen.promql.parameters import Parameters
from helen.promql.questions import Question

sys.path.append(str(Path(__file__).parents[1] / "tests" / "stages"))
from a_prometheus import Prometheus, Series

TICKS = os.sysconf("SC_CLK_TCK")  # of the CPU time of a process, in a second
BEGIN = 1_790_000_000 - 1_790_000_000 % 86_400
DAY = 86_400
QUESTIONS = (
    "used", "avg by (team) (avg_over_time(used[1h]))", "max by (team) (max_over_time(used[1h]))",
    "sum by (team) (rate(sent[1h]))", "topk(5, avg_over_time(used[6h]))",
)  # fmt: skip
SQL = """
select team, epoch(time_bucket(interval 1 hour, bucket)) + 3600 as at, sum(sum) / sum("values") as mean
from read_parquet('{files}') join names using (series) where metric = 'used' group by all order by all
"""


def make_day(lake: Lake, day: int, series: int, every: int, dice: np.random.Generator, totals: np.ndarray) -> Any:
    """Publish the sums of one day; return times, gauges and counters, a row for each series."""
    times = BEGIN + day * DAY + np.arange(7, DAY, every)
    count = len(times)
    used = np.round(dice.normal(50, 10, (series, count)), 3)
    sent = totals[:, None] + np.cumsum(dice.integers(0, 5_000, (series, count)), axis=1)
    totals[:] = sent[:, -1]
    rows = series * count
    figures = zip(used.ravel().tolist(), sent.ravel().tolist(), strict=True)
    metrics = pa.array([[_metric("used", a, "gauge"), _metric("sent", b, "counter")] for a, b in figures], METRICS)
    told = {
        "series": np.repeat(np.arange(series, dtype=np.int32), count), "time": np.tile(times * 1_000_000, series),
        "status": np.zeros(rows, np.int8), "origin": np.zeros(rows, np.int8), "took_ms": np.full(rows, 2.0),
        "cpu_ms": np.full(rows, 1.0), "peak_kib": np.full(rows, 900.0),
    }  # fmt: skip
    columns = {name: pa.array(values) for name, values in told.items()}
    columns |= {"time": columns["time"].cast(TIME), "metrics": metrics}
    table = pa.table({name: columns[name].cast(RESULTS.columns.field(name).type) for name in columns})
    table = table.append_column("day", table["time"].cast(pa.date32(), safe=False))
    lake.publish("m5", lake.stage_rows("m5", sums_of(table)), {"bench": day + 1})
    return times, used, sent


def _metric(name: str, value: float, kind: str) -> dict[str, Any]:
    return {"name": name, "value": float(value), "unit": "", "kind": kind, "labels": [], "warn": None, "crit": None,
            "min": None, "max": None}  # fmt: skip


def make(folder: Path, series: int, days: int, every: int) -> list[Series]:
    """Make the lake; return the same samples for Prometheus."""
    dice, totals = np.random.default_rng(7), np.full(series, 1e6)
    lake = Lake(folder / "lake")
    lake.lock()
    names = [f"web-{number:04}" for number in range(series)]
    table = pa.table([pa.array(range(series), pa.int32()), names, ["disk"] * series, ["disk"] * series],
                     schema=lake.tables["series"].columns)  # fmt: skip
    lake.publish("series", lake.stage_rows("series", table), {"bench": 1})
    made = [make_day(lake, day, series, every, dice, totals) for day in range(days)]
    lake.unlock()
    times = np.concatenate([times for times, _, _ in made]).tolist()
    found: list[Series] = []
    for at, name in ((1, "used"), (2, "sent")):
        for number, values in enumerate(np.concatenate([day[at] for day in made], axis=1).tolist()):
            labels = {"__name__": name, "agent": names[number], "check": "disk", "team": team_of(number)}
            found.append((labels, list(zip(times, values, strict=True))))
    return found


def team_of(number: int) -> str:
    return f"team-{number % 10}"


@frozen
class Took:
    """Holds the least wall time of a question, and its CPU time on the average; milliseconds."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:7.1f} / {self.cpu:6.1f} ms"

    def over(self, other: Took) -> str:
        """Return by how much each of them is longer than that of another one."""
        return f"x {self.wall / other.wall:5.2f} / {self.cpu / max(other.cpu, 0.1):5.2f}"


def timed(rounds: int, call: Callable[[], Any], cpu: Callable[[], float] = time.process_time) -> tuple[Took, Any]:
    """Return what a call takes, and its answer; `cpu` tells the CPU time of the process that works, in seconds."""
    least, answer, before = float("inf"), None, cpu()
    for _ in range(rounds):
        begin = time.perf_counter()
        answer = call()
        least = min(least, time.perf_counter() - begin)
    return Took(least * 1_000, (cpu() - before) / rounds * 1_000), answer


def cpu_of(pid: int) -> float:
    """Return the seconds that a process has had of processors."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rows(answer: Any) -> dict[str, dict[float, float]]:
    """Return the values of each series by their times."""
    assert answer["status"] == "success", answer
    return {json.dumps(each["metric"], sort_keys=True): {at: float(value) for at, value in each["values"]}
            for each in answer["data"]["result"]}  # fmt: skip


def difference(one: Any, other: Any) -> float:
    """Return the greatest relative difference of values that both answers have."""
    left, right = rows(one), rows(other)
    pairs = [(value, right[key][at]) for key, found in left.items() if key in right
             for at, value in found.items() if at in right[key]]  # fmt: skip
    return max((abs(a - b) / max(abs(a), abs(b), 1e-9) for a, b in pairs), default=float("nan"))


Pair = tuple[Took, Took]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("series", 100), ("days", 30), ("every", 300), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {options.series} series, {options.days} days, each {options.every} s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = make(folder, options.series, options.days, options.every)
        agents = {f"web-{number:04}": {"team": team_of(number)} for number in range(options.series)}
        facts = Facts(folder, folder / "lake", agents, lambda agent: True)
        span = {"start": BEGIN + 3_600, "end": BEGIN + options.days * DAY, "step": 3_600}
        prometheus = Prometheus(folder, samples, patience=600.0)
        try:
            took = [ask_both(question, span, facts, prometheus, options.rounds) for question in QUESTIONS]
        finally:
            prometheus.end()
        in_duckdb(folder, options.series, options.rounds, took[1])


def ask_both(question: str, span: dict[str, int], facts: Facts, prometheus: Prometheus, rounds: int) -> Pair:
    """Print what one question takes here and there; return what it took here, first and again."""
    texts, kept = {"query": [question]} | {name: [str(value)] for name, value in span.items()}, KeptPieces()

    def here(kept: KeptPieces) -> Any:
        return Question(Parameters(texts, 0), Archive(facts, kept)).answer("query_range")[1]

    def there() -> Any:
        return prometheus.ask("query_range", query=question, **span)

    first, _ = timed(rounds, lambda: here(KeptPieces()))
    here(kept)
    there()
    again, one = timed(rounds, lambda: here(kept))
    theirs, other = timed(rounds, there, lambda: cpu_of(prometheus.peer.process.pid))
    print(question)
    ratios = f"{first.over(theirs)}, {again.over(theirs)}"
    print(f"  Helen first {first}, again {again}; Prometheus {theirs}; ratios {ratios};"
          f" greatest difference {difference(json.loads(one), other):.0e}", flush=True)  # fmt: skip
    return first, again


def in_duckdb(folder: Path, series: int, rounds: int, ours: Pair) -> None:
    """Print what the mean of each hour and team takes as SQL, beside what we took for it."""
    database = duckdb.connect()
    database.execute("create table names (series int, team varchar)")
    database.executemany("insert into names values (?, ?)", [[number, team_of(number)] for number in range(series)])
    query = SQL.format(files=folder / "lake" / "m5" / "day=*" / "*.parquet")
    database.execute(query).fetchall()
    took, found = timed(rounds, lambda: database.execute(query).fetchall())
    first, last = (datetime.fromtimestamp(at, UTC) - timedelta(hours=1) for at in (found[0][1], found[-1][1]))
    print("the mean of each hour and team as SQL")
    print(f"  DuckDB {took}; ratios of Helen's {ours[0].over(took)}, {ours[1].over(took)};"
          f" {len(found)} rows, {first} to {last}")  # fmt: skip
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
