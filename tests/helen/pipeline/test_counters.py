"""Tests the gain of counters: each level has what a walk through the raw values gives, whenever they came."""

from __future__ import annotations

import errno
import random
from collections import defaultdict
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plainly import PlainBatch, refuse_once, sink_of

from groundwork.read_errors import Cause
from helen.pipeline.ingest import batch as ingestion
from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import held, read
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.places import parquet_file
from helen.pipeline.lake.read_errors import cause_at
from helen.pipeline.reports.check_history import HistoryRequest, read_history
from helen.pipeline.rollup import near_rows, overlaps
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import rebuild, rebuild_sums
from helen.pipeline.rollup.steps import CARRIED, Stretch, changed_steps

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
DAY = 86_400
Values = dict[str, list[tuple[float, float]]]  # AGENT/CHECK -> (time, value)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def sent(value: float, unit: str = "B") -> list[dict[str, Any]]:
    return [{"name": "sent", "value": value, "kind": "counter", "unit": unit}, {"name": "load", "value": value}]


def walked(values: list[tuple[float, float]]) -> float:
    """Return the gain of a counter, value by value."""
    gain = 0.0
    for (at, before), (then, value) in pairwise(sorted(values)):
        if then - at <= CARRIED / MICROS:
            gain += value - before if value >= before else value
    return gain


def in_lake(lake: Lake, table: str) -> dict[int, float]:
    """Return the gain of each series by the rows of a table."""
    rows = [row for row in lake.rows(table) if row["metric"] == "sent"]
    newest: dict[Any, int] = defaultdict(int)
    for row in rows:
        newest[row["series"], row["bucket"]] = max(newest[row["series"], row["bucket"]], row.get("version", 0))
    gains: dict[int, float] = defaultdict(float)
    for row in rows:
        if row.get("version", 0) == newest[row["series"], row["bucket"]]:
            gains[row["series"]] += row["increase"]
    return dict(gains)


def follow(lake: Lake) -> None:
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()


def check(lake: Lake, values: Values) -> None:
    """Check that all levels have the gain of the raw values."""
    names = {f"{row['agent']}/{row['check_id']}": row["series"] for row in lake.rows("series")}
    expected = {names[name]: walked(each) for name, each in values.items()}
    for table in ("m5", "h1", "d1"):
        assert in_lake(lake, table) == pytest.approx(expected, rel=1e-9), table


def test_a_check_each_five_minutes_has_a_rate(lake: Lake, history: Any, take_in: Any) -> None:
    """A gain belongs to the bucket in which it was seen, and its rate counts the time since the value before."""
    history.segment(
        history.result("web1/net", T, metrics=sent(100)), history.result("web1/net", T + 300, metrics=sent(400))
    )
    history.segment(history.result("web1/net", T + 690, metrics=sent(478)))
    take_in(lake, history.state)
    begin = round(T) * MICROS
    answer = read_history(lake.folder, HistoryRequest("web1", "net", begin, begin + 3600 * MICROS, "m5", ["sent"]))
    assert [(each["at"] - T, each["rate"], each["n"]) for each in answer["metrics"][0]["points"]] == [
        (0, None, 1), (300, 1.0, 1), (600, 0.2, 1),
    ]  # fmt: skip
    follow(lake)
    check(lake, {"web1/net": [(0.0, 100.0), (300.0, 400.0), (690.0, 478.0)]})
    loads = [row["increase"] for row in lake.rows("d1") if row["metric"] in ("load", "")]
    assert loads == [None, None]


