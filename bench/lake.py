"""How fast the pipeline takes results in, what it costs at a fleet's pace, and how it compares with DuckDB.

    python bench/lake.py [--results 2000000] [--agents 1000] [--checks 20] [--minutes 0] [--engines] [--keep DIR]

Makes a history of synthetic segments (seeded: two metrics a result, one series in five has a counter as well, outages,
some late results), then in one run:

- ingest: raw rows and five-minute sums of all of it by `availableNow`, after a warm-up of four segments
- the cascade to hours and days, and the compaction, in CPU time of the ingest of the same rows
- bytes per result in the lake, as ingested and as compacted, beside the same rows as JSON lines
- with --minutes N: one segment each 10 s at the pace of the fleet for N minutes: CPU share, and the time from a closed
  segment to its published rows
- the five-minute sums again by DuckDB from the same Parquet files, both from files to files, in turns
- with --engines: small pieces of work by this process and by Spark's workers (`--engine spark`), each the third time of
  three: a segment taken in, hours that follow it, a day put together, a day summed up again
- how each check spent its days, from the results of the lake, by the report's job (in both ways) and by DuckDB, in
  turns, and what a job costs that does nothing

The host's load before it began is in the output: on a machine that others use wall times say little.

CPU seconds are those of the whole process tree, JVM and workers included; wall time depends on who else is there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from helen.journal import segments
from helen.journal.columns import RESULTS
from helen.journal.series import SERIES
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.engine import ENGINES, SETTING
from helen.pipeline.ingest.offsets import EVERYTHING, Options, initial, latest, ranges
from helen.pipeline.ingest.segment_frames import segments_of
from helen.pipeline.ingest.task import Task
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import H1
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.lake.schema import WRITTEN
from helen.pipeline.reports.availability import choose, day_rows
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import sum_again
from helen.pipeline.spark import PARTITIONS, start_spark
from helen.pipeline.upkeep import compact, compact_day, gather
from helen.pipeline.worker_memory import GivingBack

SEGMENT = 20_000
START = 1_790_000_000
TICKS = os.sysconf("SC_CLK_TCK")
TURNS = 8  # until the JVM has compiled most of a query


class Fleet:
    """Makes results of agents * checks series as Arrow tables in the order of arrival.

    The first one comes at `start`, Unix seconds, and each check comes once in `every` seconds.
    """

    def __init__(self, agents: int, checks: int, seed: int = 7, start: float = START, every: float = 60.0) -> None:
        self.series = agents * checks
        self._start, self._every = start, every
        self.checks = checks
        self._random = np.random.default_rng(seed)
        self._at = 0
        self._bad = np.zeros(self.series, bool)
        self._codes = pa.array([f"{number:064x}" for number in range(checks)])
        self._spools = pa.array([f"s{number:04}" for number in range(agents)])

    def names(self) -> pa.Table:
        agents = [f"web{number // self.checks:04}.example" for number in range(self.series)]
        checks = [f"check-{number % self.checks}" for number in range(self.series)]
        return pa.table([pa.array(range(self.series), pa.int32()), agents, checks, checks], schema=SERIES)

    def take(self, count: int, received: float | None = None) -> pa.Table:
        """Return the next results; by default when their minute comes."""
        random, at = self._random, np.arange(self._at, self._at + count)
        self._at += count
        series = (at % self.series).astype(np.int32)
        ended = self._start + at / self.series * self._every if received is None else np.full(count, received)
        late = np.where(random.random(count) < 0.005, random.uniform(150, 3600, count), random.exponential(0.1, count))
        flip = random.random(count)
        self._bad[series] = np.where(self._bad[series], flip > 0.08, flip < 0.0015)
        status = np.where(self._bad[series], 1 + series % 3, 0).astype(np.int8)
        took = np.round(3 + random.exponential(5, count), 3)
        values = np.round(np.abs(random.normal(50, 10, (count, 2))) + series[:, None] % 7, 2)
        counter = series % 5 == 0
        totals = np.round(at / self.series * 1000 + series)
        used, busy, lasted = _decimals(values[:, 0], 2), _decimals(values[:, 1], 2), _decimals(took, 3)
        summaries = pc.binary_join_element_wise(used, " % used", "")
        metrics = _metrics(values, counter, totals)
        raw = pc.binary_join_element_wise(
            '{"status":"', pa.array(["ok", "warning", "critical", "unknown"]).take(pa.array(status)), '","summary":"',
            summaries, '","metrics":[{"name":"used","value":', _shortest(used), ',"unit":"%","warn":"80"},{"name":'
            '"busy","value":', _shortest(busy), ',"unit":"ms"}],"took_ms":', _shortest(lasted), "}", "",
        )  # fmt: skip
        columns = {
            "at": pa.array(at + 1), "series_id": pa.array(series), "received": _times(ended + late),
            "started": _times(ended - took / 1000), "took_ms": pa.array(took),
            "cpu_ms": pa.array(np.round(took / 3, 3)), "peak_kib": pa.array(np.full(count, 2048.0)),
            "status": pa.array(status), "origin": pa.array(np.zeros(count, np.int8)),
            "code": self._codes.take(pa.array(series % self.checks)),
            "spool": self._spools.take(pa.array(series // self.checks)),
            "sequence": pa.array(at // self.series + 1), "summary": summaries, "metrics": metrics,
            "raw": raw.cast(pa.binary()), "truncated": pa.repeat(pa.scalar([], RESULTS.field("truncated").type), count),
        }  # fmt: skip
        empty = {column.name: pa.nulls(count, column.type) for column in RESULTS if column.nullable}
        return pa.table([(empty | columns)[name] for name in RESULTS.names], schema=RESULTS)


def _decimals(values: np.ndarray, places: int) -> pa.Array:
    """Return non-negative numbers as text with so many places, all of them at once."""
    scale = 10**places
    units = np.rint(values * scale).astype(np.int64)
    ends = pa.array([f"{number:0{places}}" for number in range(scale)])
    whole = pa.array(units // scale).cast(pa.string())
    return pc.binary_join_element_wise(whole, ends.take(pa.array(units % scale)), ".")


def _shortest(decimals: pa.Array) -> pa.Array:
    """Return them without the zeros at their ends, as JSON has them."""
    return pc.replace_substring_regex(decimals, r"(\.\d+?)0+$", r"\1")


def _times(seconds: np.ndarray) -> pa.Array:
    return pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))


def _metrics(values: np.ndarray, counter: np.ndarray, totals: np.ndarray) -> pa.Array:
    """Return the metrics of a row: two gauges, and a counter in some."""
    count = len(values)
    sizes = 2 + counter.astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    flat, place = np.zeros(offsets[-1]), np.zeros(offsets[-1], np.int8)
    flat[offsets[:-1]], flat[offsets[:-1] + 1] = values[:, 0], values[:, 1]
    place[offsets[:-1] + 1] = 1
    flat[offsets[:-1][counter] + 2], place[offsets[:-1][counter] + 2] = totals[counter], 2
    kinds = RESULTS.field("metrics").type.value_type
    nothing = pa.nulls(len(flat), pa.string())
    columns = [
        pa.array(["used", "busy", "sent"]).take(pa.array(place)), pa.array(flat),
        pa.array(["%", "ms", "B"]).take(pa.array(place)), pa.array(["gauge", "gauge", "counter"]).take(pa.array(place)),
        pa.repeat(pa.scalar([], kinds.field("labels").type), len(flat)),
        pa.array(["80", None, None]).take(pa.array(place)), nothing, pa.nulls(len(flat), pa.float64()),
        pa.nulls(len(flat), pa.float64()),
    ]  # fmt: skip
    assert len(offsets) == count + 1
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.StructArray.from_arrays(columns, fields=list(kinds)), type=RESULTS.field("metrics").type
    )


class History:
    """Writes a Helen's history folder."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.folder = folder
        (folder / "segments").mkdir(parents=True)
        pq.write_table(fleet.names(), folder / "series.parquet")
        self._number = 0

    def add(self, table: pa.Table) -> None:
        self._number += 1
        path = self.folder / "segments" / f"seg-{self._number:08}.parquet"
        new = path.with_suffix(".tmp")
        new.write_bytes(memoryview(segments.to_parquet(table, self._number)))
        new.rename(path)


