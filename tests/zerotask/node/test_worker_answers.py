"""Tests the node's side of its worker processes without processes: what is written, what answers mean,
and all limits.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import LoadError
from zerotask.node import worker_processes as module
from zerotask.node.worker_processes import HEAD, Work, WorkerProcesses

WORK = Work("t", "add", [1, 2], 3, 9.0)


class Child:
    """Stands for a process and its transport."""

    def __init__(self, stage: Stage, pid: int) -> None:
        self.stage, self.pid = stage, pid
        self.written: list[Any] = []
        self.closed: list[int] = []
        self.is_lost = False

    def writeToChild(self, descriptor: int, text: bytes) -> None:
        (size,) = HEAD.unpack_from(text)
        assert (descriptor, len(text)) == (0, HEAD.size + size)
        self.written.append(msgspec.json.decode(text[HEAD.size :]))

    def closeChildFD(self, descriptor: int) -> None:
        self.closed.append(descriptor)

    def loseConnection(self) -> None:
        self.is_lost = True

    def say(self, **message: Any) -> None:
        text = msgspec.json.encode(message)
        for byte in HEAD.pack(len(text)) + text:  # a pipe may cut anywhere
            self.protocol.childDataReceived(module.ANSWERS, bytes([byte]))

    def die(self) -> None:
        self.protocol.processExited(Failure(RuntimeError("exit 3")))
        self.protocol.processEnded(Failure(RuntimeError("exit 3")))


class Stage(Clock):
    """Is a reactor that notes the processes, and holds the processes of a node on it."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, modules: Any = ("one", "two"), entry_points: bool = False
    ) -> None:
        super().__init__()
        self.children: list[Child] = []
        self.commands: list[Any] = []
        self.killed: list[Any] = []
        self.outcomes: list[Any] = []
        monkeypatch.setattr(module.os, "kill", lambda pid, number: self.killed.append((pid, number)))
        monkeypatch.setattr(module.os, "killpg", lambda pid, number: self.killed.append((-pid, number)))
        self.processes = WorkerProcesses(self, list(modules), entry_points)

    def spawnProcess(self, protocol: Any, program: str, command: list[str], env: Any, childFDs: Any) -> None:
        child = Child(self, 100 + len(self.children))
        self.children.append(child)
        self.commands.append((program, command, childFDs))
        child.protocol = protocol  # type: ignore[attr-defined]
        protocol.transport = child
        protocol.connectionMade()

    def run(self, work: Work = WORK, tell: Any = lambda status, detail: None) -> None:
        done = self.processes.run(work, tell)
        done.addCallbacks(self.outcomes.append, lambda failure: self.outcomes.append(failure.value))

    def loaded(self) -> Child:
        """Return a process that has loaded its functions."""
        self.processes.load().addErrback(lambda failure: None)
        self.children[-1].say(functions={"add": {}})
        return self.children[-1]

    def came(self) -> Any:
        [outcome] = self.outcomes
        self.outcomes.clear()
        if isinstance(outcome, TaskFailed):
            return outcome.code, outcome.message, outcome.data, outcome.retry
        return outcome


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


@pytest.mark.parametrize("entry_points", [True, False])
def test_a_process_is_told_what_to_load(monkeypatch: pytest.MonkeyPatch, entry_points: bool) -> None:
    stage, loaded = Stage(monkeypatch, entry_points=entry_points), []  # type: ignore[var-annotated]
    stage.processes.load().addCallback(loaded.append)
    [(program, command, descriptors)] = stage.commands
    words = ["-P", "-m", "zerotask.node.worker_process", "--module", "one", "--module", "two"]
    assert command == [program, *words, *["--entry-points"] * entry_points]
    assert descriptors == {0: "w", 1: 2, 2: 2, module.ANSWERS: "r"}
    stage.children[0].say(functions={"add": {"priority": 9}})
    assert loaded == [{"add": {"priority": 9}}]


