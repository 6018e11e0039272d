"""Requests of a client without sockets: the connection is played by hand, and the clock too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

from scale0 import client as module
from scale0.client import Client, Reply, RequestFailed
from scale0.endpoint.effects import State
from scale0.endpoint.requests import GRACE
from scale0.wire import options as opt


class Line:
    """Stands for the connection: it notes what is told, as long as it has room."""

    def __init__(self) -> None:
        self.state, self.room, self.told = State.ACTIVE, True, []  # type: ignore[var-annotated]

    def tell(self, command: str, options: dict[str, Any], body: Sequence[bytes] = ()) -> bool:
        if self.room:
            self.told.append((command, options, tuple(body)))
        return self.room

    def start(self) -> None:
        self.state = State.DIALLING

    def stop(self) -> None:
        self.state = State.STOPPED

    def take(self) -> list:
        told, self.told = self.told, []
        return told


class Stage:
    """Holds a client, its line, and the outcome of each request."""

    def __init__(self, **options: Any) -> None:
        self.clock, self.line, self.changes = Clock(), Line(), []  # type: ignore[var-annotated]
        self.client = Client(
            self.clock, "c", ["tcp://127.0.0.1:1"], changed=lambda *change: self.changes.append(change), **options
        )
        self.client.connection = self.line  # type: ignore[assignment]
        self.outcomes: list[Any] = []

    def ask(self, *body: bytes, **options: Any) -> Any:
        answer = self.client.request("tea", *body, **options)
        answer.addBoth(self.outcomes.append)
        return answer

    def hear(self, command: str, number: str, *body: bytes, **options: Any) -> None:
        self.client._received(command, opt.Reply(number, **options), body)

    def become(self, state: State) -> None:
        self.line.state = state
        self.client._changed(state, "", 0)

    def failures(self) -> list[tuple[int, str]]:
        found = [(each.value.code, each.value.reason) for each in self.outcomes]
        self.outcomes.clear()
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_request_option_by_option(stage: Stage) -> None:
    stage.ask(b"a", b"b")
    stage.ask(timeout=2.5, priority=9, idempotent=False)
    plain = {"id": "1", "service": "tea", "priority": 4, "idempotent": True}
    full = {"id": "2", "service": "tea", "priority": 9, "idempotent": False, "timeout_ms": 2500}
    assert stage.line.take() == [("REQUEST", plain, (b"a", b"b")), ("REQUEST", full, ())]


@pytest.mark.parametrize("code, fails", [(200, False), (399, False), (400, True), (503, True)])
def test_replies_from_400_on_are_failures(stage: Stage, code: int, fails: bool) -> None:
    stage.ask()
    stage.hear("FINAL", "1", b"x", code=code, reason="r")
    [outcome] = stage.outcomes
    if fails:
        assert isinstance(outcome.value, RequestFailed) and outcome.value.body == (b"x",)
        assert (outcome.value.code, outcome.value.reason, str(outcome.value)) == (code, "r", f"{code} r")
    else:
        assert outcome == Reply(code, "r", (b"x",))
    assert not stage.client._pending
    stage.hear("FINAL", "1", b"again", code=200)
    assert len(stage.outcomes) == 1


def test_parts_come_before_the_end(stage: Stage) -> None:
    parts: list[Any] = []
    stage.ask(on_partial=parts.append)
    stage.ask()
    stage.hear("PARTIAL", "1", b"one")
    stage.hear("PARTIAL", "2", b"nobody looks")
    stage.hear("PUBLISH", "1", b"no reply")
    assert parts == [(b"one",)] and stage.outcomes == []
    stage.hear("FINAL", "1", b"end")
    assert stage.outcomes == [Reply(200, "", (b"end",))]


def test_a_request_ends_a_grace_after_its_timeout(stage: Stage) -> None:
    stage.ask(timeout=3.0)
    stage.clock.advance(3.0 + GRACE - 0.01)
    assert stage.outcomes == []
    stage.clock.advance(0.01)
    assert stage.failures() == [(504, "deadline")] and not stage.client._pending
    stage.ask(timeout=3.0)
    stage.hear("FINAL", "2")
    assert not stage.clock.getDelayedCalls()


def test_a_process_that_stood_still_waits_a_grace_more(stage: Stage) -> None:
    stage.ask(timeout=1.0)
    [timer] = stage.clock.getDelayedCalls()
    stage.clock.rightNow += 60.0
    timer.called, _ = 1, stage.clock.calls.remove(timer)  # type: ignore[func-returns-value]
    timer.func(*timer.args)
    assert stage.outcomes == []
    stage.clock.advance(GRACE - 0.01)
    assert stage.outcomes == []
    stage.clock.advance(0.02)
    assert stage.failures() == [(504, "deadline")]


def test_a_full_line_and_too_many_requests_are_429(monkeypatch, stage: Stage) -> None:
    stage.line.room = False
    stage.ask()
    assert stage.failures() == [(429, "too_many")] and not stage.client._pending
    stage.line.room = True
    monkeypatch.setattr(module, "WAITING", 2)
    for _ in range(3):
        stage.ask()
    assert stage.failures() == [(429, "too_many")] and len(stage.client._pending) == 2


def test_without_a_broker_requests_wait_and_are_sent_with_the_time_that_is_left(stage: Stage) -> None:
    stage.line.state = State.CHECKING
    stage.ask(timeout=5.0)
    stage.ask()
    assert stage.line.take() == []
    stage.clock.advance(2.0)
    stage.become(State.ACTIVE)
    assert [options.get("timeout_ms") for _, options, _ in stage.line.take()] == [3000, None]
    stage.become(State.ACTIVE)
    assert stage.line.take() == [] and stage.changes == [(State.ACTIVE, "", 0)] * 2


@pytest.mark.parametrize("state", [State.LOST, State.BACKOFF])
def test_a_lost_broker_keeps_what_may_be_sent_twice(stage: Stage, state: State) -> None:
    stage.ask(idempotent=False)
    stage.ask()
    stage.line.take()
    stage.line.state = state
    stage.ask(idempotent=False)
    stage.become(state)
    assert stage.failures() == [(502, "broker_lost")]
    stage.become(State.ACTIVE)
    assert [options["id"] for _, options, _ in stage.line.take()] == ["2", "3"]


def test_a_refused_client_fails_all(stage: Stage) -> None:
    stage.ask()
    stage.become(State.STOPPED)
    assert stage.failures() == [(503, "no_broker")]
    stage.ask()
    assert stage.failures() == [(503, "no_broker")] and not stage.client._pending
    fresh = Stage()
    fresh.ask()
    fresh.client.stopService()
    assert fresh.failures() == [(503, "stopped")] and fresh.line.state is State.STOPPED


@pytest.mark.parametrize("sent", [True, False])
def test_cancelling_tells_the_broker_of_what_it_has(stage: Stage, sent: bool) -> None:
    stage.line.state = State.ACTIVE if sent else State.CHECKING
    other = stage.ask()
    answer = stage.ask(timeout=9.0)
    stage.line.take()
    answer.cancel()
    assert stage.line.take() == ([("CANCEL", {"id": "2"}, ())] if sent else [])
    assert list(stage.client._pending) == ["1"] and not stage.clock.getDelayedCalls() and not other.called


def test_a_client_has_its_name() -> None:
    assert Stage().client.name == "scale0 client c"


def test_starting_connects(stage: Stage) -> None:
    stage.client.startService()
    assert stage.client.running and stage.client.state is State.DIALLING


def test_a_configuration_is_told_to_its_taker() -> None:
    taken: list[Any] = []
    Stage(configured=taken.append).client._configured({"x": 1})
    Stage().client._configured({"x": 2})
    assert taken == [{"x": 1}]


def test_a_request_without_time_left_has_a_millisecond(stage: Stage) -> None:
    stage.become(State.CHECKING)
    stage.ask(timeout=2.0)
    stage.clock.advance(3.0)
    stage.become(State.ACTIVE)
    assert [options["timeout_ms"] for _, options, _ in stage.line.take()] == [1]


def test_a_reason_is_logged(stage: Stage, events: list[LogEvent]) -> None:
    stage.client._changed(State.ACTIVE, "", 0)
    stage.client._changed(State.BACKOFF, "it hung up", 408)
    assert list(map(formatEvent, events)) == ["scale0 client c: backoff: it hung up"]
    assert stage.changes == [(State.ACTIVE, "", 0), (State.BACKOFF, "it hung up", 408)]
