"""Compares the pipeline's work on a cluster with the same work on one machine: CPU, and wall by the tasks' own times.

    python bench/cluster.py [--workers 4] [--millions 1 2] [--cores 2]

For each size it makes one history (the fleet of bench/lake.py) and takes it in twice, each into a lake of its own: by
`local[CORES]` with `--engine spark`, and by a cluster of `deploy/spark/cluster.py` with so many workers of one core.
Then hours and days follow, and the results are put together. CPU is that of all processes, the master and the workers
included, after a warm-up of five segments for each worker.

All workers are on this machine. If it has fewer processors than there are workers, they wait for each other, so the
time on the clock says nothing about a cluster. Beside it stands what the tasks' own times come to: those that each task
took in the local run, laid out over the workers, longest first, stage by stage, and what the driver does alone in
between.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from lake import SEGMENT, Fleet, History, cpu_between, look_at_tree

from helen.pipeline.driver import Driver, Settings
from helen.pipeline.engine import SETTING, SPARK
from helen.pipeline.ingest.offsets import PER_TASK
from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade
from helen.pipeline.spark import start_spark
from helen.pipeline.upkeep import gather

ROOT = Path(__file__).resolve().parents[1]
AGENTS, CHECKS = 400, 50
STEPS = ("results taken in", "hours and days", "results put together")
EVENTS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@frozen
class Step:
    """Holds what one step took: seconds of CPU and on the clock, and the seconds of its tasks by stage."""

    cpu: float
    wall: float
    stages: list[list[float]]

    def wall_on(self, workers: int, cores: int) -> float:
        """Return the seconds on the clock with so many workers of one core, by the tasks' own times.

        What the driver does alone is what is left of the time on the clock, when `cores` had shared the tasks.
        """
        tasks = [(makespan(stage, cores), makespan(stage, workers)) for stage in self.stages]
        return max(0.0, self.wall - sum(had for had, _ in tasks)) + sum(has for _, has in tasks)


def makespan(tasks: Iterable[float], workers: int) -> float:
    """Return when the last task has ended, if the longest are begun first, each on the worker that is free first."""
    free = [0.0] * workers
    for seconds in sorted(tasks, reverse=True):
        place = free.index(min(free))
        free[place] += seconds
    return max(free)


def stages_between(events: Path, begin: float, end: float) -> list[list[float]]:
    """Return the seconds of the tasks launched in a time (Unix seconds), by stage, of a log of Spark's events."""
    found: dict[int, list[float]] = defaultdict(list)
    for line in events.read_text().splitlines():
        if '"SparkListenerTaskEnd"' in line:
            event = json.loads(line)
            task = event["Task Info"]
            if begin <= task["Launch Time"] / 1000 < end:
                found[event["Stage ID"]].append((task["Finish Time"] - task["Launch Time"]) / 1000)
    return [tasks for _, tasks in sorted(found.items())]


def work(master: str, folder: Path) -> None:
    """Do the steps in this process, and say on standard output when each begins and ends."""
    events = folder / "events"
    events.mkdir()
    settings = EVENTS | {
        "spark.eventLog.dir": f"file://{events}",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
    }
    spark = start_spark("bench", master, settings, folder / "scratch")
    spark.conf.set(SETTING, SPARK)
    warm, lake = Lake(folder / "warm-lake"), Lake(folder / "lake")
    Driver(spark, warm, [folder.parent / "warm" / "history"], Settings(once=True, upkeep=False)).run()
    driver = Driver(spark, lake, [folder.parent / "helen" / "history"], Settings(once=True, upkeep=False))
    with told():
        driver.run()
    lake.lock()
    with told():
        cascade(spark, lake)
    with told():
        gather(spark, lake, 0, all_days=True, tables=["results"])
    lake.unlock()
    spark.stop()


@contextmanager
def told() -> Iterator[None]:
    """Say that a step begins and ends, and wait until that was heard."""
    print("step", flush=True)
    sys.stdin.readline()
    yield
    print("step", flush=True)
    sys.stdin.readline()


def measure(master: str, folder: Path) -> list[Step]:
    """Run `work` in a process of its own, and return what each step took."""
    folder.mkdir()
    marks = []
    words = [sys.executable, __file__, "--work", master, str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in process.stdout:
            if line == "step\n":
                marks.append((look_at_tree(), time.time()))
                process.stdin.write("\n")
                process.stdin.flush()
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}")
    log = next((folder / "events").iterdir())
    return [
        Step(cpu_between(tree, later), then - now, stages_between(log, now, then))
        for (tree, now), (later, then) in zip(marks[::2], marks[1::2], strict=True)
    ]


@contextmanager
def cluster_of(workers: int) -> Iterator[str]:
    """Start a cluster, and give its address until the block ends."""
    words = [sys.executable, str(ROOT / "deploy" / "spark" / "cluster.py"), "--workers", str(workers)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def compare(folder: Path, millions: float, workers: int, cores: int) -> None:
    """Do the same work in both ways, and print what each step took."""
    fleet, segments = Fleet(AGENTS, CHECKS), round(millions * 1e6 / SEGMENT)
    warm, history = History(folder / "warm" / "history", fleet), History(folder / "helen" / "history", fleet)
    for _ in range(PER_TASK * workers):
        warm.add(fleet.take(SEGMENT))
    for _ in range(segments):
        history.add(fleet.take(SEGMENT))
    load = os.getloadavg()[0]
    local = measure(f"local[{cores}]", folder / "local")
    for each in (warm, history):
        for claimed in ("committed", "committed-changes", "pipeline-lake"):
            (each.folder / claimed).unlink(missing_ok=True)
    with cluster_of(workers) as master:
        there = measure(master, folder / "cluster")
    rows = segments * SEGMENT
    print(f"{rows:,} results, load {load:.1f} before, {os.getloadavg()[0]:.1f} after", flush=True)
    print(f"  {'':22}{'CPU, us a result':>28}{'wall, s':>20}{'wall by the tasks, s':>24}")
    print(f"  {'':22}{'local':>9}{f'{workers} workers':>11}{'ratio':>8}{'local':>10}{'workers':>10}{'workers':>24}")
    for name, one, other in zip(STEPS, local, there, strict=True):
        print(f"  {name:22}{one.cpu / rows * 1e6:9.2f}{other.cpu / rows * 1e6:11.2f}{other.cpu / one.cpu:8.2f}"
              f"{one.wall:10.2f}{other.wall:10.2f}{one.wall_on(workers, cores):24.2f}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="of the local run")
    parser.add_argument("--millions", type=float, nargs="+", default=[1.0, 2.0])
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work[0], Path(options.work[1]))
        return
    for millions in options.millions:
        folder = Path(tempfile.mkdtemp(prefix="lake-cluster-"))
        try:
            compare(folder, millions, options.workers, options.cores)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
