"""Tests a node against a broker that is played by hand: what it claims, reports and gives back, call by call."""

from __future__ import annotations

from typing import Any

import pytest
from rpc_stage import BrokerLine
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.node import node as module
from zerotask.node.node import Node
from zerotask.wire import methods

GIVEN = {"method": "m", "params": [1], "attempt": 2, "time_limit": 9.0, "client": "c", "key": "K"}


class Stage:
    """Holds a node with its line; work ends when a case says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slots: int = 2) -> None:
        monkeypatch.setattr(module.random, "random", lambda: 1.0)  # each pause has its whole length
        self.line = BrokerLine()
        self.work: list[Any] = []
        self.running: dict[str, Deferred[Any]] = {}
        self.cancelled: list[str] = []
        self.connected: list[bool] = []
        self.node = Node(self.line, self.line.clock, "n", {"m": {}}, self._run, self._cancel, slots)
        self.node.on_connected.subscribe(lambda: self.connected.append(True))
        self.node.start()

    def _run(self, work: Any, tell: Any) -> Deferred[Any]:
        self.work.append(work)
        self.tell = tell
        self.running[work.id] = Deferred()
        return self.running[work.id]

    def _cancel(self, task_id: str) -> None:
        self.cancelled.append(task_id)

    def join(self) -> None:
        self.line.connect()
        self.line.answer("node_connect")

    def offer(self, *tasks: str) -> None:
        for task in tasks:
            self.line.notify(methods.NEW_TASK, ["m", task])

    def begin(self, *tasks: str) -> None:
        """Offer tasks that are claimed at once."""
        self.offer(*tasks)
        for task in tasks:
            self.line.answer("node_task_request", GIVEN | {"id": task})

    def end(self, task: str, outcome: Any = 42) -> None:
        done = self.running.pop(task)
        (done.errback if isinstance(outcome, Exception) else done.callback)(outcome)
        self.line.turn()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_task_from_its_offer_to_its_report(stage: Stage) -> None:
    assert stage.node.trouble == "the broker has not taken this node yet"
    stage.line.connect()
    introduced = {"node_id": "n", "methods": {"m": {}}, "slots": 2, "tasks": []}
    assert stage.line.asked() == [("node_connect", introduced)]
    stage.line.answer("node_connect")
    assert stage.connected == [True] and stage.node.trouble == ""
    stage.offer("t")
    assert stage.line.asked() == [("node_task_request", {"task_id": "t", "details": True})] and stage.node.running == 0
    stage.line.answer("node_task_request", GIVEN | {"id": "t"})
    [work] = stage.work
    assert (work.id, work.method, work.params, work.attempt, work.time_limit) == ("t", "m", [1], 2, 9.0)
    assert (work.client, work.key, stage.node.running) == ("c", "K", 1)
    stage.line.turn(0.49)
    assert stage.line.notices == []
    stage.line.turn(0.02)
    told = {"node_id": "n", "task_id": "t", "status": "started"}
    assert stage.line.notices == [("task_status", told)]
    stage.tell("half", {"done": 5, "status": "forged", "task_id": "u", "node_id": "x"})
    stage.line.turn()
    assert stage.line.notices[1:] == [("task_status", told | {"status": "half", "done": 5})]
    stage.end("t")
    assert stage.node.running == 1
    assert stage.line.answer("node_task_finished") == {"task_id": "t", "task_result": 42} and stage.node.running == 0


def test_short_work_has_no_status(stage: Stage) -> None:
    stage.join()
    stage.begin("t")
    stage.end("t")
    stage.line.turn(1.0)
    assert stage.line.notices == []


def test_no_more_tasks_are_claimed_than_there_are_slots(stage: Stage) -> None:
    stage.join()
    stage.offer("a", "b", "c", "d", "a")
    assert [params["task_id"] for _, params in stage.line.asked()] == ["a", "b"]
    stage.line.answer("node_task_request", GIVEN | {"id": "a"})
    stage.offer("a")
    assert len(stage.line.asked()) == 1
    stage.end("a")
    stage.line.answer("node_task_finished")
    assert [params["task_id"] for _, params in stage.line.asked()] == ["b", "c"]
    stage.line.refuse("node_task_request", errors.TASK_INVALID)
    assert [params["task_id"] for _, params in stage.line.asked()] == ["c", "d"]


def test_offers_beyond_the_limit_are_dropped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNSERVED", 2)
    stage.join()
    stage.begin("a", "b")
    stage.offer("c", "d", "e")
    assert list(stage.node._offers) == ["d", "e"]


@pytest.mark.parametrize("params", [["m"], ["m", "t", "x"], ["m", 5], {"method": "m"}, {}, []])
def test_a_notification_in_another_form_is_passed_over(stage: Stage, params: Any) -> None:
    stage.join()
    for method in (methods.NEW_TASK, methods.CANCEL, "other"):
        stage.line.notify(method, params)
    assert stage.line.asked() == [] and stage.cancelled == []


def test_an_offer_may_have_names(stage: Stage) -> None:
    stage.join()
    stage.line.notify(methods.NEW_TASK, {"task_id": "t", "method": "m"})
    assert [params["task_id"] for _, params in stage.line.asked()] == ["t"]


def test_running_work_is_cancelled_once_it_is_told(stage: Stage) -> None:
    stage.join()
    stage.begin("t")
    for params in (["other"], ["t", 1], ["t"]):
        stage.line.notify(methods.CANCEL, params)
    assert stage.cancelled == ["t"]
    stage.line.notify(methods.CANCEL, {"task_id": "t"})
    assert stage.cancelled == ["t", "t"]
    stage.end("t")
    stage.line.notify(methods.CANCEL, ["t"])  # it is reported already
    assert stage.cancelled == ["t", "t"]


# ---------------------------------------------------------------------------------------- outcomes


@pytest.mark.parametrize(
    "outcome, report",
    [(TaskFailed(7, "no"), {"error": {"code": 7, "message": "no"}, "retry": True}),
     (TaskFailed(7, "no", [1], retry=False), {"error": {"code": 7, "message": "no", "data": [1]}, "retry": False}),
     (ZeroDivisionError("x"), {"error": {"code": errors.FUNCTION_RAISED, "message": "ZeroDivisionError: x"}})],
)  # fmt: skip
def test_each_failure_is_reported_as_it_was(stage: Stage, outcome: Exception, report: dict[str, Any]) -> None:
    stage.join()
    stage.begin("t")
    stage.end("t", outcome)
    assert stage.line.answer("node_task_failed") == {"task_id": "t"} | report and stage.node.running == 0


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "result, is_kept", [(nested(62), True), (nested(63), False), (float("nan"), False), (object(), False)]
)
def test_a_result_that_cannot_be_stored_is_a_failure_for_good(stage: Stage, result: Any, is_kept: bool) -> None:
    stage.join()
    stage.begin("t")
    stage.end("t", result)
    if is_kept:
        assert stage.line.answer("node_task_finished")["task_result"] == result
    else:
        report = stage.line.answer("node_task_failed")
        assert report["retry"] is False and report["error"]["code"] == errors.FUNCTION_RAISED
        assert report["error"]["message"].startswith("the outcome cannot be stored: ")


def test_a_report_is_repeated_until_the_broker_has_stored_it(stage: Stage) -> None:
    """A report is repeated after 0.25 s, 0.5 s, 1 s and so on, and each 5 s at the most."""
    stage.join()
    stage.begin("t")
    stage.end("t")
    waited = []
    for _ in range(7):
        stage.line.refuse("node_task_finished", errors.STORING_FAILED)
        seconds = 0.0
        while not any(method == "node_task_finished" for method, _ in stage.line.asked()):
            stage.line.turn(0.25)
            seconds += 0.25
            if any(method == "node_heartbeat" for method, _ in stage.line.asked()):
                stage.line.answer("node_heartbeat")
        waited.append(seconds)
    assert waited == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0] and stage.node.running == 1
    stage.line.answer("node_task_finished")
    assert stage.node.running == 0


@pytest.mark.parametrize("code", [errors.NOT_YOUR_LEASE, errors.TASK_UNKNOWN])
def test_an_outcome_that_counts_no_more_is_dropped(stage: Stage, code: int) -> None:
    stage.join()
    stage.begin("t")
    stage.end("t")
    stage.line.refuse("node_task_finished", code)
    assert stage.node.running == 0
    stage.line.turn(2.0)
    assert stage.line.asked() == []


def test_an_outcome_that_is_refused_becomes_a_failure(stage: Stage, log_lines: list[str]) -> None:
    stage.join()
    stage.begin("t")
    stage.end("t")
    stage.line.refuse("node_task_finished", errors.INVALID_PARAMS, "x" * 2000)
    stage.line.turn(0.25)
    report = stage.line.answer("node_task_failed")
    assert report["retry"] is False and len(report["error"]["message"]) == 1000 and stage.node.running == 0
    assert len(log_lines) == 1 and log_lines[0].startswith("The outcome of t is refused: xxx")


def test_a_report_waits_for_a_connection(stage: Stage) -> None:
    stage.join()
    stage.begin("t")
    stage.line.connect()
    stage.end("t")
    assert stage.line.asked() == [("node_connect", {"node_id": "n", "methods": {"m": {}}, "slots": 2, "tasks": ["t"]})]
    stage.line.answer("node_connect")
    stage.line.turn(0.25)
    assert stage.line.answer("node_task_finished")["task_id"] == "t"


# ------------------------------------------------------------------------------- names and beats


def test_a_refused_node_goes_on_trying_and_says_so_once(stage: Stage, log_lines: list[str]) -> None:
    stage.line.connect()
    for code in (errors.NODE_TAKEN, errors.NODE_TAKEN, errors.UNAUTHORISED):
        stage.line.refuse("node_connect", code, "no")
        assert stage.line.asked() == []
        assert stage.node.trouble == f"no ({code})" and stage.connected == []
        stage.line.turn(1.0)
    assert len(log_lines) == 2 and log_lines[0].startswith("Node n is refused and serves nothing so far")
    stage.line.answer("node_connect")
    assert stage.node.trouble == "" and stage.connected == [True]
    stage.line.connect()
    stage.line.refuse("node_connect", errors.UNAUTHORISED, "no")
    assert len(log_lines) == 3


def test_a_beat_every_interval_and_what_its_answer_says(stage: Stage) -> None:
    stage.line.turn(2.5)
    assert stage.line.asked() == []
    stage.join()
    stage.line.turn(2.5)
    assert stage.line.asked() == [("node_heartbeat", ["n"])] and stage.node.trouble == ""
    stage.line.refuse("node_heartbeat", errors.OVERLOADED)
    assert stage.node.trouble == "the broker does not answer heartbeats"
    stage.line.turn(2.5)
    stage.line.answer("node_heartbeat")
    assert stage.node.trouble == "" and stage.line.asked() == []
    stage.line.turn(2.5)
    stage.line.refuse("node_heartbeat", errors.NODE_UNKNOWN)
    assert [method for method, _ in stage.line.asked()] == ["node_connect"]
    stage.line.answer("node_connect")
    assert stage.node.trouble == "" and stage.connected == [True, True]


@pytest.mark.parametrize("code, data, again", [
    (errors.NODE_UNKNOWN, None, True), (errors.UNAUTHORISED, None, True), (errors.UNAUTHORISED, {"scope": "x"}, False),
    (errors.TASK_INVALID, None, False),
])  # fmt: skip
def test_a_claim_by_a_name_that_is_lost_connects_again(stage: Stage, code: int, data: Any, again: bool) -> None:
    stage.join()
    stage.offer("t")
    stage.line.refuse("node_task_request", code, data=data)
    assert [method for method, _ in stage.line.asked()] == ["node_connect"] * again and stage.node._busy() == 0


def test_a_claim_has_no_timeout_but_ends_with_its_connection(stage: Stage) -> None:
    """A claim waits without a timeout, and its slot is free again once its connection ends."""
    stage.join()
    stage.offer("t")
    for _ in range(30):
        stage.line.turn(1.0)
    assert ("node_task_request", {"task_id": "t", "details": True}) in stage.line.asked()
    stage.line.connect()
    assert stage.node._busy() == 0 and stage.work == []


# ------------------------------------------------------------------------------- work that waits


def waits(stage: Stage) -> list[tuple[str, bool]]:
    return [
        (params["task_id"], params["waits"]) for method, params in stage.line.asked() if method == "node_task_waits"
    ]


def test_work_that_waits_takes_no_slot(stage: Stage) -> None:
    stage.join()
    stage.begin("a", "b")
    stage.offer("c")
    for _ in range(2):
        stage.node.set_waiting("a", True)
        stage.node.set_waiting("unknown", True)
        stage.node.set_waiting("b", False)
        stage.line.turn()
    assert waits(stage) == [("a", True)] and stage.line.asked()[-1][1]["task_id"] == "c"
    stage.line.answer("node_task_waits")
    stage.line.answer("node_task_request", GIVEN | {"id": "c"})
    stage.node.set_waiting("a", False)
    stage.line.turn()
    assert waits(stage) == [("a", False)] and stage.node._busy() == 3
    stage.line.answer("node_task_waits")
    stage.end("a")
    stage.line.answer("node_task_finished")
    assert stage.node._busy() == 2


def test_a_broker_that_knows_no_waiting_counts_the_slot_here_too(stage: Stage) -> None:
    stage.join()
    stage.begin("a")
    for code, busy in ((errors.OVERLOADED, 0), (errors.UNKNOWN_METHOD, 1)):
        stage.node.set_waiting("a", True)
        stage.line.turn()
        stage.line.refuse("node_task_waits", code)
        assert stage.node._busy() == busy
        stage.node.set_waiting("a", False)
        stage.line.turn()
        stage.line.calls.clear()


def test_a_new_connection_hears_what_waits_and_the_limit_holds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MOST", 1)
    stage.join()
    stage.begin("a", "b")
    stage.node.set_waiting("a", True)
    stage.node.set_waiting("b", True)
    stage.line.turn()
    assert waits(stage) == [("a", True)] and stage.node._busy() == 1
    stage.line.connect()
    stage.line.calls = [call for call in stage.line.calls if call[1] == "node_connect"]
    stage.line.answer("node_connect")
    assert waits(stage) == [("a", True)]


# ------------------------------------------------------------------------------- the end


def test_an_idle_node_leaves_at_once(stage: Stage) -> None:
    stage.join()
    done: list[Any] = []
    stage.node.stop().addBoth(done.append)
    stage.line.turn()
    assert stage.line.answer("node_disconnect") == ["n"]
    assert done == [None] and not stage.line.is_open and stage.line.clock.getDelayedCalls() == []


def test_a_node_that_stops_waits_for_its_work_and_claims_no_more(stage: Stage) -> None:
    stage.join()
    stage.begin("a", "b")
    stage.offer("c")
    done: list[Any] = []
    stage.node.stop(wait=3.0).addBoth(done.append)
    stage.end("a")
    stage.line.answer("node_task_finished")
    assert stage.line.asked() == [] and done == []
    stage.end("b")
    stage.line.answer("node_task_finished")
    stage.line.answer("node_disconnect")
    assert done == [None] and stage.cancelled == [] and not stage.line.is_open


@pytest.mark.parametrize("how", ["time", "signal", "none"])
def test_work_that_does_not_end_in_time_is_cancelled_and_given_back(stage: Stage, how: str) -> None:
    stage.join()
    stage.begin("a", "b")
    stage.end("b")
    done: list[Any] = []
    stage.node.stop(wait=0.0 if how == "none" else 3.0).addBoth(done.append)
    stage.line.turn()
    if how == "time":
        stage.line.turn(2.9)
        assert not any(method == "node_disconnect" for method, _ in stage.line.asked())
        stage.line.turn(0.1)
    elif how == "signal":
        stage.node.stop_waiting()
        stage.line.turn()
    assert stage.cancelled == []
    stage.line.answer("node_disconnect")
    assert stage.cancelled == ["a"] and done == [None] and not stage.line.is_open
    stage.running["a"].errback(TaskFailed(7, "cancelled"))
    stage.line.turn()
    assert not any(method == "node_task_failed" for method, _ in stage.line.asked())


@pytest.mark.parametrize("how", ["silent", "trouble", "refused"])
def test_a_broker_that_does_not_answer_holds_nobody_up(stage: Stage, how: str) -> None:
    stage.join()
    done: list[Any] = []
    stage.node.stop().addBoth(done.append)
    stage.line.turn()
    if how == "refused":
        stage.line.refuse("node_disconnect", errors.NODE_UNKNOWN)
    elif how == "trouble":
        stage.line.trouble = "lost"
        stage.line.turn(0.05)
    else:
        stage.line.turn(0.95)
        assert done == []
        stage.line.turn(0.05)
    assert done == [None] and not stage.line.is_open and stage.line.clock.getDelayedCalls() == []


def test_a_node_that_stops_while_it_connects_comes_to_an_end(stage: Stage) -> None:
    stage.line.connect()
    done: list[Any] = []
    stage.node.stop().addBoth(done.append)
    assert done == [None] and not stage.line.is_open
    stage.line.turn(10.0)
    assert stage.connected == [] and stage.line.clock.getDelayedCalls() == []


def test_a_node_without_a_name_makes_one(stage: Stage) -> None:
    other = Node(BrokerLine(), stage.line.clock, None, {}, stage._run, stage._cancel)
    assert other.name and other.name != "n" and other._slots == 1


def test_two_connections_in_a_row_are_one_introduction(stage: Stage) -> None:
    stage.line.connect()
    stage.line.connect()
    stage.line.calls.clear()  # it ended with the first connection
    stage.line.turn(0.24)
    assert stage.line.asked() == []
    stage.line.turn(0.01)
    assert [method for method, _ in stage.line.asked()] == ["node_connect"]
    stage.line.answer("node_connect")
    stage.line.turn(10.0)
    assert stage.connected == [True] and [method for method, _ in stage.line.asked()] == ["node_heartbeat"]


def test_a_node_that_stops_introduces_itself_no_more(stage: Stage) -> None:
    stage.join()
    stage.node.stop()
    stage.line.connect()
    assert [method for method, _ in stage.line.asked()] == ["node_disconnect"]


def test_offers_that_came_before_are_claimed_with_the_connection(stage: Stage) -> None:
    stage.offer("t")
    assert stage.line.asked() == []
    stage.join()
    assert [params["task_id"] for _, params in stage.line.asked()] == ["t"]


def test_work_that_ends_while_it_waits_leaves_its_slot_free_once(stage: Stage) -> None:
    stage.join()
    stage.begin("a")
    stage.node.set_waiting("a", True)
    stage.end("a")
    stage.line.answer("node_task_finished")
    assert stage.node._busy() == 0 and stage.node._waits == set()


def test_a_report_by_a_name_that_is_lost_connects_again(stage: Stage) -> None:
    stage.join()
    stage.begin("a")
    stage.end("a")
    stage.line.refuse("node_task_finished", errors.NODE_UNKNOWN)
    assert [method for method, _ in stage.line.asked()] == ["node_connect"]
    stage.line.answer("node_connect")
    stage.line.turn(0.25)
    stage.line.answer("node_task_finished")
    assert stage.node.running == 0


def test_an_error_of_our_own_is_not_taken_for_silence(stage: Stage) -> None:
    for taker, more in ((stage.node._beat_failed, ()), (stage.node._waits_not_told, ("t",))):
        with pytest.raises(ZeroDivisionError):
            taker(Failure(ZeroDivisionError()), *more)


@pytest.mark.parametrize("wait, waits", [(0.0, False), (0.5, True)])
def test_only_a_stop_with_time_waits_for_work(stage: Stage, wait: float, waits: bool) -> None:
    stage.join()
    stage.begin("a")
    stage.node.stop(wait)
    assert len(stage.node._idle) == waits
    stage.line.turn(wait)
    assert stage.node._idle == [] and [method for method, _ in stage.line.asked()] == ["node_disconnect"]
