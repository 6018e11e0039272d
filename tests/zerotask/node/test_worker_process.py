"""Tests the process in which a node's functions run: its frames, what goes wrong in it, and its end with the node's."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zerotask import errors
from zerotask.node import worker_process

PATIENCE = 60.0  # seconds for a process on a busy machine
MODULE = """
import os, subprocess, sys, time
from zerotask.functions import task, Context
from zerotask.errors import TaskFailed
from zerotask.node.programs import run_program

@task("add", max_attempts=7)
def add(a, b=1): return a + b

@task()
def who(context: Context):
    context.status("half", done=[1])
    return [context.task_id, context.attempt, os.getpid()]

@task()
def raises(): raise ValueError("no")

@task()
def fails(): raise TaskFailed(12, "for good", {"x": 1}, retry=False)

@task()
def no_json(): return object()

@task()
def no_number(text): return eval(text)

@task()
def prints(): print("words"); return 1

@task()
def dies(): os._exit(3)

@task()
def sleeps(pidfile):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    open(pidfile, "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(60)

@task()
def program(pidfile, context: Context):
    run_program(["sh", "-c", f"echo {os.getpid()} $$ > {pidfile}; exec sleep 60"], context, 10)
"""


START = """
import os, runpy, sys
os.dup2(int(sys.argv.pop(1)), 3)
runpy.run_module("zerotask.node.worker_process", run_name="__main__")
"""


class Child:
    """Runs `python -m zerotask.node.worker_process`, and speaks to it by hand."""

    def __init__(self, folder):
        (folder / "jobs.py").write_text(MODULE)
        self.answers, theirs = os.pipe()
        command = [sys.executable, "-P", "-c", START, str(theirs), "--module", "jobs"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=folder, pass_fds=[theirs])
        os.close(theirs)
        self.functions = self.heard()["functions"]

    def ask(self, method, *params, id="t"):
        self.give(method, *params, id=id)
        return self.heard()

    def give(self, method, *params, id="t"):
        text = json.dumps({"id": id, "method": method, "params": list(params), "attempt": 1}).encode()
        self.process.stdin.write(struct.pack(">I", len(text)) + text)
        self.process.stdin.flush()

    def heard(self):
        (size,) = struct.unpack(">I", self._read(4))
        return json.loads(self._read(size))

    def _read(self, size):
        data = b""
        while len(data) < size:
            more = os.read(self.answers, size - len(data))
            assert more, "the child has ended"
            data += more
        return data

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        os.close(self.answers)


@pytest.fixture
def child(tmp_path):
    one = Child(tmp_path)
    yield one
    one.end()


def gone(pid, within=PATIENCE):
    """Say whether a process ends; a zombie that nobody has waited for has ended."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_a_child_tells_what_it_serves_and_works_one_after_another(child):
    assert child.functions["add"] == {"max_attempts": 7} and child.functions["who"] == {}
    assert child.ask("add", 2, 3) == {"result": 5}
    assert child.ask("prints") == {"result": 1}
    assert child.ask("who", id="t7") == {"status": "half", "detail": {"done": [1]}}
    assert child.heard() == {"result": ["t7", 1, child.process.pid]}


def test_what_goes_wrong_is_an_error_with_a_code(child):
    raised = child.ask("raises")
    assert (raised["error"]["code"], raised["error"]["message"], raised["retry"]) == (-32000, "ValueError: no", True)
    assert "ValueError: no" in raised["error"]["data"]["traceback"]
    assert child.ask("fails") == {"error": {"code": 12, "message": "for good", "data": {"x": 1}}, "retry": False}
    assert child.ask("no_json")["error"]["code"] == errors.FUNCTION_RAISED
    assert child.ask("nothing")["error"]["code"] == errors.UNKNOWN_METHOD
    assert child.ask("add", 1) == {"result": 2}


NO_NUMBERS = [
    "float('nan')",
    "[1.0, {'a': (2, -float('inf'))}]",
    "__import__('dataclasses').make_dataclass('D', ['a'])(float('inf'))",
    "[None, float('nan')]",
]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_result_with_nan_or_infinity_is_no_json(child, text):
    """A result with NaN or infinity fails the task and does not become null, which would be another result (F79)."""
    told = child.ask("no_number", text)
    assert (told["error"]["code"], told["retry"]) == (errors.FUNCTION_RAISED, False)
    assert told["error"]["message"].startswith("the result is not JSON")
    assert child.ask("no_number", "[None, 1.5, 'null']") == {"result": [None, 1.5, "null"]}


def test_when_the_node_ends_so_does_work_with_all_it_started(child, tmp_path):
    own, started = begun(child, "sleeps", tmp_path)
    child.process.stdin.close()
    assert gone(own) and gone(started)
    assert child.process.wait(PATIENCE) == -signal.SIGKILL


def test_a_program_dies_with_the_process_that_runs_it(child, tmp_path):
    """A program ends with its process, also if that is killed alone and can do nothing about it."""
    own, started = begun(child, "program", tmp_path)
    os.kill(own, signal.SIGKILL)
    assert gone(started)


def begun(child, method, folder):
    """Begin work that goes on, and return the process of the function and the one that it has started."""
    pidfile = folder / "pids"
    child.give(method, str(pidfile))
    deadline = time.monotonic() + PATIENCE
    while not (pidfile.exists() and " " in pidfile.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return map(int, pidfile.read_text().split())


class NarrowPipe:
    """Takes no more than three bytes at once, as a pipe that is nearly full."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def write(self, frame: memoryview) -> int:
        self.taken += frame[:3]
        return min(len(frame), 3)


def test_an_answer_is_written_whole_whatever_a_pipe_takes_at_once() -> None:
    pipe = NarrowPipe()
    worker_process._put(pipe, {"result": "abcdefg"})  # type: ignore[arg-type]
    (size,) = worker_process.HEAD.unpack_from(pipe.taken)
    assert json.loads(pipe.taken[worker_process.HEAD.size :]) == {"result": "abcdefg"}
    assert len(pipe.taken) == worker_process.HEAD.size + size


@pytest.mark.parametrize(("value", "said"), [
    ("x" * 8, None), ("x" * 9, "a result of 11 bytes, more than 10; store it elsewhere and return where it is"),
    (object(), "the result is not JSON: "), (float("nan"), "the result is not JSON: "),
    ({(1, 2): 3}, "the result is not JSON: "),
])  # fmt: skip
def test_a_result_that_cannot_be_told(value: object, said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that is no JSON or too long fails the task without a retry, as another try would come to the same."""
    monkeypatch.setattr(worker_process, "MAX_BODY", 10)
    if said is None:
        assert worker_process._encoded(value) == b'"xxxxxxxx"'
        return
    with pytest.raises(errors.TaskFailed) as caught:
        worker_process._encoded(value)
    assert (caught.value.code, caught.value.retry) == (errors.FUNCTION_RAISED, False)
    assert caught.value.message.startswith(said)
