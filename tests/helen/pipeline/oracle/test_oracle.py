"""Tests the whole lake against independent sums of a seeded history: by plain Python, and by DuckDB from the
segments."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import plainly
import pytest
from lake_history import DAY, Truth, make

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS, local_days
from helen.pipeline.reports.availability import Task, choose
from helen.pipeline.reports.availability_inputs import plan
from helen.pipeline.rollup.arrow import newest
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import compact
from helen.pipeline.verify import verify_days, verify_segments

FIRST, DAYS, AGENTS, STEP = date(2026, 10, 1), 40, 13, 7200.0
BEGIN = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC).timestamp()
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana")
LATE, BELIEVED = 120.0, 8 * DAY


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, new_history: Any) -> Iterator[tuple[Truth, Lake]]:
    """Provide 1,040 series-days of two Helens and their lake, with all levels and nothing compacted."""
    folder = tmp_path_factory.mktemp("oracle")
    histories = [new_history(folder / name) for name in ("one", "other")]
    truth = make(histories, 17, BEGIN, DAYS, AGENTS, STEP)
    lake = Lake(folder / "lake")
    plainly.take_all(lake, *(each.state for each in histories), most=9)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    yield truth, lake


def counts_at(result: dict[str, Any]) -> float:
    """Return the time at which a result counts: when it arrived, or when it ended if that was long before. Unix
    seconds."""
    ended = result["started"] + (result["took_ms"] or 0.0) / 1000
    return ended if LATE < result["received"] - ended <= BELIEVED else result["received"]


def names(lake: Lake) -> dict[int, str]:
    return {row["series"]: f"{row['agent']}/{row['check_id']}" for row in lake.rows("series")}


def test_each_result_is_there_once(told: tuple[Truth, Lake]) -> None:
    """The lake has each result once, including those that both Helens got and those that came hours late."""
    truth, lake = told
    known = names(lake)
    found = [(*known[row["series"]].split("/"), row["spool"], row["sequence"]) for row in lake.rows("results")]
    assert sorted(found) == sorted(truth.results)
    assert len(found) > 10_000
    dropped = sum(row["dropped"] for row in lake.rows("segments"))
    assert dropped == sum(row["rows"] for row in lake.rows("segments")) + dropped - len(found) > 0


DUCKDB = """
with r as (select * from read_parquet({files}) where origin <> 1),
v as (select series, time, status, unnest(metrics) m from r),
f as (
    select series, time, status, took_ms as value, '' as metric, cpu_ms from r
    union all
    select series, time, status, m.value,
           m.name || case when cardinality(m.labels) > 0 then '{{path="/ü"}}' else '' end, null
    from v where m.value is not null
)
select series, metric, epoch_us(time) // ({seconds}::bigint * 1000000) * ({seconds}::bigint * 1000000) as bucket,
       count(*) as n, count(*) filter (status = 0) as ok, count(*) filter (status = 2) as critical,
       count(value) as values, sum(value) as sum, min(value) as min, max(value) as max, sum(cpu_ms) as cpu_ms,
       count(cpu_ms) as cpu_runs
from f group by all
"""


@pytest.mark.parametrize(("table", "seconds"), [("m5", 300), ("h1", 3600), ("d1", 86_400)])
def test_sums_are_those_of_duckdb(told: tuple[Truth, Lake], table: str, seconds: int) -> None:
    """Each level has DuckDB's sums of the raw results: counts exactly, and sums to 1e-9."""
    _, lake = told
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    files = [str(lake.path("results") / file.path) for file in lake.files("results")]
    asked = connection.execute(DUCKDB.format(files=files, seconds=seconds))
    columns = [column[0] for column in asked.description]
    expected = {row[:3]: dict(zip(columns, row, strict=True)) for row in asked.fetchall()}
    found = summed(lake, table)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        for name in ("n", "ok", "critical", "values", "cpu_runs"):
            assert found[key][name] == row[name], (key, name)
        for name in ("sum", "min", "max", "cpu_ms"):
            assert same(found[key][name], row[name], row), (key, name, found[key][name], row[name])


def same(one: float | None, other: float | None, row: dict[str, Any]) -> bool:
    """Compare two numbers but for rounding, relative to the largest value: sums of huge values may cancel out."""
    if one is None or other is None:
        return one == other
    largest = max(abs(row["min"] or 0.0), abs(row["max"] or 0.0)) * row["n"]
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other), largest)


