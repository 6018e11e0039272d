"""Tests what a backend asks on its own connection: its limits, and each end that a request can have."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from scale0.endpoint import requests as module
from scale0.endpoint.requests import NotAnswered, OutgoingRequests, is_late
from scale0.wire import options as opt


class Stage:
    """Requests, what was told of them, and their outcomes."""

    def __init__(self) -> None:
        self.clock, self.room = Clock(), True
        self.told: list[Any] = []
        self.outcomes: list[Any] = []
        self.requests = OutgoingRequests(self.clock, self._tell)

    def _tell(self, options: dict[str, Any], body: Any) -> bool:
        self.told.append((options, body))
        return self.room

    def ask(self, timeout: float = 3.0, active: bool = True) -> Deferred[Any]:
        answer = self.requests.ask("tea", [b"x"], timeout, active)
        answer.addBoth(self.outcomes.append)
        return answer

    def failures(self) -> list[tuple[int, str]]:
        found = [(each.value.code, each.value.reason) for each in self.outcomes]
        self.outcomes.clear()
        return found

    @property
    def is_quiet(self) -> bool:
        return not self.requests._pending and self.clock.getDelayedCalls() == []


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_failure_is_spelled_with_its_code() -> None:
    assert str(NotAnswered(504, "deadline")) == "504 deadline"


@pytest.mark.parametrize("code, fails", [(200, False), (399, False), (400, True), (503, True)])
def test_replies_from_400_on_are_failures(stage: Stage, code: int, fails: bool) -> None:
    stage.ask(timeout=1.25)
    assert stage.told == [({"id": "a1", "service": "tea", "timeout_ms": 1250}, [b"x"])]
    stage.requests.answered("PARTIAL", opt.Reply("a1"), [b"1", b"2"])
    stage.requests.answered("FINAL", opt.Reply("a1", code, "why"), [b"3"])
    assert (stage.failures() == [(code, "why")]) if fails else (stage.outcomes == [[b"1", b"2", b"3"]])
    stage.requests.answered("FINAL", opt.Reply("a1", code, "why"), [b"3"])
    assert len(stage.outcomes) == (not fails) and stage.is_quiet


def test_too_many_and_no_room_are_429(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING", 2)
    for _ in range(3):
        stage.ask()
    assert stage.failures() == [(429, "too_many")] and len(stage.told) == 2
    stage.ask(active=False)
    assert stage.failures() == [(503, "no_broker")]
    stage.requests.lost("gone")
    assert stage.failures() == [(503, "gone"), (503, "gone")] and stage.is_quiet
    stage.room = False
    stage.ask()
    assert stage.failures() == [(429, "too_many")] and stage.is_quiet


def test_a_request_ends_a_grace_after_its_timeout(stage: Stage) -> None:
    stage.ask(timeout=3.0)
    stage.clock.advance(4.99)
    assert stage.outcomes == []
    stage.clock.advance(0.02)
    assert stage.failures() == [(504, "deadline")] and stage.is_quiet


def test_a_process_that_stood_still_waits_a_grace_more(stage: Stage) -> None:
    stage.ask(timeout=3.0)
    stage.clock.advance(60.0)
    assert stage.outcomes == []
    stage.clock.advance(1.99)
    assert stage.outcomes == []
    stage.clock.advance(0.02)
    assert stage.failures() == [(504, "deadline")] and stage.is_quiet


@pytest.mark.parametrize("late, stood_still", [(0.0, False), (2.0, False), (2.25, True)])
def test_more_than_a_grace_late_is_a_stall(late: float, stood_still: bool) -> None:
    clock, found = Clock(), []
    timer = clock.callLater(8.0, lambda: found.append(is_late(clock, timer)))
    clock.advance(8.0 + late)
    assert found == [stood_still]


def test_a_request_that_is_cancelled_is_forgotten(stage: Stage) -> None:
    stage.ask().cancel()
    assert len(stage.outcomes) == 1 and stage.is_quiet
    stage.requests.answered("FINAL", opt.Reply("a1"), [])
    stage.ask()
    assert stage.told[-1][0]["id"] == "a2"
