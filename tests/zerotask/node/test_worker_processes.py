"""Tests the node's side of the processes in which functions run: their ends are told at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.process import reapAllProcesses

from zerotask import errors
from zerotask.node.worker_processes import Work, WorkerProcesses

MODULE = """
import os, signal, sys, time
from zerotask.functions import task

@task()
def add(a, b): return a + b

def _fork(leaves):
    if os.fork() == 0:
        if leaves:
            os.setsid()
        time.sleep(120)
        os._exit(0)

@task()
def forks_and_dies(leaves, how):
    _fork(leaves)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)

@task()
def forks_and_answers(leaves):
    _fork(leaves)
    return "well"
"""


class Node:
    """Runs the processes of a node on a reactor turned by hand."""

    def __init__(self, folder: Path) -> None:
        (folder / "forking.py").write_text(MODULE)
        self.reactor = EPollReactor()
        self.reactor.startRunning(installSignalHandlers=False)
        self.processes = WorkerProcesses(self.reactor, ["forking"], False)
        assert "add" in self.result(self.processes.load())

    def result(self, deferred, within=60.0):
        outcome, deadline = [], time.monotonic() + within
        deferred.addBoth(outcome.append)
        while not outcome:
            assert time.monotonic() < deadline, "it does not end"
            self.reactor.iterate(0.01)
            reapAllProcesses()
        return outcome[0]

    def run(self, method, *params, within=60.0):
        work = Work("t", method, list(params), 1, 60.0)
        return self.result(self.processes.run(work, lambda status, detail: None), within)


@pytest.fixture
def node(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = Node(tmp_path)
    yield one
    one.result(one.processes.stop())
    one.reactor.stop()
    one.reactor.iterate(0)


@pytest.mark.parametrize("leaves", [False, True], ids=["in the group", "in a session of its own"])
@pytest.mark.parametrize("how, reason", [("killed", "signal 9"), ("exits", "exit code 3")])
def test_the_death_of_a_process_is_told_at_once_whatever_it_has_forked(node, leaves, how, reason):
    """A process that the dead one leaves behind holds its pipes open, and not its task (F80)."""
    begun = time.monotonic()
    failure = node.run("forks_and_dies", leaves, how)
    assert failure.value.code == errors.CHILD_DIED and reason in failure.value.message
    assert time.monotonic() - begun < 90.0
    assert node.run("add", 1, 2) == 3


@pytest.mark.parametrize("leaves", [False, True])
def test_what_a_function_leaves_behind_costs_its_answer_nothing(node, leaves):
    assert node.run("forks_and_answers", leaves) == "well"
    assert node.run("add", 3, 4) == 7