def summed(lake: Lake, table: str) -> dict[Any, dict[str, Any]]:
    """Add up the rows that count by series, metric and bucket in plain Python."""
    opened = lake.open(table)
    assert opened is not None
    rows = opened.to_pyarrow_table()
    rows = newest(rows) if "version" in rows.schema.names else rows
    found: dict[Any, dict[str, Any]] = {}
    for row in rows.to_pylist():
        key = row["series"], row["metric"], round(row["bucket"].timestamp()) * MICROS
        into = found.setdefault(key, {})
        for name in ("n", "ok", "critical", "values", "cpu_runs", "sum", "cpu_ms", "increase"):
            if row[name] is not None:
                into[name] = into.get(name, 0) + row[name]
        for name, of in (("min", min), ("max", max)):
            if row[name] is not None:
                into[name] = of(into.get(name, row[name]), row[name])
    defaults = dict.fromkeys(("sum", "cpu_ms", "min", "max"))
    return {key: {**defaults, **row} for key, row in found.items()}


@pytest.mark.parametrize("table", ["m5", "h1", "d1"])
def test_counters_gained_what_a_walk_through_their_values_says(told: tuple[Truth, Lake], table: str) -> None:
    """Counters gain in each level as much as a walk through their values says, whatever bucket edges lie between."""
    truth, lake = told
    values: dict[str, list[tuple[float, int, float]]] = defaultdict(list)
    for (agent, check, _, sequence), result in truth.results.items():
        for metric in result["metrics"]:
            if metric["name"] == "sent" and result["origin"] != 1:
                values[f"{agent}/{check}"].append((counts_at(result), sequence, metric["value"]))
    expected = {}
    for name, each in values.items():
        steps = ((one, other) for (_, _, one), (_, _, other) in pairwise(sorted(each)))
        expected[name] = sum(other - one if other >= one else other for one, other in steps)
    known, found = names(lake), defaultdict(float)
    for (series, metric, _), row in summed(lake, table).items():
        if metric == "sent":
            found[known[series]] += row["increase"]
    assert dict(found) == pytest.approx(expected, rel=1e-9)


def midnights(zone: str) -> list[tuple[date, float, float]]:
    place = ZoneInfo(zone)
    days = [FIRST + timedelta(days=number) for number in range(1, DAYS - 1)]
    edges = [
        datetime(day.year, day.month, day.day, tzinfo=place).timestamp() for day in [*days, days[-1] + timedelta(1)]
    ]
    return [(day, edges[at], edges[at + 1]) for at, day in enumerate(days)]


def spent(truth: Truth, name: str, begin: float, end: float, profile: str) -> dict[str, float]:
    """Return the seconds of a day by account, from the true states."""
    states, found = truth.states[name], defaultdict(float)
    away = truth.silent(truth.owner[name.partition("/")[0]]) if profile == "strict" else []
    edges = sorted({begin, end, *(at for at, _ in states), *(edge for span in away for edge in span)})
    for one, other in pairwise([edge for edge in edges if begin <= edge <= end]):
        status = [status for at, status in states if at <= one][-1]
        account = ("ok", "ok" if profile == "icinga" else "bad", "bad", "unknown")[status]
        if any(gone <= one < back for gone, back in away):
            account = "no_data"
        found[account] += other - one
    return dict(found)


@pytest.mark.parametrize("profile", ["icinga", "strict"])
@pytest.mark.parametrize("zone", ZONES)
def test_days_are_accounted_for(told: tuple[Truth, Lake], zone: str, profile: str) -> None:
    """Each local day of each check is accounted for as the true states say, including days of 23, 23.5, 24.5 and 25
    hours."""
    truth, lake = told
    edges = midnights(zone)
    days = local_days(edges[0][0], edges[-1][0], zone)
    assert [(day.begin / MICROS, day.end / MICROS) for day in days] == [(begin, end) for _, begin, end in edges]
    assert zone == "UTC" or len({end - begin for _, begin, end in edges}) > 1
    series = choose(lake)
    rows = Task(plan(lake, days, series, 1), days, profile, zone).rows(0).to_pylist()
    assert len(rows) == len(days) * AGENTS * 2
    for row, (_, begin, end) in zip(rows, edges * (AGENTS * 2), strict=True):
        expected = spent(truth, "/".join(series[row["series"]]), begin, end, profile)
        found = {name: row[name] for name in ("ok", "bad", "planned", "unknown", "no_data") if row[name]}
        filled = json.loads(row["why"]).get("helen-down", 0.0)
        if "no_data" in expected:  # late results of that time say what the state was
            assert filled <= expected["no_data"] + 1e-3
            assert sum(found.values()) == pytest.approx(end - begin)
        else:
            assert found == pytest.approx(expected, abs=1e-3), (row, expected)


def test_the_lake_proves_itself_before_and_after_compaction(told: tuple[Truth, Lake]) -> None:
    """Checksums of segments and daily sums of raw results prove the lake before and after compaction."""
    _, lake = told
    assert verify_segments(lake) == []
    first, last = FIRST + timedelta(days=20), FIRST + timedelta(days=29)
    before = list(verify_days(lake, first, last))
    assert [each.faults for each in before] == [[]] * 10
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    lake.unlock()
    assert list(verify_days(lake, first, last)) == before
    assert verify_segments(lake) == []
