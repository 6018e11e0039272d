"""Tests the same jobs on a cluster: a master and two workers of pip's pyspark, with an executor each.

One executor dies in the middle of a task, after the task has written its files. The numbers are those that one process
comes to.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.reports.availability import availability, choose
from helen.pipeline.rollup.following import cascade
from helen.pipeline.spark import PARTITIONS

ROOT = Path(__file__).parents[3]
T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
SEGMENTS = 12  # three tasks for two executors
SECONDS = 400.0  # for six JVMs on a very busy machine; on a quiet one it takes 40
JOBS = """
import json, os, signal, sys, time
from datetime import date
from pathlib import Path
from helen.pipeline.ingest import batch, task
from helen.pipeline.reports.availability import availability, choose
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.lake.lake import Lake
from helen.pipeline.spark import start_spark

master, state, folder, scratch, quick = sys.argv[1:]
died = os.path.join(scratch, "died")

class Deadly(task.Task):
    # The first of all tasks ends its executor, when its files are written and before Spark has its answer.
    def __call__(self, batches):
        answer = list(super().__call__(batches))
        try:
            os.close(os.open(died, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return iter(answer)
        daemon = open(f"/proc/{os.getppid()}/stat").read()
        os.kill(int(daemon[daemon.rindex(")") + 2:].split()[1]), signal.SIGKILL)
        time.sleep(60)

batch.Task = Deadly
spark = start_spark("cluster", master, json.loads(quick), Path(scratch))
lake = Lake(Path(folder))
Driver(spark, lake, [Path(state)], Settings(once=True, keep={})).run()
days = local_days(date(2026, 9, 22), date(2026, 9, 22), "UTC")
rows = availability(spark, lake, days, "strict", "UTC", choose(lake))
print(json.dumps({"rows": rows, "partitions": spark.conf.get("spark.sql.shuffle.partitions")}, default=str))
spark.stop()
"""


def some_history(helen: Any) -> None:
    """Write four checks with a counter, some results late and some bad."""
    rng, total = random.Random(2), 0.0
    for segment in range(SEGMENTS):
        records = []
        for n in range(30):
            total = 0.0 if rng.random() < 0.05 else total + rng.randrange(9)
            ended = T + (segment * 30 + n) * 60
            late = rng.choice((0.0, 0.0, 0.0, 5000.0))
            metrics = [{"name": "sent", "value": total, "kind": "counter"}, {"name": "load", "value": rng.random()}]
            status = rng.choice(("ok", "ok", "critical"))
            records.append(
                helen.result(f"web{n % 4}/disk", ended + late, status, metrics=metrics, started=ended, took_ms=2.5)
            )
        helen.segment(*records, helen.change("link", ended, "web1", event="up"))


def run_on_cluster(state: Path, lake: Path, scratch: Path, quick: dict[str, str]) -> Any:
    """Run JOBS on a cluster of its own and return their answer; the cluster has ended afterwards."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, str(ROOT / "deploy" / "spark" / "cluster.py"), "--workers", "2", "--cores", "3"]
    words += ["--memory", "512m"]
    log = scratch / "jobs.log"
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as cluster:
        try:
            assert cluster.stdout is not None
            master = cluster.stdout.readline().strip()
            assert master.startswith("spark://127.0.0.1:"), master
            more = {
                "spark.executor.memory": "512m",
                "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            }
            jobs = [sys.executable, "-c", JOBS, master, str(state), str(lake), str(scratch), json.dumps(quick | more)]
            with open(log, "wb") as errors:
                done = subprocess.run(
                    jobs, stdout=subprocess.PIPE, stderr=errors, env=environment, check=False, timeout=SECONDS
                )
        finally:
            cluster.terminate()
    assert done.returncode == 0, log.read_text()
    return json.loads(done.stdout)


def same(one: Any, other: Any) -> bool:
    """Compare two values, floats to 1e-9, since sums depend on the order of adding."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def rows(lake: Lake, table: str, key: tuple[str, ...]) -> list[dict[str, Any]]:
    found = sorted(lake.rows(table), key=lambda row: [row[name] for name in key])
    return [{name: value for name, value in row.items() if name != "version"} for row in found]


@pytest.mark.long
def test_the_same_numbers_on_a_cluster(
    spark: Any, quick: dict[str, str], history: Any, take_in: Any, tmp_path: Path
) -> None:
    """A cluster gives the same results, changes, hours, days and availability, although an executor is killed."""
    some_history(history)
    here, there = Lake(tmp_path / "here"), Lake(tmp_path / "there")
    take_in(here, history.state)
    here.lock()
    cascade(spark, here)
    here.unlock()
    days = local_days(date(2026, 9, 22), date(2026, 9, 22), "UTC")
    expected = availability(spark, here, days, "strict", "UTC", choose(here))
    (history.folder / "committed").unlink()
    unset = {name: value for name, value in quick.items() if name != PARTITIONS}
    answer = run_on_cluster(history.state, there.folder, tmp_path, unset)
    assert (tmp_path / "died").exists()
    assert answer["rows"] == json.loads(json.dumps(expected, default=str))
    assert int(answer["partitions"]) in (3, 6)  # cores of one executor, or of both if both were there by then
    for table, key in (("results", ("at",)), ("changes", ("at",)), ("h1", ("series", "metric", "bucket")),
                       ("d1", ("series", "metric", "bucket"))):  # fmt: skip
        ours, theirs = rows(here, table, key), rows(there, table, key)
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs, strict=True):
            assert [name for name in one if not same(one[name], other[name])] == []
