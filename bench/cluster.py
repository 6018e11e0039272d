"""Compares the pipeline's work on a cluster with the same work on one machine: CPU, and wall by the tasks' own times.

    python bench/cluster.py [--workers 4] [--millions 1 2 4 8] [--cores 2] [--inputs DIR]

It makes one history (the fleet of bench/lake.py); of each size its first segments are taken in twice, into lakes of
their own: by `local[CORES]` with `--engine spark`, and by a cluster of `deploy/spark/cluster.py` with so many workers
of one core. Then hours and days follow, and the results are put together. Both are started once, before the first size,
and warm up with five segments for each worker. They take turns: a batch of 400,000 results here, the same one there. So
what else the machine does is the same for both. With `--inputs` the segments stay there for the next run.

CPU is that of all processes, the master and the workers included. It is split by process, and the JVMs' compilers are
told apart: what they do depends on the code, not on the results. From several sizes a straight line gives the CPU of a
step that is always the same, and that of each result.

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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from attrs import field, frozen
from cluster_cpu import KINDS, Look, used_between
from cluster_work import STEPS, WARM
from lake import SEGMENT, Fleet, History

from helen.pipeline.ingest.offsets import PER_TASK

ROOT = Path(__file__).resolve().parents[1]
AGENTS, CHECKS = 400, 50
NOBODY = -1  # is the number of no process
PYTHON = {"PYTHONPATH": str(ROOT)}


@frozen
class Step:
    """Holds what one step took: CPU and wall seconds, those of its tasks by stage, the CPU by kind of process."""

    cpu: float
    wall: float
    stages: list[list[float]]
    kinds: Mapping[str, float] = field(factory=dict)

    def wall_on(self, workers: int, cores: int) -> float:
        """Return the seconds on the clock with so many workers of one core, by the tasks' own times.

        The driver's own work is the rest of the time on the clock, when `cores` had shared the tasks.
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


def stages_within(events: Path, times: Sequence[tuple[float, float]]) -> list[list[float]]:
    """Return the seconds of the tasks launched in some times (Unix seconds), by stage, of a log of Spark's events."""
    found: dict[int, list[float]] = defaultdict(list)
    for line in events.read_text().splitlines():
        if '"SparkListenerTaskEnd"' in line:
            event = json.loads(line)
            task = event["Task Info"]
            if any(begin <= task["Launch Time"] / 1000 < end for begin, end in times):
                found[event["Stage ID"]].append((task["Finish Time"] - task["Launch Time"]) / 1000)
    return [tasks for _, tasks in sorted(found.items())]


class Way:
    """Runs bench/cluster_work.py on one kind of Spark, a piece at a time."""

    def __init__(self, master: str, folder: Path, sizes: Sequence[str], others: Sequence[int] = ()) -> None:
        """Make it ready to begin; `others` are processes whose CPU counts as well."""
        self._events, self._others = folder / "events", others
        self._words = [sys.executable, str(Path(__file__).with_name("cluster_work.py")), master, str(folder), *sizes]
        self._process: subprocess.Popen[str] | None = None
        self._pieces: list[tuple[str, Look, Look]] = []

    def turn(self) -> str | None:
        """Let it do the next piece, and return of which step it was; None: it has ended."""
        before = Look.at_trees(self._roots())
        if self._process is None:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | PYTHON
            )
        else:
            assert self._process.stdin is not None
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        assert self._process.stdout is not None
        step = self._process.stdout.readline().strip()
        if not step:
            if self._process.wait():
                raise SystemExit(f"{self._words} ended with {self._process.returncode}")
            return None
        self._pieces.append((step, before, Look.at_trees(self._roots())))
        return step

    def taken(self) -> dict[str, Step]:
        """Return what the steps since the last call took, by name."""
        log, found = next(self._events.iterdir()), {}
        for name in STEPS:
            pieces = [(before, after) for step, before, after in self._pieces if step == name]
            kinds = {kind: sum(used_between(*each)[kind] for each in pieces) for kind in KINDS}
            times = [(before.at, after.at) for before, after in pieces]
            wall = sum(end - begin for begin, end in times)
            found[name] = Step(sum(kinds.values()), wall, stages_within(log, times), kinds)
        self._pieces.clear()
        return found

    def end(self) -> None:
        """End the process, if it has not."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _roots(self) -> list[int]:
        return [*self._others, *([self._process.pid] if self._process is not None else [])] or [NOBODY]


def make_inputs(folder: Path, segments: int) -> None:
    """Make a history of so many segments, unless it is there."""
    if len(list((folder / "segments").glob("seg-*"))) < segments:
        shutil.rmtree(folder, ignore_errors=True)
        fleet = Fleet(AGENTS, CHECKS)
        history = History(folder, fleet)
        for _ in range(segments):
            history.add(fleet.take(SEGMENT))


def link_history(inputs: Path, folder: Path, segments: int) -> None:
    """Make a history of the first segments, by hard links: what the pipeline writes there is its own."""
    (folder / "segments").mkdir(parents=True)
    os.link(inputs / "series.parquet", folder / "series.parquet")
    for segment in sorted((inputs / "segments").iterdir())[:segments]:
        os.link(segment, folder / "segments" / segment.name)


@contextmanager
def cluster_of(workers: int) -> Iterator[tuple[str, int]]:
    """Start a cluster, and give its address and its process until the block ends."""
    words = [sys.executable, str(ROOT / "deploy" / "spark" / "cluster.py"), "--workers", str(workers)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | PYTHON) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()


def show(millions: float, local: Mapping[str, Step], there: Mapping[str, Step], workers: int, cores: int) -> None:
    """Print what the steps took in both ways."""
    rows = round(millions * 1e6 / SEGMENT) * SEGMENT
    print(f"{rows:,} results, load {os.getloadavg()[0]:.1f}")
    print(f"  {'':22}{'CPU, us a result':>28}{'wall, s':>20}{'wall by the tasks, s':>24}")
    print(f"  {'':22}{'local':>9}{f'{workers} workers':>11}{'ratio':>8}{'local':>10}{'workers':>10}{'workers':>24}")
    for name, one in local.items():
        other = there[name]
        ratio = other.cpu / max(one.cpu, 0.01)  # of a few results there is nothing to put together
        print(f"  {name:22}{one.cpu / rows * 1e6:9.2f}{other.cpu / rows * 1e6:11.2f}{ratio:8.2f}"
              f"{one.wall:10.2f}{other.wall:10.2f}{one.wall_on(workers, cores):24.2f}")  # fmt: skip
    print(f"  {'CPU s by process':34}" + "".join(f"{kind:>18}" for kind in KINDS))
    for name in local:
        for way, step in (("local", local[name]), ("workers", there[name])):
            print(f"  {name:22}{way:12}" + "".join(f"{step.kinds[kind]:18.2f}" for kind in KINDS), flush=True)


def line_through(rows: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Return the CPU seconds that are always there, the microseconds of each result, and the worst error (0.1: 10 %).

    Least squares of the relative errors: the largest size doesn't decide alone.
    """
    x, y = np.array(rows), np.array(seconds)
    fixed, each = np.linalg.lstsq(np.stack([1 / y, x / y], axis=1), np.ones(len(x)), rcond=None)[0]
    return float(fixed), float(each * 1e6), float(np.abs((fixed + each * x) / y - 1).max())


