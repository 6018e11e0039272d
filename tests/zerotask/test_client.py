"""Tests a client against a broker that is played by hand: what it repeats and for how long, and how waiting ends."""

from __future__ import annotations

from typing import Any

import pytest
from rpc_stage import BrokerLine
from twisted.internet.defer import Deferred

from zerotask import client as module
from zerotask import errors
from zerotask.client import Client
from zerotask.wire import methods


class Stage:
    """Holds a client, its line, and what its calls came to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module.random, "random", lambda: 1.0)  # each pause has its whole length
        self.line = BrokerLine()
        self.client = Client(self.line, self.line.clock, "c")
        self.client.start()
        self.line.connect()
        self.outcomes: list[Any] = []

    def does(self, deferred: Deferred[Any]) -> None:
        deferred.addCallbacks(self.outcomes.append, lambda failure: self.outcomes.append(failure.value))
        self.line.turn()

    def join(self) -> None:
        """Connect by a call that is answered."""
        self.does(self.client.call("other", {}))
        self.line.answer("client_connect", "c")
        self.line.answer("other", None)
        self.outcomes.clear()

    def came(self) -> Any:
        """Return the one outcome so far: a value, or the name, code and message of a failure."""
        [outcome] = self.outcomes
        self.outcomes.clear()
        if isinstance(outcome, errors.RpcError):
            return type(outcome).__name__, outcome.code, outcome.message
        return str(outcome) if isinstance(outcome, errors.NoAnswer) else outcome

    def waited(self, method: str) -> float:
        """Let time pass until a call is there; return the seconds."""
        began = self.line.clock.seconds()
        while not any(found == method for found, _ in self.line.asked()):
            timers = self.line.clock.getDelayedCalls()
            self.line.turn(min(timer.getTime() for timer in timers) - self.line.clock.seconds())
        return round(self.line.clock.seconds() - began, 3)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_the_first_call_connects(stage: Stage) -> None:
    stage.does(stage.client.submit("m", (1, 2), task_id="t", priority=3))
    assert stage.line.asked() == [("client_connect", {"client_id": "c", "results": True})]
    stage.line.answer("client_connect", "c")
    submission = {"client_id": "c", "method": "m", "params": [1, 2], "task_id": "t", "priority": 3}
    assert stage.line.asked() == [("client_new_task", submission)]
    stage.line.answer("client_new_task", "t")
    assert stage.came() == "t"
    stage.does(stage.client.status("t"))
    assert stage.line.answer("client_task_status", {"state": "queued"}) == {"client_id": "c", "task_id": "t"}
    assert stage.came() == {"state": "queued"}


def test_a_broker_that_sends_no_ends_is_asked_for_them(stage: Stage) -> None:
    stage.does(stage.client.call("other", {}))
    stage.line.refuse("client_connect", errors.INVALID_PARAMS)
    assert stage.line.answer("client_connect", "c") == ["c"]
    stage.line.answer("other", 5)
    assert stage.came() == 5
    stage.does(stage.client.submit("m", task_id="t"))
    stage.line.answer("client_new_task", "t")
    assert stage.came() == "t" and stage.client._followed == {}


@pytest.mark.parametrize("code", [errors.UNAUTHORISED, errors.CLIENT_INVALID])
def test_a_name_that_is_refused_fails_the_call(stage: Stage, code: int) -> None:
    stage.does(stage.client.call("other", {}))
    stage.line.refuse("client_connect", code, data={"name": "x"})
    assert stage.came() == ("RpcError", code, "no")


def test_params_may_have_names(stage: Stage) -> None:
    stage.join()
    stage.does(stage.client.submit("m", {"a": 1}))
    params = stage.line.answer("client_new_task", "id")
    assert params["params"] == {"a": 1} and len(params["task_id"]) == 32


# -------------------------------------------------------------------------------------- repeating


@pytest.mark.parametrize("code", [errors.OVERLOADED, errors.STORING_FAILED, errors.DISABLED, errors.CLIENT_TAKEN])
def test_a_call_that_may_succeed_later_is_repeated_with_pauses(stage: Stage, code: int) -> None:
    """A call that may succeed later is repeated with pauses from 0.1 s to 2 s; without patience its refusal is told."""
    stage.join()
    stage.does(stage.client.call("other", {"x": 1}, patience=8.0))
    pauses = []
    while not stage.outcomes:
        assert stage.line.refuse("other", code) == {"client_id": "c", "x": 1}
        if not stage.outcomes:
            pauses.append(stage.waited("other"))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0] and stage.came() == ("RpcError", code, "no")


def test_jitter_takes_up_to_half_of_a_pause(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.random, "random", lambda: 0.0)
    stage.join()
    stage.does(stage.client.call("other", {}))
    pauses = []
    for _ in range(3):
        stage.line.refuse("other", errors.OVERLOADED)
        pauses.append(stage.waited("other"))
    assert pauses == [0.05, 0.1, 0.2]


def test_another_refusal_is_told_at_once(stage: Stage) -> None:
    stage.join()
    stage.does(stage.client.call("other", {}))
    stage.line.refuse("other", errors.UNKNOWN_METHOD)
    assert stage.came() == ("RpcError", errors.UNKNOWN_METHOD, "no")


@pytest.mark.parametrize(
    "code, data, again",
    [(errors.CLIENT_UNKNOWN, None, True), (errors.UNAUTHORISED, None, True), (errors.UNAUTHORISED, {"x": 1}, False)],
)
def test_a_lost_name_is_taken_again(stage: Stage, code: int, data: Any, again: bool) -> None:
    stage.join()
    stage.does(stage.client.call("other", {}))
    stage.line.refuse("other", code, data=data)
    if not again:
        assert stage.came() == ("RpcError", code, "no")
        return
    assert stage.waited("client_connect") == 0.1
    stage.line.answer("client_connect", "c")
    stage.line.answer("other", 5)
    assert stage.came() == 5


def test_silence_is_borne_until_patience_is_over(stage: Stage) -> None:
    stage.join()
    stage.does(stage.client.call("other", {}, patience=15.0))
    stage.line.calls.clear()
    assert stage.waited("other") == 10.1 and stage.outcomes == []
    stage.line.turn(9.9)
    assert stage.outcomes == []
    stage.line.turn(0.2)
    assert stage.came() == "no answer to other in time"


def test_a_submission_that_was_stored_before_is_recognised(stage: Stage) -> None:
    stage.join()
    for data, outcome in (({"identical": True}, "t"), ({"identical": False}, None), (None, None)):
        stage.does(stage.client.submit("m", task_id="t"))
        stage.line.refuse("client_new_task", errors.TASK_TAKEN, data=data)
        assert stage.came() == (outcome or ("RpcError", errors.TASK_TAKEN, "no"))
        assert stage.client._followed == {}


# ------------------------------------------------------------------------------------------ waiting


def followed(stage: Stage) -> None:
    """Submit a task whose end the broker will send."""
    stage.join()
    stage.does(stage.client.submit("m", task_id="t"))
    stage.line.answer("client_new_task", "t")
    stage.outcomes.clear()


@pytest.mark.parametrize(
    "finished, outcome, came",
    [(True, 42, 42), (False, {"code": 7, "message": "no", "data": [1]}, ("TaskFailed", 7, "no"))],
)
def test_the_end_that_the_broker_sends_ends_the_waiting(stage: Stage, finished: bool, outcome: Any, came: Any) -> None:
    followed(stage)
    stage.does(stage.client.wait("t", 60.0))
    for params in (["other", True, 1], ["t", True], {"task_id": "t"}):
        stage.line.notify(methods.TASK_ENDED, params)
    stage.line.notify("other", ["t", True, 1])
    assert stage.outcomes == [] and stage.line.asked() == []
    stage.line.notify(methods.TASK_ENDED, ["t", finished, outcome])
    assert stage.came() == came


def test_an_end_that_came_before_is_asked_for(stage: Stage) -> None:
    followed(stage)
    stage.line.notify(methods.TASK_ENDED, ["t", True, 42])
    stage.does(stage.client.wait("t", 50.0))
    asked = {"client_id": "c", "task_id": "t", "wait": 30.0}
    assert stage.line.answer("client_task_result", 42) == asked and stage.came() == 42


@pytest.mark.parametrize("timeout, wait", [(50.0, 30.0), (12.0, 12.0), (-1.0, 0.0)])
def test_a_wait_at_the_broker_is_half_the_longest_and_not_longer_than_asked(
    stage: Stage, timeout: float, wait: float
) -> None:
    stage.join()
    stage.does(stage.client.wait("t", timeout))
    assert stage.line.answer("client_task_result", 1)["wait"] == wait


def test_an_end_that_does_not_come_is_asked_for_after_a_while(stage: Stage) -> None:
    followed(stage)
    stage.does(stage.client.wait("t", 60.0))
    stage.line.turn(19.9)
    assert stage.line.asked() == []
    stage.line.turn(0.1)
    assert stage.line.refuse("client_task_result", errors.NOT_FINISHED)["wait"] == 0.0
    stage.line.turn(20.0)
    stage.line.answer("client_task_result", 42)
    assert stage.came() == 42


def test_waiting_ends_when_its_time_is_over(stage: Stage) -> None:
    followed(stage)
    stage.does(stage.client.wait("t", 5.0))
    stage.line.turn(5.0)
    stage.line.refuse("client_task_result", errors.NOT_FINISHED)
    assert stage.came() == ("RpcError", errors.NOT_FINISHED, "no") and stage.client._followed["t"] == []


def test_a_new_connection_lets_those_that_wait_ask(stage: Stage) -> None:
    """A client that waits asks again on a new connection, as the end may have been sent while there was none."""
    followed(stage)
    stage.does(stage.client.wait("t", 60.0))
    stage.line.connect()
    stage.line.answer("client_connect", "c")
    stage.line.answer("client_task_result", 42)
    assert stage.came() == 42


def test_no_more_tasks_are_followed_than_there_is_room_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FOLLOWED_MOST", 2)
    stage.join()
    for task in ("t1", "t2"):
        stage.does(stage.client.submit("m", task_id=task))
        stage.line.answer("client_new_task", task)
    stage.outcomes.clear()
    stage.does(stage.client.wait("t1", 60.0))
    stage.does(stage.client.submit("m", task_id="t3"))
    assert list(stage.client._followed) == ["t2", "t3"]
    assert {method for method, _ in stage.line.asked()} == {"client_new_task", "client_task_result"}


@pytest.mark.parametrize("code", [errors.NOT_FINISHED, errors.TASK_UNKNOWN, errors.EXPIRED])
def test_what_a_result_call_is_refused_for_is_no_failure_of_the_task(stage: Stage, code: int) -> None:
    stage.join()
    stage.does(stage.client.result("t"))
    stage.line.refuse("client_task_result", code)
    assert stage.came() == ("RpcError", code, "no")


@pytest.mark.parametrize("code", [errors.NODE_LOST, errors.TIME_LIMIT, errors.FUNCTION_RAISED, 7])
def test_other_errors_are_the_tasks_own(stage: Stage, code: int) -> None:
    stage.join()
    stage.does(stage.client.result("t"))
    stage.line.refuse("client_task_result", code)
    assert stage.came() == ("TaskFailed", code, "no")


# -------------------------------------------------------------------------------- cancelling, leaving


@pytest.mark.parametrize("answer", [True, False])
def test_cancelling_tells_what_the_answer_says(stage: Stage, answer: bool) -> None:
    stage.join()
    stage.does(stage.client.cancel("t"))
    stage.line.answer("client_task_cancel", answer)
    assert stage.came() is answer and stage.line.asked() == []


@pytest.mark.parametrize(
    "end, cancelled", [(errors.CANCELLED, True), (7, False), (errors.EXPIRED, False), (None, False)]
)
def test_a_cancellation_without_an_answer_is_looked_up(stage: Stage, end: int | None, cancelled: bool) -> None:
    stage.join()
    stage.does(stage.client.cancel("t"))
    stage.line.calls.clear()
    assert stage.waited("client_task_cancel") == 10.1
    stage.line.answer("client_task_cancel", False)
    if end is None:
        stage.line.answer("client_task_result", 42)
    else:
        stage.line.refuse("client_task_result", end)
    assert stage.came() is cancelled


def test_leaving_gives_the_name_back(stage: Stage) -> None:
    stage.join()
    stage.does(stage.client.stop())
    assert stage.line.is_open and stage.line.answer("client_disconnect") == ["c"]
    assert stage.outcomes == [None] and not stage.line.is_open


@pytest.mark.parametrize("silent", [True, False])
def test_a_broker_that_does_not_answer_holds_nobody_up(stage: Stage, silent: bool) -> None:
    stage.join()
    stage.does(stage.client.stop())
    if silent:
        stage.line.turn(0.9)
        assert stage.outcomes == []
        stage.line.turn(0.1)
    else:
        stage.line.refuse("client_disconnect", errors.CLIENT_UNKNOWN)
    assert stage.outcomes == [None] and not stage.line.is_open


def test_a_client_that_never_called_leaves_without_a_word(stage: Stage) -> None:
    stage.does(stage.client.stop())
    assert stage.outcomes == [None] and not stage.line.is_open and stage.line.asked() == []
    assert Client(BrokerLine(), stage.line.clock).name not in ("", "c")


def test_a_client_without_a_connection_leaves_without_a_word() -> None:
    line = BrokerLine()
    client = Client(line, line.clock, "c")
    client.start()
    client.stop()
    line.turn()
    assert line.asked() == [] and not line.is_open


@pytest.mark.parametrize("params", [[float("nan")], [object()], {"x": {1: object()}}])
def test_params_that_are_no_json_are_not_sent(stage: Stage, params: Any) -> None:
    stage.join()
    stage.does(stage.client.submit("m", params))
    name, code, message = stage.came()
    assert (name, code) == ("RpcError", errors.INVALID_PARAMS) and message.startswith("params are not JSON: ")
    assert stage.line.asked() == []


@pytest.mark.parametrize("answered", [True, False])
def test_without_patience_there_is_one_try(stage: Stage, answered: bool) -> None:
    stage.join()
    stage.does(stage.client.call("other", {}, patience=0.0 if answered else 10.0))
    if answered:
        stage.line.refuse("other", errors.OVERLOADED)
        assert stage.came() == ("RpcError", errors.OVERLOADED, "no")
    else:
        stage.line.turn(10.0)
        assert stage.came() == "no answer to other in time"


def test_a_wait_without_time_asks_at_once(stage: Stage) -> None:
    followed(stage)
    stage.does(stage.client.wait("t", 0.0))
    assert stage.line.answer("client_task_result", 42)["wait"] == 0.0 and stage.came() == 42


def test_a_call_that_waits_at_the_broker_goes_out_alone_and_at_once(stage: Stage) -> None:
    """Others wait for the end of the turn, and go out together."""
    stage.join()
    stage.client.call("other", {"wait": 0.0})
    assert stage.line.asked() == []
    stage.client.call("client_task_result", {"wait": 0.5})
    assert [method for method, _ in stage.line.asked()] == ["client_task_result"]
    stage.line.turn()
    assert [method for method, _ in stage.line.asked()] == ["client_task_result", "other"]
