"""Tests ingestion from segments to the lake: times of results, sums in two ways and by DuckDB, and nothing twice."""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections import defaultdict
from datetime import UTC
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from attrs import evolve
from plainly import PlainBatch, refuse_once, sink_of

from helen.pipeline import driver
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.ingest import batch as ingestion
from helen.pipeline.lake.errors import NoSuchSeries, PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.levels import D1, H1, M5, by_name
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.schema import SPOOLS
from helen.pipeline.rollup.segment_rows import BELIEVED, PROMPT

T = 1_790_000_100.0  # 2026-09-21 13:35:00 UTC
ONCE = Settings(once=True, upkeep=False)


@pytest.fixture
def lake(tmp_path: Any) -> Lake:
    """Provide an empty lake."""
    return Lake(tmp_path / "lake")


def ingest(spark: Any, lake: Lake, *written: Any) -> None:
    """Ingest histories with Spark's stream; tests that need no stream do without, which takes a tenth of the time."""
    Driver(spark, lake, [each.state for each in written], ONCE).run()


def stored(lake: Lake, table: str) -> list[dict[str, Any]]:
    return sorted(lake.rows(table), key=lambda row: [str(value) for value in row.values()])


def fleet(helen: Any, rng: random.Random, count: int, begin: float = T) -> list[Any]:
    """Return results of eight series with labels, restarting counters, missing values and late times."""
    records, total = [], 0.0
    for number in range(count):
        total = 0.0 if rng.random() < 0.1 else total + rng.randrange(50)
        metrics = [
            {"name": "used", "value": rng.uniform(0, 100), "unit": "%", "labels": {"path": '/a"\\', "dev": "sda"}},
            {"name": "sent", "value": total, "unit": "B", "kind": "counter"},
            {"name": "nothing"},
        ]
        received = begin + number * 7.5
        more = {"started": received - rng.choice((0.5, 30, 500, 86_400)), "took_ms": rng.choice((None, 12.5, 3.0))}
        status = rng.choice(("ok", "ok", "warning", "critical", "unknown"))
        few = metrics[: rng.randrange(4)]
        records.append(
            helen.result(
                f"web{number % 4}/c{number % 2}",
                received,
                status,
                metrics=few,
                cpu_ms=rng.choice((None, 1.25)),
                origin=rng.choice((0, 0, 1, 2)),
                **more,
            )
        )
    return records  # fmt: skip


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def same_rows(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], names: list[str]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        wrong = [name for name in names if not close(one[name], other[name])]
        assert not wrong, (wrong, one, other)


def test_when_a_result_counts(lake: Lake, history: Any, take_in: Any) -> None:
    """A prompt result counts when Helen got it, one from a spool when it ended, and an unbelievable clock is
    ignored."""
    prompt, believed = PROMPT / MICROS, BELIEVED / MICROS
    ended = [T + 60, T - prompt, T - prompt - 1, T - believed, T - believed - 1]
    history.segment(
        *(history.result("web1/disk", T, started=end - 0.5, took_ms=500) for end in ended), history.result("web1/x", T)
    )
    take_in(lake, history.state)
    found = [row["time"].timestamp() for row in sorted(lake.rows("results"), key=lambda row: row["at"])]
    assert found == [T, T, T - prompt - 1, T - believed, T, T]
    days = {row["time"].date(): row["day"] for row in lake.rows("results")}
    assert all(time == day for time, day in days.items())
    assert len(days) == 2


def test_sums_are_the_same_by_tasks_and_by_duckdb(lake: Lake, history: Any, take_in: Any) -> None:
    """m5 merged equals DuckDB's sums of all raw rows, late ones included: counts exactly, and sums to 1e-9."""
    rng = random.Random(5)
    for at in range(3):
        history.segment(*fleet(history, rng, 60, T + at * 450))
    history.segment(*fleet(history, rng, 20, T - 3000))  # as if it had come from another queue: all of it overlaps
    take_in(lake, history.state, most=2)
    files = [str(lake.path("results") / file.path) for file in lake.files("results")]
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    found = connection.execute(DUCKDB.format(files=files))
    names = [column[0] for column in found.description]
    by_duckdb = sorted((dict(zip(names, row, strict=True)) for row in found.fetchall()), key=key_of)
    by_tasks = sorted(merge(lake.rows("m5")), key=key_of)
    assert sum(row["n"] for row in by_tasks if row["metric"] == "") == sum(
        row["origin"] != 1 for row in lake.rows("results")
    )
    assert {row["metric"] for row in by_tasks} == {"", 'used{dev="sda",path="/a\\"\\\\"}', "sent"}
    same_rows(by_tasks, by_duckdb, names)


