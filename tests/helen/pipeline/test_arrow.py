"""Tests that rollups merged in Arrow equal those of frames, whatever the rows: gaps, nulls, overlaps, restarts."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, Held, held
from helen.pipeline.lake.levels import D1, H1, LEVELS, M5, Level
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.merging import KEY, MERGING, Merging
from helen.pipeline.lake.schema import STATUSES, SUMS, TABLES
from helen.pipeline.reports import check_history
from helen.pipeline.rollup import frames, job
from helen.pipeline.rollup.adding import NOWHERE
from helen.pipeline.rollup.arrow import merge, newest
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import compact

BEGIN = datetime(2026, 9, 22, tzinfo=UTC)


def row(rng: random.Random, series: int, **more: Any) -> dict[str, Any]:
    metric, unit, kind = rng.choice([("", "ms", "gauge"), ("used", "%", "gauge"), ("sent", "B", "counter"),
                                     ('sent{if="a"}', "B", "counter")])  # fmt: skip
    bucket = BEGIN + timedelta(seconds=300 * rng.randrange(36))
    has_values = kind == "counter" or rng.random() < 0.8
    first_at = bucket + timedelta(microseconds=rng.randrange(300_000_000))
    last_at = first_at + timedelta(microseconds=rng.randrange(300_000_000))
    values = {
        name: rng.choice([0.0, 1.5, rng.uniform(-5, 500)]) for name in ("sum", "sumsq", "min", "max", "first", "last")
    }
    found = {
        "series": series, "bucket": bucket, "metric": metric, "unit": unit, "kind": kind, "n": rng.randrange(9),
        **{status: rng.randrange(3) for status in STATUSES}, "values": rng.randrange(1, 9), **values,
        "first_at": first_at, "last_at": last_at, "increase": rng.uniform(0, 9) if kind == "counter" else None,
        "increase_s": rng.uniform(0, 300) if kind == "counter" else None, "cpu_runs": rng.randrange(3),
        "cpu_ms": rng.choice([None, 2.25]), "peak_kib": rng.choice([None, 100.0, 7.0]), **more,
    }  # fmt: skip
    if not has_values:
        found |= dict.fromkeys([*values, "first_at", "last_at"]) | {"values": 0}
    return found


def same(mine: list[dict[str, Any]], yours: list[dict[str, Any]]) -> None:
    assert len(mine) == len(yours)
    for one, other in zip(mine, yours, strict=True):
        for name, value in one.items():
            both = isinstance(value, float) and isinstance(other[name], float)
            close = both and math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-9)
            assert close or value == other[name], (name, one, other)


def key(found: dict[str, Any]) -> tuple[Any, ...]:
    return found["series"], found["metric"], found["unit"], found["kind"], found["bucket"]


def test_each_column_is_merged_in_one_way() -> None:
    """Each column of the sums is part of the key or has one way of merging."""
    assert {*KEY, *MERGING} == {*SUMS.columns.names}
    assert len(KEY) + len(MERGING) == len(SUMS.columns)
    assert set(MERGING.values()) == {*Merging}


def plain(rows: list[dict[str, Any]], level: Level) -> list[dict[str, Any]]:
    """Merge rows by hand, one after the other, without the table of ways."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for each in rows:
        start = datetime.fromtimestamp(level.start(round(each["bucket"].timestamp()) * MICROS) / MICROS, UTC)
        groups.setdefault(key(each | {"bucket": start}), []).append(each)
    found = []
    for (series, metric, unit, kind, bucket), of in groups.items():
        added = ("sum", "sumsq", "increase", "increase_s", "cpu_ms")
        whole: dict[str, Any] = {name: sum(each[name] or 0 for each in of) for name in (
            "n", "ok", "warning", "critical", "unknown", "values", "cpu_runs")}  # fmt: skip
        for name in added:
            known = [each[name] for each in of if each[name] is not None]
            whole[name] = (
                math.fsum(known) if known and all(map(math.isfinite, known)) else sum(known) if known else None
            )
        for name, which in (("min", min), ("max", max), ("peak_kib", max)):
            whole[name] = which((each[name] for each in of if each[name] is not None), default=None)
        timed = [each for each in of if each["first_at"] is not None]
        first = min(timed, key=lambda each: each["first_at"], default={})
        last = max(timed, key=lambda each: each["last_at"], default={})
        whole |= {name: first.get(name) for name in ("first", "first_at")}
        whole |= {name: last.get(name) for name in ("last", "last_at")}
        found.append({"series": series, "bucket": bucket, "metric": metric, "unit": unit, "kind": kind, **whole})
    return sorted(found, key=key)