def show_lines(sizes: Sequence[float], found: Sequence[Sequence[Mapping[str, Step]]]) -> None:
    """Print for each step what is always there, and what each result costs."""
    print(f"{'CPU = fixed + each':24}{'local: s':>12}{'us a result':>14}{'error':>8}"
          f"{'workers: s':>14}{'us a result':>14}{'error':>8}{'ratio of each':>16}")  # fmt: skip
    rows, work = [millions * 1e6 for millions in sizes], STEPS[1:]
    for name, chosen in [*((name, [name]) for name in work), ("all three", work)]:
        (fixed, each, error), (more, also, wrong) = (
            line_through(rows, [sum(ways[way][step].cpu for step in chosen) for ways in found]) for way in (0, 1)
        )
        print(f"{name:24}{fixed:12.2f}{each:14.2f}{error:8.0%}{more:14.2f}{also:14.2f}{wrong:8.0%}{also / each:16.2f}")


def compare(folder: Path, inputs: Path, sizes: Sequence[float], workers: int, cores: int) -> None:
    """Do the same work in both ways, and print what each step took."""
    names = [f"{millions:g}" for millions in sizes]
    for way in ("local", "cluster"):
        link_history(inputs, folder / way / "warm", PER_TASK * workers)
        for name, millions in zip(names, sizes, strict=True):
            link_history(inputs, folder / way / name, round(millions * 1e6 / SEGMENT))
    found: list[list[dict[str, Step]]] = []
    with cluster_of(workers) as (master, daemons):
        ways = [
            Way(f"local[{cores}]", folder / "local", names), Way(master, folder / "cluster", names, [daemons]),
        ]  # fmt: skip
        try:
            while (step := [way.turn() for way in ways])[0] is not None:
                if step[0] == WARM:
                    show(PER_TASK * workers * SEGMENT / 1e6, *_of(ways, [WARM]), workers, cores)
                elif step[0] == STEPS[-1]:
                    found.append(_of(ways, STEPS[1:]))
                    show(sizes[len(found) - 1], *found[-1], workers, cores)
        finally:
            for way in ways:
                way.end()
    if len(found) > 1:
        show_lines(sizes, found)


def _of(ways: Iterable[Way], names: Iterable[str]) -> list[dict[str, Step]]:
    return [{name: taken[name] for name in names} for taken in (way.taken() for way in ways)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="of the local run")
    parser.add_argument("--millions", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    parser.add_argument("--inputs", type=Path, help="folder for the segments, which stay there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lake-cluster-", dir=options.inputs and options.inputs.parent) as name:
        inputs = options.inputs or Path(name) / "inputs"
        make_inputs(inputs, max(PER_TASK * options.workers, round(max(options.millions) * 1e6 / SEGMENT)))
        compare(Path(name), inputs, options.millions, options.workers, options.cores)


if __name__ == "__main__":
    main()
