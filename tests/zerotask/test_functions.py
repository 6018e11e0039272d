"""Functions of a node: how they are found and called, and the process in which they run."""

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
from zerotask.errors import TaskFailed
from zerotask.functions import Context, LoadError, load, perform, task

MODULE = """
import os, subprocess, sys, time
from zerotask.functions import task, Context
from zerotask.errors import TaskFailed
from zerotask.programs import run_program

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


def test_parameters_by_position_and_by_name_and_the_context():
    said = []
    context = Context("t", 2, lambda status, detail: said.append((status, detail)))

    @task("f")
    def function(a, b, context):
        context.status("x", y=a)
        return a - b, context.task_id, context.attempt

    served = {"f": None}
    from_mark = load.__globals__["_one"](function)
    assert from_mark.keys() == served.keys()
    assert perform(from_mark["f"], [3, 1], context) == (2, "t", 2)
    assert perform(from_mark["f"], {"b": 5, "a": 4}, context) == (-1, "t", 2)
    assert said == [("x", {"y": 3}), ("x", {"y": 4})]
    for wrong in ([1], [1, 2, 3, 4], {"a": 1, "c": 2}):
        with pytest.raises(TaskFailed) as failure:
            perform(from_mark["f"], wrong, context)
        assert (failure.value.code, failure.value.retry) == (errors.INVALID_PARAMS, False)


def test_marks_are_checked_where_they_are_made():
    with pytest.raises(Exception, match="priority has to be"):
        task("f", priority=11)
    with pytest.raises(Exception, match="1 to 256 characters"):
        task("x" * 257)(lambda: None)


def test_modules_that_serve_nothing_are_refused():
    for modules, words in (
        (["json"], "no function marked"),
        (["no.such.module"], "cannot be imported"),
        ([], "nothing to serve"),
    ):
        with pytest.raises(LoadError, match=words):
            load(modules, with_entry_points=False)


START = """
import os, runpy, sys
os.dup2(int(sys.argv.pop(1)), 3)
runpy.run_module("zerotask.child", run_name="__main__")
"""


class Child:
    """`python -m zerotask.child`, spoken to by hand."""

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
        self.process.wait(10)
        os.close(self.answers)


@pytest.fixture
def child(tmp_path):
    one = Child(tmp_path)
    yield one
    one.end()


def gone(pid, within=5.0):
    """Whether a process ends; a zombie that nobody has waited for has ended."""
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


def test_when_the_node_ends_so_does_work_with_all_it_started(child, tmp_path):
    own, started = begun(child, "sleeps", tmp_path)
    child.process.stdin.close()
    assert gone(own) and gone(started)
    assert child.process.wait(10) == -signal.SIGKILL


def test_a_program_dies_with_the_process_that_runs_it(child, tmp_path):
    """Also where that is killed alone and can do nothing about it."""
    own, started = begun(child, "program", tmp_path)
    os.kill(own, signal.SIGKILL)
    assert gone(started)


def begun(child, method, folder):
    """Work that goes on: the process of the function, and what that has started."""
    pidfile = folder / "pids"
    child.give(method, str(pidfile))
    deadline = time.monotonic() + 10
    while not (pidfile.exists() and " " in pidfile.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return map(int, pidfile.read_text().split())