def test_a_counter_gains_what_it_gained(lake: Lake, history: Any, take_in: Any) -> None:
    """A counter gains from the first to the last value of a bucket, and from 0 after a restart; a gauge gains
    nothing."""
    values = [100, 130, 130, 20, 50]

    def metrics(value: float) -> list[dict[str, Any]]:
        return [{"name": "sent", "value": value, "kind": "counter"}, {"name": "load", "value": value}]

    history.segment(*(history.result("web1/net", T + n, metrics=metrics(v)) for n, v in enumerate(values)))
    take_in(lake, history.state)
    found = {row["metric"]: (row["increase"], row["first"], row["last"], row["min"]) for row in lake.rows("m5")}
    assert found == {"sent": (80.0, 100.0, 50.0, 20.0), "load": (None, 100.0, 50.0, 20.0), "": (None,) * 4}


def test_a_second_run_goes_on(spark: Any, lake: Lake, history: Any, take_in: Any) -> None:
    """A second run takes in only new segments, and tells Helen how far it is."""
    history.segment(history.result("web1/disk", T), history.change("helen_start", T))
    ingest(spark, lake, history)
    take_in(lake, history.state)
    history.segment(history.change("link", T, "web1", event="up"))
    history.segment(history.result("web2/disk", T))
    ingest(spark, lake, history)
    assert [row["at"] for row in stored(lake, "results")] == [1, 4]
    assert [(row["kind"], row["series"]) for row in stored(lake, "changes")] == [("helen_start", None), ("link", None)]
    assert [(row["agent"], row["check_id"]) for row in stored(lake, "series")] == [("web1", "disk"), ("web2", "disk")]
    assert (history.folder / "committed").read_text() == "2\n"
    assert (history.folder / "committed-changes").read_text() == "2\n"