Tree = dict[int, tuple[int, int, int]]  # process -> its parent, its own ticks, those of its children that were reaped


def look_at_tree(roots: Iterable[int] = ()) -> Tree:
    """Return these processes and all below them; by default those of this one."""
    seen: Tree = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            parts = text[text.rindex(")") + 2 :].split()
            seen[int(name)] = int(parts[1]), sum(map(int, parts[11:13])), sum(map(int, parts[13:15]))
    ours, grown = {*roots} or {os.getpid()}, True
    while grown:
        more = {pid for pid, (parent, *_) in seen.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    return {pid: seen[pid] for pid in ours if pid in seen}


def cpu_between(before: Tree, after: Tree) -> float:
    """User and system seconds. The time of a process that has ended since counts for the process that reaped it.

    Not all of them reap: Spark ends workers that are idle for a minute, and nobody is told what they had used.
    """
    known = dict.fromkeys(after, 0)
    for pid, (parent, own, kids) in before.items():
        if pid not in after:
            while parent in before and parent not in after:
                parent = before[parent][0]
            known[parent] = known.get(parent, 0) + own + kids
    ticks = 0
    for pid, (_, own, kids) in after.items():
        _, own_before, kids_before = before.get(pid, (0, 0, 0))
        ticks += own - own_before + max(0, kids - kids_before - known[pid])
    return ticks / TICKS


@contextmanager
def timed(figures: dict[str, dict[str, float]], name: str) -> Iterator[None]:
    wall, before = time.monotonic(), look_at_tree()
    yield
    used = cpu_between(before, look_at_tree())
    figures[name] = {"wall_s": round(time.monotonic() - wall, 2), "cpu_s": round(used, 2)}
    print(f"{name:32} wall {figures[name]['wall_s']:8.2f} s   CPU {figures[name]['cpu_s']:8.2f} s", flush=True)


def size_of(lake: Lake, table: str) -> int:
    return sum(file.size for file in lake.files(table))


def ingest(
    spark: SparkSession, folder: Path, options: argparse.Namespace, figures: dict[str, dict[str, float]]
) -> Lake:
    fleet = Fleet(options.agents, options.checks)
    history = History(folder / "helen" / "history", fleet)
    lake = Lake(folder / "lake")
    driver = Driver(spark, lake, [history.folder], Settings(once=True, upkeep=False))
    sample = b""
    for _ in range(4):
        history.add(fleet.take(SEGMENT))
    with timed(figures, "warm-up"):
        driver.run()
    for _ in range(options.results // SEGMENT):
        table = fleet.take(SEGMENT)
        sample = sample or json_lines(table)
        history.add(table)
    with timed(figures, "ingest"):
        driver.run()
    count = options.results // SEGMENT * SEGMENT
    figures["ingest"]["results"] = count
    figures["ingest"]["results_per_s"] = round(count / figures["ingest"]["wall_s"])
    figures["ingest"]["results_per_cpu_s"] = round(count / figures["ingest"]["cpu_s"])
    total = count + 4 * SEGMENT
    before = size_of(lake, "results") / total
    lake.lock()
    with timed(figures, "cascade"):
        cascade(spark, lake)
    with timed(figures, "compact results"):
        gather(spark, lake, 0, all_days=True, tables=["results"])
    with timed(figures, "compact the rest"):
        compact(spark, lake, all_days=True)
    lake.unlock()
    a_result = figures["ingest"]["cpu_s"] / count * total  # the warm-up's rows are compacted, too
    for name in ("cascade", "compact results", "compact the rest"):
        figures[name]["to_ingest"] = round(figures[name]["cpu_s"] / a_result, 2)
    lines = len(sample) / SEGMENT
    figures["bytes_per_result"] = {
        "json_lines": round(lines, 1), "ingested": round(before, 1),
        "compacted": round(size_of(lake, "results") / total, 1),
        "m5_compacted": round(size_of(lake, "m5") / total, 1),
    }  # fmt: skip
    return lake


def both_ways(spark: SparkSession, folder: Path, figures: dict[str, dict[str, float]]) -> None:
    """Measure small batches by this process and by Spark's workers, and add the CPU of both to `figures`."""
    for way in ENGINES:
        spark.conf.set(SETTING, way)
        fleet = Fleet(100, 10)
        history, lake = History(folder / way / "history", fleet), Lake(folder / way / "lake")
        driver = Driver(spark, lake, [history.folder], Settings(once=True, upkeep=False))
        for _ in range(3):
            history.add(fleet.take(SEGMENT))
            with timed(figures, f"{way}: a segment"):
                driver.run()
            lake.lock()
            with timed(figures, f"{way}: hours follow"):
                cascade(spark, lake, [H1])
            lake.unlock()
        day = min(file.day for file in lake.files("results") if file.day is not None)
        lake.lock()
        for _ in range(3):
            with timed(figures, f"{way}: a day put together"):
                files = lake.files("results", (day, day))
                compact_day(spark, lake, lake.tables["results"], files)
            with timed(figures, f"{way}: a day summed up"):
                sum_again(spark, lake, day)
        lake.unlock()
    spark.conf.unset(SETTING)


def json_lines(table: pa.Table) -> bytes:
    """Return the rows as a plain log would have them, without `raw`, which would say everything twice."""
    rows = table.drop_columns(["raw", "truncated"]).to_pylist()
    return b"".join(json.dumps(row, default=str, separators=(",", ":")).encode() + b"\n" for row in rows)


def pace(spark: SparkSession, folder: Path, options: argparse.Namespace, figures: dict[str, dict[str, float]]) -> None:
    """Measure at the fleet's own speed: freshness and CPU share."""
    fleet = Fleet(options.agents, options.checks, seed=8)
    history = History(folder / "paced" / "history", fleet)
    lake = Lake(folder / "paced-lake")
    closed: dict[int, float] = {}
    fresh: list[float] = []

    ours = [0.0, 0.0]  # CPU seconds that this benchmark spends itself: looking, and making segments

    def watch(stop: threading.Event) -> None:
        """Reads what is added to the log: to open a table ten times a second costs more than what is measured."""
        log, version, seen = lake.path("results") / "_delta_log", 0, 0
        while not stop.wait(0.1):
            while (entry := log / f"{version:020}.json").exists():
                version += 1
                number = last_segment(entry)
                fresh.extend(time.time() - closed[each] for each in range(seen + 1, number + 1))
                seen = max(seen, number)
            ours[0] = time.thread_time()

    driver = Driver(spark, lake, [history.folder], Settings())
    stop, ending = threading.Event(), threading.Event()
    threads = [threading.Thread(target=watch, args=(stop,)), threading.Thread(target=driver.run, args=(ending,))]
    for thread in threads:
        thread.start()
    rows = options.agents * options.checks // 6
    marks = []
    for number in range(options.minutes * 6):
        if number % 6 == 3:
            ours[1] = time.thread_time()
            marks.append((look_at_tree(), sum(ours), time.monotonic()))
        history.add(fleet.take(rows, time.time()))
        closed[number + 1] = time.time()
        time.sleep(10)
    used = [(cpu_between(a, b) - (mine - yours)) / (then - now) for (a, yours, now), (b, mine, then) in pairwise(marks)]
    shares = [each / (os.cpu_count() or 1) for each in used]
    ending.set()
    threads[1].join()
    stop.set()
    threads[0].join()
    fresh.sort()
    figures["fleet"] = {
        "results_per_s": rows / 10, "cpu_share_percent": round(100 * sum(shares) / len(shares), 2),
        "cpu_share_percent_by_minute": [round(100 * share, 2) for share in shares],
        "fresh_p50_s": round(fresh[len(fresh) // 2], 2), "fresh_p95_s": round(fresh[int(len(fresh) * 0.95)], 2),
    }  # fmt: skip
    print("fleet", figures["fleet"], flush=True)


def last_segment(entry: Path) -> int:
    """Return the last segment that an entry of Delta's log publishes; 0: none."""
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    return max((action["txn"]["version"] for action in actions if "txn" in action), default=0)


def segments_named(spark: SparkSession, history: Path) -> DataFrame:
    """Return all segments of a history as a run with `--once` names them to its tasks."""
    options = Options({"path": str(history), "cores": spark.conf.get(PARTITIONS)})
    start = initial(options)
    return segments_of(spark, ranges(options, start, latest(options, start, EVERYTHING)))


def against_duckdb(spark: SparkSession, lake: Lake, folder: Path, figures: dict[str, dict[str, float]]) -> None:
    """Measure the five-minute sums of all segments, by both in turns, files to files; the last time counts."""
    history = folder / "helen" / "history"
    series = pq.read_metadata(history / "series.parquet").num_rows
    connection = duckdb.connect()
    connection.execute("set threads = 2; set timezone = 'UTC'")
    for attempt in range(TURNS):
        task = Task({"m5": str(folder / f"out-{attempt}")}, {"m5": {0: 0}}, {0: np.arange(series, dtype=np.int32)})
        with timed(figures, "m5 by Spark"):
            segments_named(spark, history).mapInArrow(GivingBack(task), WRITTEN.ddl).toArrow()
        with timed(figures, "m5 by DuckDB"):
            connection.execute(DUCKDB_M5.format(files=f"{history}/segments/*.parquet", out=folder / "out.parquet"))
    figures["m5 by Spark"]["cpu_ratio"] = round(figures["m5 by Spark"]["cpu_s"] / figures["m5 by DuckDB"]["cpu_s"], 2)


DUCKDB_M5 = """
copy (
    with s as (select *, started + to_microseconds((took_ms * 1000)::bigint) ended from read_parquet('{files}')
               where origin <> 1),
    t as (select *, case when received - ended between interval 2 minute and interval 8 day then ended else received end
                    as time, series_id series from s),
    r as (select series, time_bucket(interval 5 minute, time) bucket, time, status, took_ms, cpu_ms, peak_kib, metrics
          from t),
    v as (select series, bucket, time, status, unnest(metrics, recursive := false) m from r)
    select series, bucket, '' metric, count(*) n, count(*) filter (status = 0) ok, count(*) filter (status = 1) warning,
           count(*) filter (status = 2) critical, count(*) filter (status = 3) unknown, sum(took_ms) s,
           sum(took_ms * took_ms) q, min(took_ms) lo, max(took_ms) hi, arg_min(took_ms, time) f, min(time) fa,
           arg_max(took_ms, time) l, max(time) la, sum(cpu_ms) cpu, max(peak_kib) peak from r group by all
    union all
    select series, bucket, m.name metric, count(*), count(*) filter (status = 0), count(*) filter (status = 1),
           count(*) filter (status = 2), count(*) filter (status = 3), sum(m.value), sum(m.value * m.value),
           min(m.value), max(m.value), arg_min(m.value, time), min(time), arg_max(m.value, time), max(time), null, null
    from v group by all
) to '{out}' (format parquet, compression zstd)
"""


def availability_against_duckdb(spark: SparkSession, lake: Lake, figures: dict[str, dict[str, float]]) -> None:
    """Both in turns from the files of the lake to accounts of each check and day, as Arrow; the last time counts.

    The report's job runs in this process, as little work does, and in Spark's workers. Beside it stands what a job of
    two tasks in Python costs that do nothing.
    """
    first = date.fromtimestamp(START)
    days = local_days(first, first + timedelta(days=1), "UTC")
    series = choose(lake)
    files = [str(lake.path("results") / file.path) for file in lake.files("results")]
    spans = ", ".join(f"({day.begin}, {day.end})" for day in days)
    connection = duckdb.connect()
    connection.execute("set threads = 2; set timezone = 'UTC'")
    question = DUCKDB_AVAILABILITY.format(files=files, spans=spans)
    for _ in range(TURNS):
        for way in ENGINES:
            spark.conf.set(SETTING, way)
            with timed(figures, f"{way}: availability"):
                made = day_rows(spark, lake, days, "strict", "UTC", series)
                ours = pa.concat_tables(rows for _, rows in made.by_day())
        spark.conf.unset(SETTING)
        with timed(figures, "availability by DuckDB"):
            theirs = connection.sql(question).to_arrow_table()
        with timed(figures, "a job without work"):
            spark.range(0, 2, 1, 2).mapInArrow(GivingBack(iter), "id long").toArrow()
    both = [(pc.sum(ours[name]).as_py(), pc.sum(theirs[name]).as_py()) for name in ("ok", "bad")]
    for way in ENGINES:
        figures[f"{way}: availability"] |= {
            "rows": len(ours),
            "cpu_ratio": round(
                figures[f"{way}: availability"]["cpu_s"] / figures["availability by DuckDB"]["cpu_s"], 2
            ),
            "differs_by": round(max(abs(one / other - 1) for one, other in both), 6),
        }


# Each result is good until the next one, or for three times the usual distance between two.
DUCKDB_AVAILABILITY = """
with r as (select series, epoch_us(time) t, "at" n, status from read_parquet({files}) where origin <> 1),
g as (select *, t - lag(t) over w gap, lead(t) over w following from r
      window w as (partition by series order by t, n)),
u as (select series, coalesce(greatest(least(quantile_disc(gap, 0.5) * 3, 21600000000), 60000000), 900000000) good
      from g group by series),
d as (select * from (values {spans}) days (lo, hi)),
s as (select g.series, lo, status, greatest(0, least(coalesce(following, hi), t + good, hi) - greatest(t, lo)) us
      from g join u using (series), d where t < hi)
select series, lo, sum(us) filter (status = 0) / 1e6 ok, coalesce(sum(us) filter (status in (1, 2)), 0) / 1e6 bad,
       coalesce(sum(us) filter (status = 3), 0) / 1e6 unknown
from s group by all
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--results", type=int, default=2_000_000)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--checks", type=int, default=20)
    parser.add_argument("--minutes", type=int, default=0)
    parser.add_argument("--engines", action="store_true")
    parser.add_argument("--keep", type=Path, help="work here and leave everything")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="lake-"))
    figures: dict[str, dict[str, float]] = {"load": dict(zip(("1m", "5m", "15m"), os.getloadavg(), strict=True))}
    print("load", figures["load"], flush=True)
    try:
        with timed(figures, "start of Spark"):
            spark = start_spark("bench", scratch=folder / "scratch")
        lake = ingest(spark, folder, options, figures)
        against_duckdb(spark, lake, folder, figures)
        availability_against_duckdb(spark, lake, figures)
        if options.engines:
            both_ways(spark, folder, figures)
        if options.minutes:
            pace(spark, folder, options, figures)
        spark.stop()
    finally:
        print(json.dumps(figures, indent=1))
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
