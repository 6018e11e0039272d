"""Tests a writer that is killed with SIGKILL at each named point: the lake stays exact, and nothing is half there.

Kills of the pipeline with a stand-in for the stream, at named points and at any time; one of the real thing: Spark's
JVM, its workers and the driver at once. Then Helen and the pipeline in turn, on one history. That of an executor in the
middle of a task is in test_cluster.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from helen.journal.journal import Journal
from helen.pipeline.ingest.batch import POINTS
from helen.pipeline.lake.lake import Lake

T = 1_790_000_000.0
ROWS = 40
PLAIN_KILLS = (
    "begun:1", "named:1", "written:1", "m5-published:1", "results-published:1", "changes-published:1",
    "m5-published:1", "results-published:2", "committed:1", "written:2", "m5-published:2", "changes-published:1",
    "begun:2", "committed:2", "segments-published:1", "segments-published:2",
)  # fmt: skip
SPARK_KILL = "m5-published:2"
# Where Helen dies (a step of its journal, the how-manieth time), and where the pipeline dies after it.
# Of a segment that is there the first: a busy machine writes thirty groups before it seals one.
BOTH_KILLS = (("segment-renamed>wal-written", 30, "written:1"), ("segment-renamed", 2, "m5-published:1"),
              ("changes-renamed", 1, "results-published:1"))  # fmt: skip
VICTIM = Path(__file__).parents[2] / "stages" / "journal_victim.py"
RANDOM_KILLS = int(os.environ.get("HELEN_PIPELINE_KILLS", "10"))
ROUNDS = int(os.environ.get("HELEN_PIPELINE_ROUNDS", "1"))  # of those at named points; 8 are 200 kills
CHILD = """
import os, signal, sys, threading
from pathlib import Path
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.lake.lake import Lake
from helen.pipeline.spark import start_spark

state, lake, scratch, wanted = sys.argv[1:]
point, _, times = wanted.partition(":")
left = [int(times or 0)]

def reached(name):
    if name == point:
        left[0] -= 1
        if not left[0]:
            os.killpg(0, signal.SIGKILL)

quick = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
spark = start_spark("killed", "local[2]", quick, Path(scratch))
ending = threading.Event()

def say(line):
    if line.endswith(" 0 segments behind"):
        ending.set()