@pytest.mark.parametrize("how, message", [
    ({"trouble": "no module"}, "no module"),
    (None, "the process that loads the functions ended; its own output is above"),
])  # fmt: skip
def test_functions_that_cannot_be_loaded_are_told_once(stage: Stage, how: Any, message: str) -> None:
    failures: list[Any] = []
    stage.processes.load().addErrback(lambda failure: failures.append(failure.value))
    if how is not None:
        stage.children[0].say(**how)
    stage.children[0].die()
    assert [(type(each), str(each)) for each in failures] == [(LoadError, message)]


def test_a_task_from_its_start_to_its_result(stage: Stage) -> None:
    child, told = stage.loaded(), []  # type: ignore[var-annotated]
    stage.run(tell=lambda *status: told.append(status))
    assert child.written == [{"id": "t", "method": "add", "params": [1, 2], "attempt": 3}]
    child.say(status="half", detail={"x": 1})
    child.say(result=3)
    child.say(status="late", detail={})
    assert told == [("half", {"x": 1})] and stage.came() == 3 and stage.getDelayedCalls() == []
    stage.run()
    assert len(stage.children) == 1
    child.say()
    assert stage.came() is None


@pytest.mark.parametrize("more", [{}, {"data": [1]}])
@pytest.mark.parametrize("retry", [True, False])
def test_an_error_is_told_as_it_is(stage: Stage, more: dict[str, Any], retry: bool) -> None:
    child = stage.loaded()
    stage.run()
    child.say(error={"code": 7, "message": "no"} | more, retry=retry)
    assert stage.came() == (7, "no", more.get("data"), retry)


def test_two_tasks_have_two_processes_and_an_idle_one_is_used_again(stage: Stage) -> None:
    first = stage.loaded()
    stage.run()
    stage.run(Work("u", "add", [], 1, 9.0))
    assert len(stage.children) == 2 and stage.processes._idle == []
    first.say(result=1)
    assert stage.came() == 1
    stage.run(Work("v", "add", [], 1, 9.0))
    assert len(stage.children) == 2 and [piece["id"] for piece in first.written] == ["t", "v"]


def test_a_process_that_ends_while_it_is_idle_is_used_no_more(stage: Stage) -> None:
    child = stage.loaded()
    child.die()
    assert stage.processes._idle == [] and stage.processes._all == set()
    stage.run()
    assert len(stage.children) == 2