def test_what_could_not_be_published_is_not_known(lake: Lake, histories: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A series number whose publication failed is published by the next attempt, so that no other check gets it."""
    one, other = histories
    one.segment(one.result("web1/load", T))
    sink = sink_of(lake, one.state, other.state)
    sink.take(PlainBatch(sink, 9))
    other.segment(other.result("x/disk", T))
    refuse_once(monkeypatch, lake, "series")
    with pytest.raises(OSError, match="No space"):
        sink.take(PlainBatch(sink, 9))
    sink.take(PlainBatch(sink, 9))
    one.segment(one.result("y/disk", T))
    sink = sink_of(lake, one.state, other.state)
    sink.take(PlainBatch(sink, 9))
    names = {row["series"]: row["agent"] for row in lake.rows("series")}
    found = sorted((names[row["series"]], row["helen"]) for row in lake.rows("results"))
    assert found == [("web1", 0), ("x", 1), ("y", 0)]
    lake.unlock()


@pytest.mark.parametrize("point", ["begun", "named", "written", "results-published"])
def test_a_check_that_is_new_while_a_batch_is_taken(lake: Lake, history: Any, point: str) -> None:
    """A check that is new while a batch is taken has one series for its results and its first transition."""
    history.segment(history.result("web1/load", T))
    left = [1]

    def reached(name: str) -> None:
        if name == point and left:
            left.pop()
            history.segment(
                history.result("new/disk", T + 1), history.change("transition", T + 1, "new/disk", at=T + 1)
            )

    sink = sink_of(lake, history.state, reached=reached)
    while not (batch := PlainBatch(sink, 9)).is_empty:
        sink.take(batch)
    assert [row["agent"] for row in stored(lake, "series")] == ["web1", "new"]
    assert sorted(row["series"] for row in lake.rows("results")) == [0, 1]
    assert [row["series"] for row in lake.rows("changes")] == [1]
    lake.unlock()


def test_a_segment_of_series_that_nobody_knows(lake: Lake, history: Any) -> None:
    """A segment with a series that its list lacks raises NoSuchSeries, and none of its rows is taken in."""
    history.segment(history.result("web1/load", T))
    few = (history.folder / "series.parquet").read_bytes()
    history.segment(history.result("web2/load", T), history.change("transition", T, "web2/load", at=T))
    (history.folder / "series.parquet").write_bytes(few)
    sink = sink_of(lake, history.state)
    with pytest.raises(NoSuchSeries, match=r"segment 2 has series 1, which series.parquet beside it doesn't have: res"):
        sink.take(PlainBatch(sink, 9))
    (history.segments / "seg-00000002.parquet").unlink()
    with pytest.raises(NoSuchSeries, match=r"chg-00000001.parquet has series 1, which"):
        sink.take(PlainBatch(sink, 9))
    assert (len(lake.rows("results")), lake.rows("changes")) == (1, [])
    lake.unlock()


def test_the_stream_waits_for_more_and_ends_when_asked(spark: Any, lake: Lake, history: Any) -> None:
    """The stream takes later segments in and ends when asked; status files say how it goes."""
    ending, taken = threading.Event(), "1 result and 0 changes in "
    settings = Settings(trigger=0.2, upkeep=False)

    def say(line: str) -> None:  # where a machine is so busy that Spark gives up, the stream is started again
        if line.startswith(taken):
            ending.set()

    driver = Driver(spark, lake, [history.state], settings, say)
    history.segment(history.result("web1/disk", T))
    thread = threading.Thread(target=driver.run, args=(ending,))
    thread.start()
    thread.join(120)
    assert not thread.is_alive()
    assert len(lake.rows("results")) == 1
    told = json.loads((history.folder / "pipeline.json").read_text())
    assert json.loads((lake.folder / "status.json").read_text()).items() >= {
        name: told[name] for name in ("pid", "running", "results", "batches", "last", "error")
    }.items()  # fmt: skip
    assert {name: told[name] for name in ("running", "results", "batches", "segment", "behind", "error", "lake")} == {
        "running": False, "results": 1, "batches": 1, "segment": 1, "behind": 0, "error": None,
        "lake": str(lake.folder),
    }  # fmt: skip


@pytest.mark.parametrize("once", [True, False], ids=["once", "stream"])
def test_what_fails_is_begun_again(spark: Any, lake: Lake, history: Any, once: bool) -> None:
    """A batch that fails after any step is begun again and said so, with nothing lost or twice."""
    points = ("written", "m5-published", "results-published")
    for n in range(3):
        history.segment(history.result("web1/disk", T + n), history.change("link", T, "web1", event="up"))
    failing, said, ending = list(points), [], threading.Event()

    def reached(point: str) -> None:
        if failing and failing[0] == point:
            failing.pop(0)
            raise OSError(f"no space at {point}")

    def say(line: str) -> None:
        said.append(line)
        if line.endswith(" 0 segments behind") and not once:
            ending.set()

    settings = Settings(once=once, trigger=0.1, upkeep=False, max_segments=1)
    Driver(spark, lake, [history.state], settings, say, reached).run(ending)
    assert [row["at"] for row in stored(lake, "results")] == [1, 3, 5]
    assert sum(row["n"] for row in lake.rows("m5")) == len(lake.rows("changes")) == 3
    assert [line for line in said if "no space" in line] == [
        f"failed, and begun again: no space at {point}" for point in points
    ]


def test_what_fails_again_and_again_is_the_end(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that fails again and again ends the run with the reason, which the status file has, too."""
    monkeypatch.setattr(driver, "RETRIES", 1)
    history.segment(history.result("web1/disk", T))

    def reached(point: str) -> None:
        raise OSError("no space left on device")

    with pytest.raises(PipelineError, match="It has failed 2 times at one place: no space left on device"):
        Driver(spark, lake, [history.state], ONCE, reached=reached).run()
    told = json.loads((history.folder / "pipeline.json").read_text())
    assert (told["running"], told["error"]) == (False, "It has failed 2 times at one place: no space left on device")


@pytest.mark.parametrize(("count", "most", "by_spark"), [(2, 1 << 20, 0), (3, 1 << 20, 1), (2, 1000, 1)])
def test_what_is_little_is_digested_by_the_driver(
    lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch, count: int, most: int, by_spark: int
) -> None:
    """The driver digests up to two small segments itself, and Spark's workers digest more; all of it is in the lake."""
    asked: list[str] = []
    for name in ("mapInArrow", "toArrow"):
        monkeypatch.setattr(PlainBatch, name, counted(getattr(PlainBatch, name), name, asked))
    monkeypatch.setattr(ingestion, "LITTLE_BYTES", most)
    for number in range(count):
        history.segment(history.result("web1/load", 1_790_000_000.0 + number))
    take_in(lake, history.state)
    assert asked == ["mapInArrow"] * by_spark
    assert len(lake.rows("results")) == count
    assert sum(row["n"] for row in lake.rows("m5")) == count


def counted(given: Any, name: str, calls: list[str]) -> Any:
    return lambda *words: calls.append(name) or given(*words)


def test_upkeep_that_fails_is_told_and_ends_the_run_in_the_end(
    spark: Any, lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Upkeep that keeps failing is reported and ends the run at last, while results come in by one stream."""
    lake = Lake(lake.folder, by_name((M5, evolve(H1, follow_seconds=0.05), D1)))
    monkeypatch.setattr(driver, "LOOK", 0.05)
    monkeypatch.setattr(driver, "BEAT", 0.05)
    monkeypatch.setattr(driver, "RETRIES", 3)
    calls, streams, told, said = [], [], [], []
    reason = "rollup h1 failed, 1 time in a row: a file of m5 is damaged"

    def cascade(*words: Any) -> None:
        calls.append(len(lake.rows("results")))
        told.append(json.loads((lake.folder / "status.json").read_text())["error"])
        if len(calls) == 2:
            history.segment(history.result("web1/load", T + 60))
        if len(calls) != 4:
            raise ValueError("a file of m5 is damaged")

    start = Driver._start
    monkeypatch.setattr(Driver, "_start", lambda *words: streams.append(1) or start(*words))
    monkeypatch.setattr(driver, "cascade", cascade)
    history.segment(history.result("web1/load", T))
    run = Driver(spark, lake, [history.state], Settings(trigger=0.1, keep={}), said.append)
    monkeypatch.setattr(run, "_is_due", slow(run._is_due, lambda: len(lake.rows("results")) > (len(calls) > 2)))
    with pytest.raises(PipelineError, match=r"rollup h1 failed, 4 times in a row: a file of m5 is damaged"):
        run.run(threading.Event())
    assert (len(streams), len(calls), calls[-1]) == (1, 8, 2)
    assert reason in told[1:4] and told[4] is None and "rollup h1 failed, 3 times" in told[-1]
    assert len([line for line in said if "in a row" in line]) == 6
    final = json.loads((lake.folder / "status.json").read_text())
    assert (final["running"], final["error"]) == (False, "rollup h1 failed, 4 times in a row: a file of m5 is damaged")


def test_upkeep_is_not_why_a_run_ended(lake: Lake, history: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    history.segment(history.result("web1/load", T))
    run: Any = Driver(None, lake, [history.state], ONCE)  # type: ignore[arg-type]
    told = []

    def work(*_: Any) -> None:
        run._try("upkeep", lambda: 1 / 0)
        told.append(run._status.error)

    monkeypatch.setattr(run, "_keep_at_it", work)
    run.run()
    final = json.loads((lake.folder / "status.json").read_text())
    assert (told, final["running"], final["error"]) == (
        ["upkeep failed, 1 time in a row: division by zero"],
        False,
        None,
    )


def slow(given: Any, may: Any) -> Any:
    """Return a check of times that calls hours due only when `may` says so."""
    return lambda name, every: (name == "beat" or may()) and given(name, every)


def test_the_writer_follows_its_own_log(lake: Lake) -> None:
    """The writer follows its own log, readers see each published segment, and old entries of the log are deleted."""
    log, row = lake.path("spools") / "_delta_log", {"helen": 0, "agent": "a", "spool": "s"}
    lake.lock()
    for number in range(1, 203):
        lake.publish("spools", lake.stage_rows("spools", pa.Table.from_pylist([row], SPOOLS.arrow)), {"seg:x": number})
        assert lake.done("spools", "seg:x") == number
        if number in (1, 101, 202):
            assert Lake(lake.folder).done("spools", "seg:x") == number
        if number == 190:
            for entry in log.iterdir():
                os.utime(entry, (time.time() - 7200,) * 2)
    assert min(entry.name for entry in log.glob("*.json")) == f"{99:020}.json"  # the last checkpoint of an hour ago
    assert len(Lake(lake.folder).rows("spools")) == 202
    lake.unlock()


def test_one_writer(lake: Lake) -> None:
    """A second writer of a lake is refused by a sentence, and may start once the first has ended."""
    lake.lock()
    with pytest.raises(PipelineError, match=r"Process [0-9]+ is writing to .*stop it first"):
        Lake(lake.folder).lock()
    lake.unlock()
    Lake(lake.folder).lock()


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["series"], row["bucket"].astimezone(UTC), row["metric"]


def merge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up rows of m5 in plain Python."""
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[key_of(row)].append(row)
    return [
        {name: one_of(name, [row[name] for row in group if row[name] is not None]) for name in group[0]}
        for group in groups.values()
    ]


def one_of(name: str, values: list[Any]) -> Any:
    if not values or name in ("series", "bucket", "metric", "unit", "kind", "day"):
        return values[0] if values else None
    if name in ("min", "first_at"):
        return min(values)
    return max(values) if name in ("max", "last_at", "peak_kib") else sum(values)


DUCKDB = """
with r as (select * from read_parquet({files}) where origin <> 1),
v as (select series, time, status, unnest(metrics) m from r),
f as (
    select series, time_bucket(interval 5 minute, time) bucket, time, status, took_ms value, '' metric, cpu_ms, peak_kib
    from r
    union all
    select series, time_bucket(interval 5 minute, time), time, status, m.value,
           m.name || case when cardinality(m.labels) > 0 then '{{dev="sda",path="/a\\"\\\\"}}' else '' end, null, null
    from v where m.value is not null
)
select series, bucket, metric, count(*) n, count(*) filter (status = 0) ok, count(*) filter (status = 1) warning,
       count(*) filter (status = 2) critical, count(*) filter (status = 3) unknown, count(value) as values,
       sum(value) sum, sum(value * value) sumsq, min(value) min, max(value) max,
       min(time) filter (value is not null) first_at, max(time) filter (value is not null) last_at,
       sum(cpu_ms) cpu_ms, max(peak_kib) peak_kib
from f group by all
"""
