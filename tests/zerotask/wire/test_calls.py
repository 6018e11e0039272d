"""Tests calls over one link without sockets: what goes out together, how each call ends, and what is left of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.task import Clock

from zerotask import errors
from zerotask.wire import calls, jsonrpc
from zerotask.wire.calls import Rpc


class Line:
    """Stands for the link: it notes what is sent, as long as it has room."""

    def __init__(self) -> None:
        self.room, self.sent, self.trouble, self.is_open = True, [], "", False  # type: ignore[var-annotated]

    def open(self, received: Any, renewed: Any) -> None:
        self.received, self.renewed, self.is_open = received, renewed, True

    def send(self, text: bytes) -> bool:
        if self.room:
            self.sent.append(json.loads(text))
        return self.room

    def close(self) -> None:
        self.is_open = False


class Stage:
    """Holds an Rpc, its line and clock, and the outcome of each call."""

    def __init__(self) -> None:
        self.clock, self.line, self.renewals, self.notices = Clock(), Line(), [], []  # type: ignore[var-annotated]
        self.rpc = Rpc(
            self.line, self.clock, lambda: self.renewals.append(1), lambda *notice: self.notices.append(notice)
        )  # type: ignore[arg-type]
        self.rpc.start()
        self.outcomes: list[Any] = []

    def call(self, method: str = "m", params: Any = (), **more: Any) -> None:
        self.rpc.call(method, params, **more).addBoth(self.outcomes.append)

    def failures(self) -> list[str]:
        found = [f"{type(each.value).__name__}: {each.value}" for each in self.outcomes]
        self.outcomes.clear()
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


def request(number: int, method: str = "m", params: Any = ()) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": f"zerotask.broker.{method}", "params": list(params), "id": number}


def test_calls_of_one_turn_go_out_together(stage: Stage) -> None:
    stage.call()
    stage.call("n", [5])
    stage.rpc.notify("o", [])
    assert stage.line.sent == []
    stage.clock.advance(0)
    notice = {"jsonrpc": "2.0", "method": "zerotask.broker.o", "params": []}
    assert stage.line.sent == [[request(1), request(2, "n", [5]), notice]]
    stage.call()
    stage.call(alone=True)
    assert stage.line.sent[1:] == [request(4)]
    stage.clock.advance(0)
    assert stage.line.sent[2:] == [request(3)]


@pytest.mark.parametrize(
    "limit, value, together", [("BATCH_CALLS", 2, 2), ("BATCH_BYTES", 130, 2), ("BATCH_BYTES", 1, 1)]
)
def test_a_full_batch_goes_out_at_once(monkeypatch, stage: Stage, limit: str, value: int, together: int) -> None:
    monkeypatch.setattr(calls, limit, value)
    for _ in range(together - 1):
        stage.call()
    assert stage.line.sent == []
    stage.call()
    assert len(stage.line.sent) == 1
    stage.clock.advance(0)
    assert len(stage.line.sent) == 1 and len(stage.clock.getDelayedCalls()) == together


def test_a_batch_has_no_more_parts_than_a_text_may_have(monkeypatch, stage: Stage) -> None:
    monkeypatch.setattr(jsonrpc, "MAX_PARTS", 6)
    for _ in range(3):
        stage.call(params=[[]])  # three parts each
    assert [len(sent) if isinstance(sent, list) else 1 for sent in stage.line.sent] == [1, 1]
    stage.clock.advance(0)
    assert len(stage.line.sent) == 3


def test_each_answer_finds_its_call(stage: Stage) -> None:
    stage.call()
    stage.call(timeout=None)
    stage.clock.advance(0)
    stage.line.received(
        jsonrpc.batch([jsonrpc.result(b"2", [7]), jsonrpc.result(b"9", 1), jsonrpc.notification("z", [1])])
    )
    assert stage.outcomes == [[7]] and stage.notices == [("z", [1])]
    stage.line.received(jsonrpc.failure(b"1", errors.RpcError(-5, "no", {"a": 1})))
    [_, failed] = stage.outcomes
    assert (failed.value.code, failed.value.message, failed.value.data) == (-5, "no", {"a": 1})
    assert not stage.rpc._open and not stage.clock.getDelayedCalls()
    stage.line.received(b"no json")
    stage.line.received(jsonrpc.failure(b"null", errors.RpcError(-5, "no")))
    assert len(stage.outcomes) == 2


def test_a_call_waits_ten_seconds(stage: Stage) -> None:
    stage.call()
    stage.call(timeout=12.0)
    stage.clock.advance(9.99)
    assert stage.outcomes == []
    stage.clock.advance(0.01)
    assert stage.failures() == ["NoAnswer: no answer to m in time"]
    stage.clock.advance(2.0)
    assert stage.failures() == ["NoAnswer: no answer to m in time"] and not stage.rpc._open


def test_a_renewed_connection_ends_the_calls_of_the_former(stage: Stage) -> None:
    stage.call()
    stage.line.renewed()
    assert stage.outcomes == [] and stage.renewals == [1]
    stage.line.renewed()
    assert stage.failures() == ["NoAnswer: the connection was renewed"] and stage.renewals == [1, 1]
    stage.call()
    stage.rpc.give_up("why")
    assert stage.failures() == ["NoAnswer: why"]


def test_closing_sends_what_is_left_and_ends_the_rest(stage: Stage) -> None:
    stage.call()
    stage.rpc.close()
    assert stage.line.sent == [request(1)] and stage.failures() == ["NoAnswer: closed"] and not stage.line.is_open
    assert not stage.clock.getDelayedCalls()


def test_what_cannot_be_sent_fails_at_once(monkeypatch, stage: Stage) -> None:
    stage.line.room = False
    stage.call(alone=True)
    assert stage.failures() == ["NoAnswer: m could not be sent"] and not stage.rpc._open
    monkeypatch.setattr(calls, "MOST_CALLS", 2)
    for _ in range(3):
        stage.call()
    assert "more than 2 calls are on their way" in stage.failures()[0] and len(stage.rpc._open) == 2


def test_a_call_that_is_too_large_fails_at_once(monkeypatch, stage: Stage) -> None:
    size = len(jsonrpc.request("zerotask.broker.m", ["x"], 1))
    for limit, value, params, why in (
        ("MAX_TEXT", size, ["xx"], f"a call of {size + 1} bytes, more than {size}"),
        ("MAX_PARTS", 3, [[], [], []], "a call of more than 3 arrays and objects"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(jsonrpc, limit, value)
            stage.call(params=params[:1] if limit == "MAX_PARTS" else ["x"])
            assert stage.outcomes == []
            stage.call(params=params)
            [failed] = stage.outcomes
            assert failed.value.code == errors.INVALID_PARAMS and failed.value.message.startswith(why)
            stage.outcomes.clear()
            stage.rpc.give_up("")
            stage.outcomes.clear()
