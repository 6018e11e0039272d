"""Tests that Polars, DataFusion, DuckDB and Spark get the same sums from the tables, and no row twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars
import pytest
from deltalake import DeltaTable

from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
DAYS, RESULTS = 3, 40
SUMS = "select count(*) as c, sum(n) as n, sum(critical) as bad, sum(increase) as gained from t where metric <> ''"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, new_history: Any, take_in: Any) -> Lake:
    """Provide a lake of three days with levels brought up after each segment, and late results for the first day."""
    folder, rng = tmp_path_factory.mktemp("readers"), random.Random(9)
    helen, lake = new_history(folder / "helen"), Lake(folder / "lake")
    for turn in range(DAYS * 4):
        day = T + turn // 4 * 86_400 + turn % 4 * 1000
        late = 86_400.0 * 2 if turn == 11 else 0.0
        helen.segment(*(
            helen.result(f"web{n % 2}/net", day + n * 10, rng.choice(("ok", "critical")), started=day + n * 10 - late,
                         metrics=[{"name": "sent", "value": turn * 400.0 + n, "kind": "counter"}])
            for n in range(RESULTS // 4)
        ))  # fmt: skip
        take_in(lake, helen.state)
        lake.lock()
        cascade(None, lake)  # type: ignore[arg-type]
        lake.unlock()
    return lake


def by_polars(path: Path, spark: Any) -> tuple[Any, ...]:
    frame = polars.scan_delta(str(path))
    return polars.SQLContext(t=frame).execute(SUMS, eager=True).row(0)


def by_datafusion(path: Path, spark: Any) -> tuple[Any, ...]:
    context = datafusion.SessionContext()
    context.register_table("t", DeltaTable(str(path)))
    return tuple(context.sql(SUMS).to_pylist()[0].values())


def by_duckdb(path: Path, spark: Any) -> tuple[Any, ...]:
    files = DeltaTable(str(path)).file_uris()
    return duckdb.execute(SUMS.replace("from t", f"from read_parquet({files})")).fetchall()[0]  # type: ignore[no-any-return]


def by_spark(path: Path, spark: Any) -> tuple[Any, ...]:
    spark.read.parquet(*DeltaTable(str(path)).file_uris()).createOrReplaceTempView("t")
    return tuple(spark.sql(SUMS).collect()[0])


READERS: dict[str, Callable[[Path, Any], tuple[Any, ...]]] = {
    "polars": by_polars, "datafusion": by_datafusion, "duckdb": by_duckdb, "spark": by_spark,
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_readers_agree(lake: Lake, spark: Any, name: str) -> None:
    """Each reader gets the same sums over m5, h1 and d1, without a row twice."""
    rows = lake.rows("m5")
    expected = (
        sum(row["n"] for row in rows if row["metric"]),
        sum(row["critical"] for row in rows if row["metric"]),
        sum(row["increase"] for row in rows if row["metric"]),
    )
    assert expected[0] == DAYS * RESULTS
    found = {level: READERS[name](lake.path(level), spark) for level in lake.levels}
    for level, (_, n, bad, gained) in found.items():
        assert (level, int(n), int(bad), round(gained, 6)) == (level, *expected[:2], round(expected[2], 6))
    assert found["d1"][0] == 2 * DAYS
