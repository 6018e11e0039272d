"""Tests the processes as users start them: `twistd zerotask`, `zerotask node`, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zmq
from click.testing import CliRunner
from patience import Patience
from ports import free_port

from zerotask import errors
from zerotask.cli import main
from zerotask.commands.task_commands import TaskState

BESIDE = Path(sys.executable).parent
PATIENCE = 60.0
FUNCTIONS = """
import os, time
from zerotask.functions import task, Context

@task("add")
def add(a, b): return a + b

@task("slow", max_attempts=1)
def slow(seconds, context: Context):
    context.status("sleeping", seconds=seconds)
    time.sleep(seconds)
    return context.attempt

@task("dies", max_attempts=1)
def dies(): os.kill(os.getpid(), 9)
"""


def eventually(check, within=PATIENCE):
    bound = Patience(within)
    while not (found := check()):
        assert bound.lasts(), "it does not come"
        time.sleep(0.02)
    return found


class Installation:
    """Runs a broker and a node in processes of their own, and the command."""

    def __init__(self, folder):
        self.folder, self.state, self.processes = folder, folder / "state", []
        self.context, self.listen = zmq.Context(), f"tcp://127.0.0.1:{free_port()}"
        (folder / "functions.py").write_text(FUNCTIONS)
        self.broker = self.start_broker()

    def start(self, *command, cwd=None):
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd or self.folder
            )
        self.processes.append(process)
        return process

    def start_broker(self):
        ends = ["--listen", self.listen, "--publish", "tcp://127.0.0.1:0"]
        process = self.start(str(BESIDE / "twistd"), "-n", "--pidfile=", "zerotask", "--state", str(self.state), *ends)
        self.run = eventually(lambda: self.run_file(process))
        return process

    def run_file(self, process):
        assert process.poll() is None, (self.folder / "log").read_text()
        path = self.state / "run.json"
        run = json.loads(path.read_text()) if path.exists() else {}
        return run if run.get("pid") == process.pid else None

    def start_node(self, name="n", *options):
        node = [str(BESIDE / "zerotask"), "node", "--broker", self.run["listen"], "--module", "functions"]
        process = self.start(*node, "--name", name, "--slots", "2", *options)
        eventually(lambda: f"Node {name} serves add, dies, slow" in (self.folder / "log").read_text())
        return process

    def call(self, *arguments, as_operator=False):
        where = ["--state", str(self.state)] if as_operator else ["--broker", self.run["listen"]]
        command = [str(BESIDE / "zerotask"), *where, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=self.folder)

    def ask(self, socket, method, /, **params):
        """Make a call without the command, which takes a second to start; return the result, or the code
        of the error.
        """
        request = {"jsonrpc": "2.0", "method": f"zerotask.broker.{method}", "params": params, "id": 1}
        socket.send(json.dumps(request).encode())
        assert socket.poll(60_000), "no answer"
        answer = json.loads(socket.recv())
        return answer["error"]["code"] if "error" in answer else answer["result"]

    def operate(self, method, /, **params):
        with self.context.socket(zmq.REQ) as socket:
            socket.connect(self.run["control"])
            return self.ask(socket, method, **params)

    def submit(self, method, task_id, *params, **options):
        with self.context.socket(zmq.REQ) as socket:
            socket.connect(self.run["listen"])
            name = self.ask(socket, "client_connect")
            order = {"client_id": name, "method": method, "params": list(params), "task_id": task_id}
            assert self.ask(socket, "client_new_task", **order, **options) == task_id

    def end(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            process.wait(PATIENCE)
        self.context.destroy(0)


@pytest.fixture(scope="module")
def installation(tmp_path_factory):
    one = Installation(tmp_path_factory.mktemp("installation"))
    yield one
    one.end()


@pytest.fixture(scope="module")
def node(installation):
    return installation.start_node()


def said(done):
    return done.returncode, done.stdout, done.stderr


@pytest.mark.integration
def test_where_it_listens_and_who_may_operate_it(installation):
    assert set(installation.run) == {"pid", "listen", "publish", "control"}
    assert (installation.state / "control.sock").stat().st_mode & 0o777 == 0o600
    assert installation.state.stat().st_mode & 0o777 == 0o700


@pytest.mark.integration
def test_a_second_broker_on_the_folder_says_why_it_does_not_start(installation):
    command = [
        str(BESIDE / "twistd"),
        "-n",
        "--pidfile=",
        "zerotask",
        "--state",
        str(installation.state),
        "--listen",
        "tcp://127.0.0.1:0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=installation.folder)
    assert done.returncode == 1
    assert f"zerotask: {installation.state} is in use by another broker" in done.stdout + done.stderr


@pytest.mark.integration
def test_a_task_through_the_command(installation, node):
    """A submitted task runs in a child process, and its result is printed; an unknown id is exit status 3."""
    assert said(installation.call("submit", "add", "--params", "[1, 2]", "--wait", "20")) == (0, "3\n", "")
    assert installation.call("status", "none").returncode == 3
    installation.submit("dies", "dead")
    assert installation.operate("task_result", task_id="dead", wait=20) == errors.CHILD_DIED


def test_wrong_words_are_told_before_anything_is_asked():
    """Wrong words end the command with exit status 2."""
    for words, told in (
        (["submit", "add", "--params", "no json"], "not JSON"),
        (["tasks"], "for operators: `zerotask --state DIR tasks`, where DIR is the folder"),
        (["schedule", "list"], "for operators: `zerotask --state DIR schedule list`, where DIR"),
        (["tasks", "--state", "/nowhere"], "if it is a broker's folder: `zerotask --state DIR tasks`"),
        (["tasks", "--state", "runing"], "'runing' is not one of 'queued', 'assigned'"),
        (["status", "t", "--broker", "tcp://h:1"], "stands before the command: `zerotask --broker ENDPOINT status`"),
        (["--curve-key", "x", "status", "t"], "--curve-key and --broker-key belong together"),
        (["--state", "/nowhere", "nodes"], "no broker runs in /nowhere"),
    ):
        done = CliRunner().invoke(main, words, prog_name="zerotask")
        assert (done.exit_code, told in done.output) == (2, True), done.output


def test_the_states_of_a_task_need_no_newer_click():
    """The class is made without Choice[...], which click 8.1 refuses: the command would not start there."""
    assert "__orig_bases__" not in vars(TaskState)


@pytest.mark.integration
def test_a_time_limit_kills_and_a_cancelled_task_is_stopped(installation, node):
    installation.submit("slow", "late", 60, time_limit=0.3)
    assert installation.operate("task_result", task_id="late", wait=20) == errors.TIME_LIMIT
    installation.submit("slow", "long", 60)
    eventually(lambda: installation.operate("task", task_id="long")["state"] == "running")
    assert installation.call("cancel", "long", as_operator=True).stdout == "long is cancelled\n"
    done = installation.call("result", "long", as_operator=True)
    assert done.returncode == 1 and "(-32028)" in done.stderr
    assert [(one["node"], one["tasks"]) for one in installation.operate("nodes")] == [("n", [])]


@pytest.mark.integration
def test_a_broker_killed_and_started_again_has_everything(installation, node):
    """A killed broker has everything after its start, and the node comes back by itself."""
    installation.submit("slow", "later", 0, delay=2)
    installation.broker.send_signal(signal.SIGKILL)
    installation.broker.wait()
    installation.broker = installation.start_broker()
    assert installation.operate("task_result", task_id="later", wait=60) == 1


def test_a_schedule_has_the_options_of_its_tasks_and_says_when_it_is_next_due(installation):
    """A schedule keeps the options of its tasks, and tells when it is next due in its own zone (F82)."""
    options = ["--priority", "7", "--time-limit", "2m", "--max-attempts", "1", "--result-ttl", "1h", "--delay", "5s"]
    line = ["30 2 29 2 *", "add", "--params", "[1]", "--zone", "Asia/Tokyo"]
    added = installation.call("schedule", "add", "leap", *line, *options, as_operator=True)
    assert added.stdout == "leap is scheduled\n", added.stderr
    (told,) = installation.operate("schedules")
    given = {"priority": 7, "time_limit": 120.0, "max_attempts": 1, "result_ttl": 3600.0, "delay": 5.0}
    assert told["options"] == given
    listed = installation.call("schedule", "list", as_operator=True).stdout.splitlines()
    assert listed[0].split()[:4] == ["name", "line", "zone", "next"]
    assert "-02-29 02:30 JST" in listed[1]
    assert installation.operate("schedule_remove", name="leap") is True


@pytest.mark.integration
def test_a_node_may_wait_for_its_work_and_a_second_signal_ends_that(installation, node):
    """A second signal ends the wait of --stop-wait; the task is given back, and has lost no attempt (F62)."""
    process = installation.start_node("other", "--stop-wait", "1h")
    assert installation.operate("node_drain", node="n") is True
    installation.submit("slow", "deployed", 60, max_attempts=1)
    eventually(lambda: installation.operate("task", task_id="deployed")["node"] == "other")
    process.terminate()
    said = "Node other claims no more. Running calls have 3600 s to end; a further signal ends that time."
    eventually(lambda: said in (installation.folder / "log").read_text())
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert installation.operate("task", task_id="deployed")["state"] == "queued"
    assert installation.operate("task_cancel", task_id="deployed") is True
    assert installation.operate("node_drain", node="n", drain=False) is True


@pytest.mark.integration
def test_a_node_whose_output_nobody_reads_any_more_gives_its_work_back(installation, node):
    """A node that can't say that it ends gives its work back all the same: the broker need not find out that it is
    gone.
    """
    words = [str(BESIDE / "zerotask"), "node", "--broker", installation.run["listen"], "--module", "functions"]
    process = subprocess.Popen(
        [*words, "--name", "unread", "--slots", "1", "--stop-wait", "100ms"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=installation.folder,
    )  # fmt: skip
    installation.processes.append(process)
    assert process.stdout.readline() == b"Node unread serves add, dies, slow\n"
    process.stdout.close()
    assert installation.operate("node_drain", node="n") is True
    installation.submit("slow", "unread", 60, max_attempts=1)
    eventually(lambda: installation.operate("task", task_id="unread")["node"] == "unread")
    process.terminate()
    process.wait(PATIENCE)
    task = installation.operate("task", task_id="unread")
    assert (task["state"], task["node"]) == ("queued", None)
    assert installation.operate("task_cancel", task_id="unread") is True
    assert installation.operate("node_drain", node="n", drain=False) is True


@pytest.mark.parametrize("module", ["zerotask.tap", "zerotask.node.command", "zerotask.commands.broker_calls"])
def test_no_process_reads_the_wall_clock_for_its_timers(module):
    """The reactor goes by the monotonic clock once a program runs (F2)."""
    start = {
        "zerotask.tap": "",
        "zerotask.node.command": "m.react = lambda run: run(reactor); m.Deferred.fromCoroutine = lambda it: it.close();"
        "m.globalLogBeginner.beginLoggingTo = lambda *a, **n: None;"
        "m.node.main(['--module', 'x'], obj={'broker': 'tcp://127.0.0.1:1', 'security': None}, standalone_mode=False);",
        "zerotask.commands.broker_calls": "m.react = lambda run: run(reactor);"
        "m.on_reactor(lambda reactor: m.Deferred(), 'tcp://127.0.0.1:1');",
    }
    code = (
        f"import time, {module}, sys; m = sys.modules['{module}']; from twisted.internet import reactor;"
        f"{start[module]} assert reactor.seconds is time.monotonic"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.integration
def test_sigterm_is_a_good_end(installation, node):
    """SIGTERM ends the node with its children, and the broker with its run.json; this test is the last in its file."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    assert children
    for process in (node, installation.broker):
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert not (installation.state / "run.json").exists()
    assert [pid for pid in children if os.path.exists(f"/proc/{pid}")] == []