def test_a_process_is_replaced_after_its_calls(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALLS", 2)
    child = stage.loaded()
    for used, closed in ((1, []), (2, [0])):
        stage.run()
        child.say(result=used)
        assert (stage.came(), child.closed, len(stage.processes._idle)) == (used, closed, 2 - used)
    child.protocol.retire()
    assert child.closed == [0]
    stage.run()
    assert len(stage.children) == 2


# ------------------------------------------------------------------------------------------ limits


def test_functions_have_a_minute_to_load_and_the_limit_begins_after_that(stage: Stage) -> None:
    stage.run()
    stage.advance(59.9)
    assert stage.killed == []
    stage.children[0].say(functions={"add": {}})
    stage.advance(8.9)
    assert stage.killed == []
    stage.advance(0.2)
    assert stage.killed == [(-100, 9), (100, 9)]
    stage.children[0].die()
    message = "no end within the time limit of 9 s; its process was killed"
    assert stage.came() == (errors.TIME_LIMIT, message, None, True)


def test_functions_that_are_not_loaded_in_time_fail_the_task(stage: Stage) -> None:
    stage.run()
    stage.advance(60.0)
    stage.children[0].die()
    assert stage.came() == (errors.TIME_LIMIT, "its functions were not loaded within 60 s", None, True)


@pytest.mark.parametrize("limit, seconds", [(5.0, 5.0), (1e9, 2_000_000.0)])
def test_a_limit_is_at_most_the_longest_of_a_timer(stage: Stage, limit: float, seconds: float) -> None:
    stage.loaded()
    stage.run(Work("t", "add", [], 1, limit))
    assert [call.getTime() for call in stage.getDelayedCalls()] == [seconds]


# -------------------------------------------------------------------------------------------- ends


def test_a_cancelled_task_is_not_tried_again(stage: Stage) -> None:
    child = stage.loaded()
    stage.run()
    stage.processes.cancel("unknown")
    assert stage.killed == []
    for _ in range(2):
        stage.processes.cancel("t")
    assert stage.killed == [(-100, 9), (100, 9)]
    child.die()
    assert stage.came() == (errors.CANCELLED, "cancelled on request", None, False)
    assert stage.processes._busy == {} and stage.processes._idle == []


def test_a_process_that_dies_fails_its_task_at_once(stage: Stage) -> None:
    """The dead process's group is killed, and its pipes are closed half a second later if others hold them."""
    child = stage.loaded()
    stage.run()
    child.protocol.processExited(Failure(RuntimeError("exit 3")))
    assert stage.killed == [(-100, 9)] and stage.outcomes == [] and not child.is_lost
    stage.advance(0.4)
    assert not child.is_lost
    stage.advance(0.1)
    assert child.is_lost and child.closed == [0, module.ANSWERS]
    child.protocol.processEnded(Failure(RuntimeError("exit 3")))
    assert stage.came() == (errors.CHILD_DIED, "its process ended before it answered: exit 3", None, True)
    assert stage.processes._idle == [] and stage.processes._all == set() and stage.getDelayedCalls() == []


def test_an_answer_of_a_process_that_is_dead_is_the_last(stage: Stage) -> None:
    child = stage.loaded()
    stage.run()
    child.protocol.processExited(Failure(RuntimeError("exit 0")))
    child.say(result=5)
    assert stage.came() == 5 and stage.processes._idle == []


@pytest.mark.parametrize("more, kills", [(0, False), (1, True)])
def test_what_is_no_answer_ends_the_process(stage: Stage, more: int, kills: bool) -> None:
    child = stage.loaded()
    stage.run()
    child.protocol.childDataReceived(module.ANSWERS, HEAD.pack(2 * module.MAX_TEXT + more))
    assert bool(stage.killed) is kills
    if kills:
        child.die()
        message = "its process wrote something that is no answer"
        assert stage.came() == (errors.CHILD_DIED, message, None, False)


def test_two_answers_in_one_read_are_two(stage: Stage) -> None:
    child, told = stage.loaded(), []  # type: ignore[var-annotated]
    stage.run(tell=lambda *status: told.append(status))
    texts = [msgspec.json.encode({"status": "s", "detail": {}}), msgspec.json.encode({"result": 1})]
    child.protocol.childDataReceived(module.ANSWERS, b"".join(HEAD.pack(len(text)) + text for text in texts))
    assert told == [("s", {})] and stage.came() == 1


def test_stopping_kills_all_and_waits_for_their_ends(stage: Stage) -> None:
    stage.loaded()
    stage.run()
    stage.run(Work("u", "add", [], 1, 9.0))
    ended: list[Any] = []
    stage.processes.stop().addCallback(ended.append)
    assert {pid for pid, _ in stage.killed} == {-100, 100, -101, 101}
    stage.children[0].die()
    assert ended == []
    stage.children[1].die()
    assert len(ended) == 1 and [each.message for each in stage.outcomes] == ["the node is stopping"] * 2


def test_a_process_that_is_gone_already_is_no_fault(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    stage.loaded()
    stage.run()
    monkeypatch.setattr(module.os, "kill", gone)
    monkeypatch.setattr(module.os, "killpg", gone)
    stage.processes.cancel("t")
    stage.children[0].protocol.transport = SimpleNamespace(pid=None)
    stage.children[0].protocol.kill(TaskFailed(7, "again"))
    stage.children[0].die()
    assert stage.came()[0] == errors.CANCELLED