settings = Settings(trigger=0.1, upkeep=False, max_segments=1)
Driver(spark, Lake(Path(lake)), [Path(state)], settings, say, reached).run(ending)
spark.stop()
"""


def environment() -> dict[str, str]:
    root = str(Path(__file__).parents[3])
    return os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module")
def plainly() -> Iterator[Callable[[Lake, Path, str], int]]:
    """Return a function that takes a history into a lake in a child that dies at a named point, and returns its exit
    status."""
    program = [sys.executable, str(Path(__file__).parents[2] / "stages" / "plainly.py")]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as server:  # fmt: skip
        assert server.stdin is not None and server.stdout is not None
        given, answers = server.stdin, server.stdout

        def run(lake: Lake, state: Path, where: str) -> int:
            given.write(json.dumps([str(lake.folder), str(state), where]) + "\n")
            given.flush()
            return int(answers.readline())

        yield run
        given.close()


def run_spark(state: Path, lake: Lake, scratch: Path, wanted: str) -> int:
    """Run a child with Spark and return its exit status; a kill ends it with all that it started."""
    words = [sys.executable, "-c", CHILD, str(state), str(lake.folder), str(scratch), wanted]
    with open(scratch / "log", "ab") as log:
        return subprocess.run(
            words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env=environment(),
            check=False,
        ).returncode  # fmt: skip


def write(history: Any, segments: int, first: int = 0) -> None:
    for segment in range(first, first + segments):
        rows = [history.result(f"web{n % 5}/disk", T + segment * 60 + n, took_ms=1.0) for n in range(ROWS)]
        history.segment(*rows, history.change("link", T + segment * 60, "web1", event="up"))


@contextmanager
def watched(lake: Lake) -> Iterator[None]:
    """Poll the lake while the block runs, and check that no part of a batch was ever seen."""
    seen: set[int] = set()
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(0.1):
            seen.add(len(lake.rows("results")))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()
    assert all(count % ROWS == 0 for count in seen)


def check_lake(history: Any, lake: Lake, segments: int) -> None:
    """Check that everything is there once, that Helen is told, and that a sweep leaves only named files."""
    everything = range(1, segments * (ROWS + 1) + 1)
    assert sorted(row["at"] for row in lake.rows("results")) == [n for n in everything if n % (ROWS + 1)]
    assert sum(row["n"] for row in lake.rows("m5") if row["metric"] == "") == segments * ROWS
    assert len(lake.rows("changes")) == segments
    listed = [(row["segment"], row["rows"], row["dropped"], row["state"]) for row in lake.rows("segments")]
    assert sorted(listed) == [(number, ROWS, 0, "sound") for number in range(1, segments + 1)]
    assert (history.folder / "committed").read_text() == f"{segments}\n"
    lake.lock()
    lake.sweep("results", 0)
    named = {file.path for file in lake.files("results")}
    assert {str(path.relative_to(lake.path("results"))) for path in lake.path("results").glob("day=*/*")} == named
    assert len(lake.rows("results")) == segments * ROWS
    lake.unlock()


@pytest.mark.adversary(69)
def test_kills_lose_nothing_and_double_nothing(history: Any, plainly: Any, tmp_path: Path) -> None:
    """A kill at each named point leaves exact results, sums and changes at the end, and whole batches at any time."""
    assert {kill.partition(":")[0] for kill in PLAIN_KILLS} == {*POINTS, "committed"}
    lake = Lake(tmp_path / "lake")
    with watched(lake):
        for number, kill in enumerate(PLAIN_KILLS * ROUNDS):
            write(history, 2, number * 2)
            assert plainly(lake, history.state, kill) == -signal.SIGKILL, kill
        assert plainly(lake, history.state, "") == 0
    check_lake(history, lake, len(PLAIN_KILLS) * ROUNDS * 2)


@pytest.mark.adversary(69)
@pytest.mark.long
def test_kills_at_any_time(history: Any, plainly: Any, tmp_path: Path) -> None:
    """Kills at random times leave an exact lake; HELEN_PIPELINE_KILLS asks for more of them by hand."""
    lake, segments, rng = Lake(tmp_path / "lake"), 0, random.Random()
    with watched(lake):
        for _ in range(RANDOM_KILLS):
            write(history, 3, segments)
            segments += 3
            status = plainly(lake, history.state, f"{rng.uniform(0.02, 0.6):.3f}")
            assert status in (-signal.SIGALRM, 0)
        assert plainly(lake, history.state, "") == 0
    check_lake(history, lake, segments)


@pytest.mark.adversary(69)
def test_so_it_is_with_the_jvm_and_its_workers(history: Any, tmp_path: Path) -> None:
    """Kills of driver, JVM and workers at once leave an exact lake, with Spark between segments and lake."""
    lake, segments = Lake(tmp_path / "lake"), 4 * ROUNDS
    with watched(lake):
        for first in range(0, segments, 4):
            write(history, 4, first)
            status = run_spark(history.state, lake, tmp_path, SPARK_KILL)
            assert status == -signal.SIGKILL, (tmp_path / "log").read_text()
        assert run_spark(history.state, lake, tmp_path, "") == 0, (tmp_path / "log").read_text()
    check_lake(history, lake, segments)


def test_helen_and_the_pipeline_die_in_turn(plainly: Any, tmp_path: Path) -> None:
    """Helen and the pipeline die in turn on one history, and the lake has each row of its segments once."""
    state, lake = tmp_path / "helen", Lake(tmp_path / "lake")
    state.mkdir()
    for seed, (step, count, kill) in enumerate(BOTH_KILLS * ROUNDS):
        words = [sys.executable, str(VICTIM), str(state), str(seed), step, str(count)]
        assert subprocess.run(words, stdout=subprocess.DEVNULL, check=False, timeout=60).returncode == -signal.SIGKILL
        assert plainly(lake, state, kill) == -signal.SIGKILL
    journal = Journal(state / "journal", state / "history", lambda call, *rest: call(*rest), id, id)
    journal.open()  # as at its next start: what was acknowledged and in no segment yet is sealed
    journal.close()
    assert plainly(lake, state, "") == 0
    for kind, table in (("seg", "results"), ("chg", "changes")):
        paths = sorted((state / "history" / "segments").glob(f"{kind}-*.parquet"))
        written = [at for path in paths for at in pq.read_table(path, columns=["at"])["at"].to_pylist()]
        assert sorted(row["at"] for row in lake.rows(table)) == sorted(written)
        assert len(written) >= 3
