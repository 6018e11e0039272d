"""Tests the history as work of a ZeroTask node: a real broker, a real node, and the JVM of each task."""

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

ROOT = str(Path(__file__).parents[3])
COMMAND = (sys.executable, "-P", "-c", "from zerotask.cli import main; main()")
PATIENCE = 120.0

Say = Callable[..., subprocess.CompletedProcess[str]]


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)
    return found


@pytest.fixture
def say(history: Any, tmp_path: Path) -> Iterator[Say]:
    """Provide a broker, a node for this history, and the command `zerotask` as its operator."""
    path = os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"HELEN_STATE": str(history.state), "PYTHONPATH": path}
    run_file, log = tmp_path / "zt" / "run.json", tmp_path / "log"
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        with log.open("ab") as said:
            started.append(subprocess.Popen(words, stdout=said, stderr=said, env=environment, cwd=tmp_path))

    twistd = (str(Path(sys.executable).parent / "twistd"), "-n", "--pidfile=")
    ends = [f"--{end}=ipc://{tmp_path}/{end[0]}" for end in ("listen", "publish")]
    start(*twistd, "zerotask", "--state", str(run_file.parent), *ends)
    eventually(run_file.exists)
    broker = json.loads(run_file.read_text())["listen"]
    start(*COMMAND, "--broker", broker, "node", "--module", "helen.jobs.pipeline_tasks", "--slots", "1", "--name", "n")
    eventually(lambda: "serves pipeline.compact, pipeline.report, pipeline.run" in log.read_text())

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        where = ("--broker", broker) if words[0] == "submit" else ("--state", str(run_file.parent))
        command = [*COMMAND, *where, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)

    yield call
    for process in reversed(started):
        process.terminate()
        process.wait(30)


def at_work(state: Path) -> list[str]:
    """Return the programs that a task of this node has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"HELEN_STATE={state}\0".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in found if "java" in line or "helen.pipeline " in line or "pyspark" in line]


@pytest.mark.integration
def test_a_task_has_a_spark_of_its_own(say: Say, history: Any) -> None:
    """A task has a Spark of its own: a failure has the task's words, and a cancelled one leaves no JVM."""
    params = json.dumps({"report": "cost", "names": ["web7/x"]})
    unknown = say("submit", "pipeline.report", "--params", params, "--max-attempts", "1", "--wait", "60")
    assert (unknown.returncode, "The lake knows no web7/x" in unknown.stderr) == (1, True), unknown.stderr
    assert say("submit", "pipeline.run", "--task-id", "t").stdout == "t\n"
    eventually(lambda: any("java" in line for line in at_work(history.state)))
    assert say("cancel", "t").stdout == "t is cancelled\n"
    eventually(lambda: not at_work(history.state))
    assert "(-32028)" in say("result", "t").stderr