HUGE = [1.7e308, -1.7e308, 5e-324, float("inf"), 0.0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [M5, H1, D1], ids=lambda level: level.name)
def test_all_that_merge_do_it_alike(spark: Any, tmp_path: Path, level: Level, seed: int) -> None:
    """Random rows merged by Arrow, by frames, by a page's reader and by hand are the same, also with huge values."""
    rng = random.Random(seed * 1000 + level.seconds)
    rows = [row(rng, rng.choice([0, 1, 7])) for _ in range(rng.choice([1, 40, 300]))]
    for each in rows:
        if rng.random() < 0.1 and each["max"] is not None:
            each["max"] = rng.choice(HUGE)
        if rng.random() < 0.05 and each["sum"] is not None:
            each["sum"] = float("inf")
    table, names = pa.Table.from_pylist(rows, schema=SUMS.columns), SUMS.columns.names
    expected = plain(rows, level)
    same(expected, sorted(merge(table, level).select(names).to_pylist(), key=key))
    framed = frames.merged(spark.createDataFrame(table), level).select(*names).toArrow().to_pylist()
    same(expected, sorted(framed, key=key))
    if level is M5:
        same([each for each in expected if each["series"] == 7], read_by_a_page(Lake(tmp_path / "lake"), table))


def read_by_a_page(lake: Lake, rows: pa.Table) -> list[dict[str, Any]]:
    """Return the sums of series 7 by a page's reader, from two files."""
    rows = rows.append_column("day", pc.cast(rows["bucket"], pa.date32(), safe=False))
    lake.lock()
    for first, count in ((0, len(rows) // 2), (len(rows) // 2, len(rows))):
        lake.publish("m5", lake.stage_rows("m5", rows.slice(first, count)), {})
    lake.unlock()
    source = check_history._SeriesFiles(lake, "m5", 7, lake.files("m5"))
    names = SUMS.columns.names
    found = [
        {name: each[name] for name in names}
        for lot in source.lots(0, 2**60, None)
        for each in check_history._condensed(source.read(lot, names, pc.field("n") >= 0), M5)
    ]
    return sorted(found, key=key)


@pytest.mark.parametrize("level", [M5, H1, D1], ids=lambda level: level.name)
def test_as_frames_do(spark: Any, level: Level) -> None:
    """Arrow merges 600 rows of four series as frames do, also where many share a bucket."""
    rng = random.Random(level.seconds)
    rows = pa.Table.from_pylist([row(rng, rng.choice([0, 1, 7, 90_000])) for _ in range(600)], schema=SUMS.columns)
    merged = merge(rows, level).to_pylist()
    expected = frames.merged(spark.createDataFrame(rows), level).select(*SUMS.arrow.names).toArrow().to_pylist()
    assert merged == sorted(merged, key=key)
    same(merged, sorted(expected, key=key))


def test_the_newest_rows(spark: Any) -> None:
    """The newest rows are those of the highest version of each series and bucket, with all its metrics, as frames
    choose."""
    rng, taken, rows = random.Random(1), set(), []
    for _ in range(300):
        made = row(rng, rng.randrange(3), version=rng.randrange(4))
        if (*key(made), made["version"]) not in taken:
            taken.add((*key(made), made["version"]))
            rows.append(made)
    table = pa.Table.from_pylist(rows, schema=TABLES[H1.name].columns)
    expected = frames.newest(spark.createDataFrame(table)).select(*TABLES[H1.name].columns.names).toArrow().to_pylist()
    assert len(expected) < len(rows)
    assert len({row["metric"] for row in expected}) > 1
    same(sorted(newest(table).to_pylist(), key=key), sorted(expected, key=key))


def test_in_parts_of_many_rows_each(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of many rows divide unevenly spread series evenly; their hours equal those of frames, also when
    compacted."""
    monkeypatch.setattr(job, "ROWS_PER_PART", 100)
    monkeypatch.setattr(job, "SAMPLED", 4)
    rng, lake = random.Random(5), Lake(tmp_path / "lake")
    numbers = [0, *range(90_000, 90_040)]
    rows = pa.Table.from_pylist([row(rng, rng.choice(numbers)) for _ in range(900)], schema=SUMS.columns)
    rows = rows.append_column("day", pc.cast(rows["bucket"], pa.date32(), safe=False))
    lake.lock()
    for first in range(0, 900, 75):
        lake.publish("m5", lake.stage_rows("m5", rows.slice(first, 75)), {})
    assert cascade(spark, lake, [H1])["h1"] == merge(rows, H1).num_rows
    bounds = job.bounds_of(SUMS, held(lake, "m5", lake.files("m5")), 9)
    assert (len(bounds), bounds[0][0], bounds[-1][1]) == (9, 0, MOST)
    shares = [sum(low <= each <= high for each in rows["series"].to_pylist()) for low, high in bounds]
    assert (sum(shares), max(shares) < 200) == (900, True)
    expected = frames.merged(lake.frame(spark, "m5"), H1).select(*SUMS.arrow.names).toArrow().to_pylist()
    found = [{name: each[name] for name in SUMS.arrow.names} for each in lake.rows("h1")]
    same(sorted(found, key=key), sorted(expected, key=key))
    compact(spark, lake, all_days=True)
    assert (len(lake.files("m5")), lake.rows("m5") != []) == (9, True)
    expected = merge(rows, M5).to_pylist()
    same(sorted(lake.rows("m5"), key=key), expected)
    lake.unlock()


@pytest.mark.parametrize(
    ("fresh", "near"),
    [
        ([(3900, 4200)], "hour whole unknown"),  # within the second hour
        ([(3600, 3600)], "hour whole unknown"),
        ([(3599, 3599)], "before whole unknown"),
        ([(3900, 4200), (7200, 7200)], "hour after whole unknown"),
        ([(-(2**62), 2**62)], "before hour after whole unknown"),  # nobody knows what it holds
    ],
)
def test_what_may_hold_rows_of_a_bucket(fresh: list[tuple[int, int]], near: str) -> None:
    """Files near fresh rows are those whose times, bounds included, may hold rows of the same buckets."""
    spans = {"before": (0, 3300), "hour": (3600, 6900), "after": (7200, 7500), "whole": (0, 86_100)}
    files = [Held(name, 1, 0, MOST, *(each * MICROS for each in span)) for name, span in spans.items()]
    new = [Held("new", 1, 0, MOST, begin * MICROS, end * MICROS) for begin, end in fresh]
    found, _ = job._near([*files, Held("unknown", 1, 0, MOST)], [], new, NOWHERE, H1)
    assert " ".join(file.path for file in found) == near


@pytest.mark.parametrize("most", [1_000_000, 100])
def test_hours_are_the_same_by_workers_and_here(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Hours are the same when this process makes one part as when Spark makes several."""
    monkeypatch.setattr(job, "ROWS_PER_PART", most)
    monkeypatch.setattr(job, "SAMPLED", 4)
    monkeypatch.setattr(job, "LITTLE_ROWS", most)
    rng, lake = random.Random(8), Lake(tmp_path / "lake")
    given = [row(rng, rng.randrange(9)) for _ in range(600)]
    lake.lock()
    for first in (0, 300):
        rows = pa.Table.from_pylist(given[first : first + 300], schema=SUMS.columns)
        rows = rows.append_column("day", pc.cast(rows["bucket"], pa.date32(), safe=False))
        lake.publish("m5", lake.stage_rows("m5", rows), {})
        cascade(spark, lake, [H1])
    parts = job.bounds_of(SUMS, held(lake, "m5", lake.files("m5")), -(-600 // most))
    assert len(parts) == (1 if most > 600 else 6)
    whole = pa.Table.from_pylist(given, schema=SUMS.columns)
    found = (
        newest(pa.Table.from_pylist(lake.rows("h1"), schema=TABLES[H1.name].arrow))
        .select(SUMS.columns.names)
        .to_pylist()
    )
    expected = merge(whole, H1).select(SUMS.columns.names).to_pylist()
    same(sorted(found, key=key), sorted(expected, key=key))
    lake.unlock()


def test_nothing_of_nothing() -> None:
    assert merge(SUMS.columns.empty_table(), H1).num_rows == newest(TABLES[H1.name].columns.empty_table()).num_rows == 0


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("more", [(), ("values", "sum"), ("first", "first_at"), ("last", "max"), ("n", "ok")])
def test_columns_that_are_not_there_are_left_out(level: Level, more: tuple[str, ...]) -> None:
    """Rows with some columns left out are merged to the same values in the others."""
    rng = random.Random(17)
    whole = pa.Table.from_pylist([row(rng, n % 3) for n in range(400)], schema=SUMS.columns)
    names = [name for name in SUMS.columns.names if name in (*KEY, "last_at", *more)]
    few, all_of = merge(whole.select(names), level), merge(whole, level)
    assert few.column_names == [*names, "day"]
    same(few.to_pylist(), all_of.select(few.column_names).to_pylist())


def test_more_words_than_keys_have_room_for() -> None:
    """Rows of 2,100 names of metrics and units, more than packed keys hold, are merged in order."""
    rng = random.Random(5)
    rows = [row(rng, n % 2) | {"metric": f"m{n % 700:03}", "unit": f"u{n % 3}"} for n in range(2_100)]
    found = merge(pa.Table.from_pylist(rows, schema=SUMS.columns), M5)
    keys = [key(each) for each in found.to_pylist()]
    assert keys == sorted(keys) and len({(metric, unit) for _, metric, unit, *_ in keys}) == 2_100
