"""Tests that Spark's workers and this process do the same work by the same tasks, with equal results."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helen.pipeline import engine
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.engine import AUTO, SETTING, SPARK, run_parts, works_here
from helen.pipeline.ingest import batch
from helen.pipeline.lake.lake import Lake
from helen.pipeline.reports.sql_views import view
from helen.pipeline.rollup.rebuild import rebuild
from helen.pipeline.upkeep import compact

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
TABLES = ("results", "m5", "h1", "d1", "segments", "series", "changes")


def with_settings(**settings: str) -> Any:
    """Stands for a Spark with these settings."""
    found = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, usual: found.get(name, usual)))


HERE: dict[str, tuple[Any, bool]] = {
    "this machine": (with_settings(spark_master="local[*]"), True),
    "switched off": (with_settings(spark_master="local[*]", spark_helen_engine=SPARK), False),
    "a cluster": (with_settings(spark_master="spark://host:7077"), False),
    "a cluster, asked for": (with_settings(spark_master="yarn", spark_helen_engine=AUTO), False),
    "Kubernetes": (with_settings(spark_master="k8s://https://host:6443"), False),
}


@pytest.mark.parametrize("name", HERE)
def test_where_little_work_is_done(name: str) -> None:
    spark, here = HERE[name]
    assert works_here(spark) is here


def some(helen: Any, day: float) -> None:
    """Write segments of counters, and changes, from a day on."""
    rng = random.Random(int(day))
    for number in range(3):
        begin = T + day * 86_400 + number * 900
        helen.segment(
            *(helen.result(f"web{n % 3}/net", begin + n * 10, rng.choice(("ok", "critical")), took_ms=rng.random(),
                           metrics=[{"name": "sent", "value": number * 600.0 + n, "kind": "counter"}])
              for n in range(60)),
            helen.change("transition", begin, "web1/net", at=begin, now={"status": "ok"}, was={}),
        )  # fmt: skip


def made_by(spark: Any, history: Any, lake: Lake, way: str) -> dict[str, list[str]]:
    """Take two days in, compact, and sum one of them up again; return what counts, but for names of files."""
    spark.conf.set(SETTING, way)
    try:
        settings = Settings(once=True, upkeep=False)
        for day in range(2):
            some(history, day)
            Driver(spark, lake, [history.state], settings).run()
            (history.folder / "pipeline-lake").unlink()  # a second lake of one history is refused
        lake.lock()
        compact(spark, lake, all_days=True)
        rebuild(spark, lake, "m5", [next(file.day for file in lake.files("m5") if file.day is not None)])
        lake.unlock()
    finally:
        spark.conf.unset(SETTING)
    found = {}
    for name in TABLES:
        frame = view(spark, lake, name)
        rows = frame.drop("version").toArrow().to_pylist()
        found[name] = sorted(str(row) for row in rows)
        assert found[name]
    return found


def test_both_ways_make_the_same(spark: Any, new_history: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local way and Spark's way make the same rows in all tables, and each way is really taken."""
    found, ran = {}, []
    real = engine.run_parts

    def counted(spark: Any, task: Any, parts: int, rows: int, most: int) -> Any:
        ran.append(works_here(spark) and rows <= most)
        return real(spark, task, parts, rows, most)

    for module in ("job", "rebuild", "sorting"):
        monkeypatch.setattr(f"helen.pipeline.rollup.{module}.run_parts", counted)
    for way in (AUTO, SPARK):
        history = new_history(tmp_path / way)
        found[way] = made_by(spark, history, Lake(tmp_path / way / "lake"), way)
        assert ran and set(ran) == {way == AUTO}
        ran.clear()
    assert found[AUTO] == found[SPARK]


def test_a_sink_that_may_not_read_hands_everything_out(history: Any, tmp_path: Path) -> None:
    """A sink that may not read segments itself hands even one small segment to the workers."""
    history.segment(history.result("web1/disk", T))
    lake = Lake(tmp_path / "lake")
    lake.lock()
    names = batch.SeriesNames(lake)
    numbered = names.number([batch.histories.open_history(history.state)])
    done = {table: dict.fromkeys(numbered, 0) for table in batch.IN_ORDER}
    looked = [batch.Sink(lake, names, numbered, here=here)._little(done) for here in (True, False)]
    lake.unlock()
    assert looked[0] is not None and looked[0].num_rows == 1
    assert looked[1] is None


def test_parts_are_handed_out_where_there_is_much(spark: Any) -> None:
    """Parts with more rows than the limit go to Spark, and others are run in this process."""
    with pytest.raises(AssertionError):
        run_parts(None, lambda batches: iter(()), 1, 11, 10)
    assert run_parts(None, lambda batches: iter(()), 1, 10, 10) == []
