"""The pipeline is killed (SIGKILL, JVM and workers included) at each of its points; what is in the lake stays exact.

One process tree for each kill: it ingests with one segment a batch and ends itself at the point it was told. Meanwhile
a reader polls the lake: it never sees a part of a batch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from helen.pipeline.ingest import POINTS
from helen.pipeline.lake import Lake

T = 1_790_000_000.0
ROWS = 40
SEGMENTS = 12
KILLS = (
    "begun:1", "named:1", "written:1", "m5-published:1", "results-published:1", "changes-published:1",
    "m5-published:2", "results-published:2", "written:3", "m5-published:4",
)  # fmt: skip
CHILD = """
import os, signal, sys
from pathlib import Path
from helen.pipeline.driver import Driver, Settings
from helen.pipeline.lake import Lake
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
settings = Settings(once=True, upkeep=False, max_segments=1)
Driver(spark, Lake(Path(lake)), [Path(state)], settings, reached=reached).run()
spark.stop()
"""


def run_child(history: Any, lake: Path, scratch: Path, wanted: str) -> int:
    words = [sys.executable, "-c", CHILD, str(history.state), str(lake), str(scratch), wanted]
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    with open(scratch / "log", "ab") as log:
        return subprocess.run(
            words,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
            check=False,
        ).returncode


def test_ten_kills_lose_nothing_and_double_nothing(history: Any, tmp_path: Path) -> None:
    """Counts of results, sums and changes are exact at the end, and whole batches at any time before."""
    assert {kill.partition(":")[0] for kill in KILLS} == set(POINTS)
    scratch, lake = tmp_path / "scratch", Lake(tmp_path / "lake")
    scratch.mkdir()
    for segment in range(SEGMENTS):
        rows = [history.result(f"web{n % 5}/disk", T + segment * 60 + n, took_ms=1.0) for n in range(ROWS)]
        history.segment(*rows, history.change("link", T + segment * 60, "web1", event="up"))
    seen: set[int] = set()
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(0.3):
            seen.add(len(lake.rows("results")))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for kill in KILLS:
            assert run_child(history, lake.folder, scratch, kill) == -signal.SIGKILL, (scratch / "log").read_text()
        assert run_child(history, lake.folder, scratch, "") == 0, (scratch / "log").read_text()
    finally:
        stop.set()
        reader.join()
    results = lake.rows("results")
    assert sorted(row["at"] for row in results) == [n for n in range(1, SEGMENTS * (ROWS + 1) + 1) if n % (ROWS + 1)]
    assert sum(row["n"] for row in lake.rows("m5") if row["metric"] == "") == SEGMENTS * ROWS
    assert len(lake.rows("changes")) == SEGMENTS
    assert (history.folder / "committed").read_text() == f"{SEGMENTS}\n"
    assert all(count % ROWS == 0 for count in seen)
    lake.lock()
    lake.sweep("results", 0)
    named = {file.path for file in lake.files("results")}
    assert {str(path.relative_to(lake.path("results"))) for path in lake.path("results").glob("day=*/*")} == named
    assert len(lake.rows("results")) == SEGMENTS * ROWS
