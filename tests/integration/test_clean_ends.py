"""Servers and agents that are ended, as processes: no socket, pid file or temporary file stays, and no lock is held."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helen_running import EQUUS, TWISTD, Program, Running, pulse, wait_until

from groundwork.file_lock import FileLock

pytestmark = pytest.mark.integration
SIGNALS = [signal.SIGTERM, signal.SIGINT]
# Names of files that are of a running process only: of SQLite, of writes that have not ended, and where it listens.
OF_A_RUN = re.compile(r"(run\.json|.*\.pid|.*-wal|.*-shm|.*-journal|.*\.(new|tmp|part|unfinished)|\.?tmp.*)")
NODE = [sys.executable, "-c", "from zerotask.cli import main; main(prog_name='zerotask')"]
FUNCTIONS = "from zerotask.functions import task\n\n@task('add')\ndef add(a, b): return a + b\n"


def left_in(folder: Path) -> list[str]:
    """Return the files that only a running process has, and the locks that are held still."""
    found = [path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()]
    of_runs = [path for path in found if is_of_a_run(path)]
    for path in found:
        if path.name == "lock":
            FileLock(path).release()  # raises LockHeld if somebody has it
    return sorted(str(path.relative_to(folder)) for path in of_runs)


def is_of_a_run(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or OF_A_RUN.fullmatch(path.name) is not None


def words_of(kind: str, folder: Path) -> tuple[list[str], Path]:
    """Return the command of a server in this folder, with the pid file that twistd has by default, and its run.json."""
    state, twistd = folder / "state", [*TWISTD, "-n"]
    (folder / "broker.json").write_text(json.dumps({"identity": "b1", "frontend_port": 0, "backend_port": 0}))
    (folder / "checks").mkdir()
    ends = ["--listen", f"ipc://{folder}/t.sock", "--publish", f"ipc://{folder}/p.sock"]
    hub = ["--listen", "127.0.0.1:0", "--web", "127.0.0.1:0", "--name", "localhost", "--checks", str(folder / "checks")]
    hub += ["--embed-zerotask", "--embed-scale0", str(folder / "broker.json")]
    options = {"zerotask": ends, "scale0": ["--config", str(folder / "broker.json")], "helen": hub}[kind]
    return [*twistd, kind, "--state", str(state), *options], state / "run.json"


def temporary(folder: Path) -> dict[str, str]:
    """Make a folder for temporary files, and return the variable that names it."""
    (folder / "temporary").mkdir(exist_ok=True)
    return {"TMPDIR": str(folder / "temporary")}


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("kind", ["zerotask", "scale0", "helen"])
def test_a_server_leaves_nothing_of_its_run(tmp_path: Path, kind: str, number: signal.Signals) -> None:
    """Helen has both brokers in its process. A server that runs has a pid file and run.json, most a socket."""
    words, run = words_of(kind, tmp_path)
    server = Program(words, tmp_path / "log", temporary(tmp_path), cwd=tmp_path)
    try:
        wait_until(lambda: server.process.poll() is not None or run.exists(), "run.json")
        before = left_in_a_run(tmp_path)
        assert {"twistd.pid", "state/run.json"} <= before, server.said
        assert (kind == "scale0") is not any(name.endswith(".sock") for name in before)
        server.process.send_signal(number)
        server.wait()
        assert left_in(tmp_path) == [], server.said
        assert list((tmp_path / "temporary").iterdir()) == []
    finally:
        server.end()


def left_in_a_run(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if is_of_a_run(path)}


@pytest.fixture(scope="module")
def helen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Start a Helen with a check, for agents."""
    folder = tmp_path_factory.mktemp("helen")
    (folder / "checks").mkdir()
    (folder / "checks" / "pulse.lua").write_text(pulse())
    running = Running(folder)
    try:
        yield running.up()
    finally:
        running.end()


@contextlib.contextmanager
def an_agent(helen: Running, folder: Path, *options: str) -> Iterator[Program]:
    """Start an agent that enrols under the name of its folder."""
    token = helen.client.post("/api/v1/tokens", {"agent": folder.name})["token"]
    words = [*EQUUS, "--server", helen.run["agents"], "--state", str(folder / "state"), "--join", token]
    agent = Program([*words, "--name", folder.name, *options], folder / "log", temporary(folder), cwd=folder)
    try:
        yield agent
    finally:
        agent.end()


@pytest.mark.parametrize("number", SIGNALS)
def test_an_agent_leaves_nothing_of_its_run(helen: Running, tmp_path: Path, number: signal.Signals) -> None:
    """With results in its spool, and processes of its sandbox."""
    folder = tmp_path / f"agent-{number.name.lower()}"
    folder.mkdir()
    with an_agent(helen, folder) as agent:
        wait_until(lambda: has_results(helen, folder.name), "result of the agent")
        agent.process.send_signal(number)
        agent.wait()
        assert left_in(folder) == [], agent.said
        assert list((folder / "temporary").iterdir()) == []


def has_results(helen: Running, name: str) -> bool:
    return any(each["agent"] == name for each in helen.client.get("/api/v1/results")["results"])


def test_an_agent_that_ends_by_itself_leaves_nothing(helen: Running, tmp_path: Path) -> None:
    """With --once: it enrols, connects, and ends with status 0."""
    folder = tmp_path / "agent-once"
    folder.mkdir()
    with an_agent(helen, folder, "--once") as agent:
        assert agent.wait() == 0, agent.said
        assert left_in(folder) == []
        assert list((folder / "temporary").iterdir()) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_node_leaves_nothing_of_its_run(tmp_path: Path, number: signal.Signals) -> None:
    """The node's folder has the functions alone, before and after."""
    place, folder = tmp_path / "broker", tmp_path / "node"
    for each in (place, folder):
        each.mkdir()
    (folder / "functions.py").write_text(FUNCTIONS)
    broker = Program(words_of("zerotask", place)[0], tmp_path / "broker.log", cwd=place)
    words = [*NODE, "--broker", f"ipc://{place}/t.sock", "node", "--module", "functions", "--name", "n"]
    extra = temporary(folder) | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    node = Program(words, folder / "log", extra, cwd=folder)
    try:
        wait_until(lambda: node.process.poll() is not None or "Node n serves add" in node.said, "node")
        node.process.send_signal(number)
        assert node.wait() == 0, node.said
        assert sorted(path.name for path in folder.iterdir()) == ["functions.py", "log", "temporary"]
        assert list((folder / "temporary").iterdir()) == []
    finally:
        node.end()
        broker.end()