@pytest.mark.parametrize("seed", range(6))
def test_as_one_walks_through_the_values(lake: Lake, history: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains equal those of a walk through the values, whatever the order, delay, restarts and pauses of segments."""
    rng, values = random.Random(seed), defaultdict(list)
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", rng.choice((0, 2)))
    pieces: list[list[Any]] = []
    now = T + 8 * DAY  # all of them are late, and none is so late that its clock isn't believed
    for number in range(4):
        name, total, at = f"web{number}/net", 0.0, T + 3600 + rng.uniform(0, DAY)
        piece: list[Any] = []
        while at < now - 600:
            values[name].append((at, total))
            piece.append((name, at, total))
            if rng.random() < 0.1:
                pieces.append(piece)
                piece = []
            at += rng.choice((420, 420, 420, 600, 3600, 80_000, 2.1 * DAY if rng.random() < 0.1 else 420))
            total = 0.0 if rng.random() < 0.05 else total + rng.randrange(1000)
        pieces.append(piece)
    rng.shuffle(pieces)
    for piece in filter(None, pieces):
        history.segment(*(history.result(name, now, metrics=sent(total), started=at) for name, at, total in piece))
    sink, most = sink_of(lake, history.state), rng.choice((1, 2, 5))
    while not (batch := PlainBatch(sink, most)).is_empty:
        if rng.random() < 0.2:
            with pytest.MonkeyPatch.context() as patched:
                refuse_once(patched, lake, rng.choice(("m5", "results")))
                with pytest.raises(OSError, match="No space"):
                    sink.take(batch)
            batch = PlainBatch(sink, most)
        sink.take(batch)
        if rng.random() < 0.3:
            sink = sink_of(lake, history.state)
    lake.unlock()
    follow(lake)
    check(lake, values)


@pytest.mark.parametrize("where", ["counters", "overlaps"])
def test_rows_that_can_not_be_read_just_now_are_not_taken_for_none(
    lake: Lake, history: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that cannot be read for want of descriptors fail the try, and the next try takes their steps into
    account."""
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", 0)
    segments = [[(T, 100.0), (T + 120, 10.0)], [(T + 60, 150.0)], [(T + 400, 40.0)]]
    for each in segments:
        history.segment(
            *(history.result("web1/net", T + DAY, metrics=sent(value), started=at) for at, value in each)
        )  # fmt: skip
    sink = sink_of(lake, history.state)
    sink.take(PlainBatch(sink, 1))
    sink = sink_of(lake, history.state)
    batch = PlainBatch(sink, 1)
    with pytest.MonkeyPatch.context() as patched:

        def refuse(table: Any, paths: Any, *words: Any) -> Any:
            if paths:
                raise OSError(errno.EMFILE, "Too many open files")
            return read(table, paths, *words)

        patched.setattr(*((near_rows, "read", refuse) if where == "counters" else (overlaps, "batches", refuse)))
        with pytest.raises(OSError, match="Too many open files"):
            sink.take(batch)
    while not (batch := PlainBatch(sink, 1)).is_empty:
        sink.take(batch)
    lake.unlock()
    follow(lake)
    check(lake, {"web1/net": [value for each in segments for value in each]})


def test_damage_is_told_from_a_look_that_fails(tmp_path: Path) -> None:
    """A missing, cut or overwritten file is damaged, and one that cannot be opened just now is not."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(10_000))}), path)
    whole = path.read_bytes()
    for content in (None, b"", whole[:100], whole[:2000] + bytes(2000) + whole[4000:]):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        with pytest.raises((OSError, pa.ArrowException)) as told:
            parquet_file(path).read()
        assert cause_at(told.value, path) is Cause.CONTENT, content and len(content)
        path.touch()
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links") as closed:
        parquet_file(path)
    assert cause_at(closed.value, path) is Cause.OTHER
    assert cause_at(pa.ArrowMemoryError("no memory"), path) is Cause.SCARCE


def test_a_day_made_anew_is_the_same(lake: Lake, history: Any, take_in: Any) -> None:
    """A day made anew is the same, also twice, and also one whose rows were lost, with its neighbours."""
    rng, values, total = random.Random(4), [], 0.0
    for n in range(3 * 48):
        total = 0.0 if rng.random() < 0.05 else total + rng.randrange(99)
        values.append((T + n * 1800, total))
    history.segment(*(history.result("web1/net", at, metrics=sent(each)) for at, each in values))
    take_in(lake, history.state)
    follow(lake)
    before = content(lake)
    check(lake, {"web1/net": values})
    lake.lock()
    for table in ("m5", "m5", "h1", "d1"):
        rebuild(None, lake, table, [date(2026, 9, 23)])  # type: ignore[arg-type]
        assert content(lake) == before
    middle = date(2026, 9, 23)
    lake.publish("m5", [], {}, lake.files("m5", (middle, middle)))
    rebuild(None, lake, "m5", [middle])  # type: ignore[arg-type]
    lake.unlock()
    check(lake, {"web1/net": values})


def content(lake: Lake) -> dict[str, list[Any]]:
    """Return the rows that count in each level, without versions."""
    found = {}
    for table in ("m5", "h1", "d1"):
        rows = lake.rows(table)
        newest: dict[Any, int] = defaultdict(int)
        for row in rows:
            newest[row["series"], row["bucket"]] = max(newest[row["series"], row["bucket"]], row.get("version", 0))
        sums: dict[Any, list[float]] = defaultdict(lambda: [0.0] * 5)
        for row in rows:
            if row.get("version", 0) == newest[row["series"], row["bucket"]]:
                into = sums[row["bucket"], row["metric"]]
                for at, name in enumerate(("n", "ok", "sum", "increase", "increase_s")):
                    into[at] = round(into[at] + (row[name] or 0), 6)
        found[table] = sorted(sums.items())
    return found


def test_a_metric_that_a_bucket_lost_is_gone(lake: Lake, history: Any, take_in: Any) -> None:
    """A bucket is replaced whole: a metric that it lost is in no answer, by name or without."""
    history.segment(*(history.result("web1/net", T + n * 600, metrics=sent(n)) for n in range(6)))
    take_in(lake, history.state)
    follow(lake)
    lake.lock()
    renamed = [
        {**row, "metrics": [{**each, "name": "bytes"} for each in row["metrics"] if each["name"] == "sent"]}
        for row in lake.rows("results")
    ]
    table = pa.Table.from_pylist(renamed, schema=lake.tables["results"].arrow)
    day, files = date(2026, 9, 22), lake.files("results")
    lake.publish("results", lake.stage_rows("results", table), {}, files)
    rebuild_sums(None, lake, day, held(lake, "results", lake.files("results")))  # type: ignore[arg-type]
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    begin = round(T) * MICROS
    for level in ("m5", "h1", "d1"):
        for metrics in ([], ["sent", "bytes"]):
            request = HistoryRequest("web1", "net", begin, begin + DAY * MICROS, level, metrics)
            names = {each["metric"] for each in read_history(lake.folder, request)["metrics"]}
            assert names - {""} == {"bytes"}
    assert {row["metric"] for row in lake.rows("m5")} == {"", "bytes"}


def test_what_cannot_be_made_anew(lake: Lake, history: Any, take_in: Any) -> None:
    """A rebuild without a source, or of days whose source is forgotten, is refused before anything is replaced."""
    history.segment(history.result("web1/net", T, metrics=sent(1)))
    with pytest.raises(PipelineError, match=r"results has nothing any more, so 2026-09-22 can't be made anew"):
        rebuild(None, lake, "m5", [date(2026, 9, 22)])  # type: ignore[arg-type]
    take_in(lake, history.state)
    files = lake.files("m5")
    for table, day, sentence in (
        ("results", 22, "results can't be made anew: only m5, h1, d1 come from other tables"),
        ("m5", 21, "results has nothing before 2026-09-22 any more, so 2026-09-21 can't be made anew"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            rebuild(None, lake, table, [date(2026, 9, day)])  # type: ignore[arg-type]
    assert lake.files("m5") == files


S = MICROS
STEPS: dict[str, tuple[list[Any], list[Any], list[tuple[float, float]]]] = {
    "the first value": ([], [(0, 5)], []),
    "the next one": ([(0, 5)], [(300, 9)], [(4, 300)]),
    "begun again": ([(0, 5)], [(300, 2)], [(2, 300)]),
    "too long ago": ([(0, 5)], [(CARRIED // S + 1, 9)], []),
    "just not too long ago": ([(0, 5)], [(CARRIED // S, 9)], [(4, CARRIED / S)]),
    "in between": ([(0, 5), (600, 20)], [(300, 9)], [(4, 300), (-4, -300)]),
    "in between, begun again": ([(0, 5), (600, 20)], [(300, 2)], [(2, 300), (3, -300)]),
    "before all": ([(600, 20)], [(300, 9)], [(11, 300)]),
    "infinite": ([(0, 5)], [(300, float("inf"))], [(0, 300)]),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_which_steps_are_added(name: str) -> None:
    there, new, steps = STEPS[name]
    known, added = ([Stretch(at * S, at * S, value, value) for at, value in each] for each in (there, new))
    found = changed_steps(known, [*known, *added], added)
    assert [(step.gain, step.seconds) for step in sorted(found, key=lambda step: step.bucket)] == steps
