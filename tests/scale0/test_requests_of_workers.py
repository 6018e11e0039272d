"""Requests that a worker is given, without sockets: the connection is played by hand."""

from __future__ import annotations

from typing import Any

import pytest
from worker_stage import WorkerStage

from scale0 import worker as module
from scale0.endpoint.effects import State
from scale0.wire import options as opt
from scale0.worker import Holder, Refused, Reply


@pytest.fixture
def stage() -> WorkerStage:
    return WorkerStage()


def test_a_request_comes_with_its_time_and_body(stage: WorkerStage) -> None:
    stage.hear(timeout_ms=1500, idempotent=False)
    stage.hear("2")
    first, second = stage.asked
    assert (first.id, first.service, first.body, first.timeout, first.idempotent) == ("1", "tea", (b"cup",), 1.5, False)
    assert (second.timeout, second.idempotent, second.cancelled) == (None, None, False)
    first.partial(b"half")
    assert stage.take() == [("PARTIAL", {"id": "1"}, (b"half",))]


@pytest.mark.parametrize(
    "answer, code, body",
    [(b"x", 200, (b"x",)), ([b"x", b"y"], 200, (b"x", b"y")), (None, 200, ()), (Reply([b"z"], 201), 201, (b"z",))],
)
def test_each_kind_of_answer(stage: WorkerStage, answer: Any, code: int, body: tuple) -> None:
    stage.hear()
    stage.running[0].callback(answer)
    assert stage.take() == [("FINAL", {"id": "1", "code": code}, body)] and not stage.worker._requests


def test_a_refusal_has_its_code_and_reason(stage: WorkerStage) -> None:
    stage.hear()
    refused = Refused(418, "teapot")
    stage.running[0].errback(refused)
    assert stage.take() == [("FINAL", {"id": "1", "code": 418, "reason": "teapot"}, ())]


def test_a_cancelled_request_is_a_499_once(stage: WorkerStage) -> None:
    stage.hear()
    for _ in range(2):
        stage.worker._received("CANCEL", opt.Cancel("1"), ())
    assert stage.asked[0].cancelled and stage.take() == [("FINAL", {"id": "1", "code": 499, "reason": "cancelled"}, ())]
    stage.worker._received("CANCEL", opt.Cancel("unknown"), ())
    assert stage.take() == []


@pytest.mark.parametrize("state", [State.LOST, State.BACKOFF, State.STOPPED])
def test_a_lost_broker_cancels_what_runs_and_is_told_nothing(stage: WorkerStage, state: State) -> None:
    stage.hear()
    stage.worker._changed(state, "", 0)
    assert stage.asked[0].cancelled and stage.cancelled == stage.running and not stage.worker._requests
    stage.asked[0].partial(b"x")
    assert stage.take() == []


@pytest.mark.parametrize("state, kept", [(State.CHECKING, 2), (State.CONFIGURED, 2), (State.DIALLING, 0)])
def test_requests_that_come_during_a_negotiation_are_held(
    monkeypatch: pytest.MonkeyPatch, stage: WorkerStage, state: State, kept: int
) -> None:
    monkeypatch.setattr(module, "HELD", 2)
    stage.line.state = state
    for number in ("1", "2", "3"):
        stage.hear(number)
    assert stage.asked == [] and len(stage.worker._held) == kept
    stage.worker._received("CANCEL", opt.Cancel("1"), ())
    stage.line.state = State.ACTIVE
    stage.worker._changed(State.ACTIVE, "", 0)
    assert [request.id for request in stage.asked] == (["2"] if kept else [])
    stage.worker._changed(State.ACTIVE, "", 0)
    assert len(stage.asked) == (1 if kept else 0)


def test_a_service_that_has_a_newer_holder_is_given_up(stage: WorkerStage) -> None:
    stage.worker._services.update({"a": 1, "b": None})
    told = opt.ServicesDelta(remove=["a", "b", "c"], holders={"a": ("other", 5)}, seals={"a": "S"})
    stage.worker._received("SERVICES", told, ())
    assert stage.withdrawn == [("a", Holder("other", 5, "S")), ("b", None)] and stage.worker._services == {}
