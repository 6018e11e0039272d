"""The history as work of a ZeroTask node, with a real broker, a real node and a real Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(sys.executable).parent
ROOT = str(Path(__file__).parents[2])
PATIENCE = 60.0

Submit = Callable[..., subprocess.CompletedProcess[str]]


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)
    return found


@pytest.fixture
def submit(history: Any, tmp_path: Path) -> Iterator[Submit]:
    """A broker, a node for this history, and the command that submits and waits."""
    path = os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"HELEN_STATE": str(history.state), "HELEN_SPARK_MASTER": "local[1]", "PYTHONPATH": path}
    run_file, log = tmp_path / "zt" / "run.json", tmp_path / "log"
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        with log.open("ab") as said:
            started.append(subprocess.Popen(words, stdout=said, stderr=said, env=environment, cwd=tmp_path))

    ends = [f"--{end}=ipc://{tmp_path}/{end[0]}" for end in ("listen", "publish")]
    start(str(BESIDE / "twistd"), "-n", "--pidfile=", "zerotask", "--state", str(run_file.parent), *ends)
    eventually(run_file.exists)
    command = [sys.executable, "-P", "-c", "from zerotask.cli import main; main()"]
    zerotask = [*command, "--broker", json.loads(run_file.read_text())["listen"]]
    start(*zerotask, "node", "--module", "helen.pipeline_tasks", "--slots", "1", "--name", "n")
    eventually(lambda: "serves pipeline.compact, pipeline.report, pipeline.run" in log.read_text())
    yield lambda *words: subprocess.run(
        [*zerotask, "submit", *words, "--wait", str(PATIENCE)],
        capture_output=True, text=True, check=False, env=environment, cwd=tmp_path,
    )  # fmt: skip
    for process in reversed(started):
        process.terminate()
        process.wait(10)


def at_work(state: Path) -> list[str]:
    """Command lines of the processes that this node has started for a task."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"HELEN_STATE={state}\0".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in found if "helen.pipeline run" in line or "java" in line]


@pytest.mark.integration
def test_a_node_takes_results_in(submit: Submit, history: Any) -> None:
    """One that is over its time limit is killed with all that it started; the next one does the work."""
    history.segment(*(history.result("web1/disk", time.time() - 60 + n) for n in range(7)))
    late = submit("pipeline.run", "--time-limit", "2.5", "--max-attempts", "1")
    assert (late.returncode, "(-32027)" in late.stderr) == (1, True), late.stderr
    eventually(lambda: not at_work(history.state))
    done = submit("pipeline.run")
    assert done.returncode == 0, done.stderr
    assert "7 results and 0 changes in" in " ".join(json.loads(done.stdout)["said"])
    assert json.loads((history.state / "history" / "lake" / "status.json").read_text())["results"] == 7
