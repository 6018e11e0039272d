"""Tests services that a worker offers, option by option: READY, the bundles after it, and who is told of what."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, LogLevel, formatEvent
from worker_stage import WorkerStage

from scale0 import worker as module
from scale0.endpoint.effects import State
from scale0.endpoint.requests import NotAnswered
from scale0.wire import options as opt
from scale0.worker import Refused, Reply


@pytest.fixture
def stage() -> WorkerStage:
    return WorkerStage(concurrency=5)


def bundle(stage: WorkerStage) -> list[dict[str, Any]]:
    """Return the SERVICES that are told once the changes of a moment are together."""
    assert stage.take() == []
    stage.clock.advance(0.019)
    assert stage.take() == []
    stage.clock.advance(0.001)
    told = stage.take()
    assert {(command, body) for command, _, body in told} <= {("SERVICES", ())}
    return [options for _, options, _ in told]


def test_replies_and_refusals_as_they_are_made() -> None:
    assert (Reply().code, Reply().body, Reply().reason) == (200, (), "")
    assert str(Refused(418, "teapot")) == "418 teapot"


def test_a_worker_has_its_name_and_takes_one_request_at_once_unless_told_otherwise(stage: WorkerStage) -> None:
    assert (stage.worker.name, stage.worker.concurrency) == ("scale0 worker w", 5)
    assert WorkerStage().worker.concurrency == 1


def test_changes_of_a_moment_are_told_in_one_message(stage: WorkerStage) -> None:
    stage.worker.offer("tea", "milk")
    stage.worker.offer("rum", epochs={"rum": 9})
    assert len(stage.clock.getDelayedCalls()) == 1
    stage.worker.withdraw("milk", "unknown")
    assert list(stage.worker.services) == ["tea", "rum"] == stage.line.negotiation.services
    told = {"add": ["tea", "rum"], "remove": ["milk"], "seq": 1, "epochs": {"rum": 9}}
    assert bundle(stage) == [told] and bundle(stage) == []
    stage.worker.withdraw("rum", "tea")
    stage.worker.offer("tea")
    assert bundle(stage) == [{"add": ["tea"], "remove": ["rum"], "seq": 2}]


def test_a_service_is_told_again_only_with_another_epoch(stage: WorkerStage) -> None:
    stage.worker.offer("tea", "rum", epochs={"rum": 9})
    bundle(stage)
    stage.worker.offer("tea", "rum", epochs={"rum": 9})
    assert bundle(stage) == []
    stage.worker.offer("tea", "rum", epochs={"tea": 3, "rum": 10})
    assert bundle(stage) == [{"add": ["tea", "rum"], "remove": [], "seq": 2, "epochs": {"tea": 3, "rum": 10}}]


def test_many_changes_are_told_in_pieces(stage: WorkerStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PER_MESSAGE", 3)
    stage.worker.offer("a", "b", "c", "d", "e")
    bundle(stage)
    assert stage.line.negotiation.services == ["a", "b", "c"]
    stage.worker.withdraw("a", "b", "c", "d", "e")
    stage.worker.offer("v", "w", "x", "y", "z")
    assert [(o["add"], o["remove"]) for o in bundle(stage)] == [
        (["v", "w", "x"], ["a", "b", "c"]),
        (["y", "z"], ["d", "e"]),
    ]


def test_ready_lists_what_fits_and_services_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PER_MESSAGE", 2)
    monkeypatch.setattr(module.time, "time", lambda: 1234.5)
    seals = {"b": "sb", "d": "", "e": "se"}
    configured: list[Any] = []
    stage = WorkerStage(concurrency=5, configured=configured.append, seal=lambda service, epoch: seals[service])
    stage.line.state = State.CONFIGURED
    stage.worker.offer("a", "b", "c", "d", "e", epochs={"b": 1, "d": 2, "e": 3})
    stage.worker._seq = 8
    stage.worker._configured({"x": 1})
    options = {"hbeatinterval": 2.5, "time": 1234.5, "config_version": "7", "concurrency": 5}
    ready = options | {"services": ["a", "b"], "heartbeat": True, "epochs": {"b": 1}, "seals": {"b": "sb"}}
    assert stage.take() == [
        ("READY", ready, ()),
        ("SERVICES", {"add": ["c", "d"], "remove": [], "seq": 1, "epochs": {"d": 2}}, ()),
        ("SERVICES", {"add": ["e"], "remove": [], "seq": 2, "epochs": {"e": 3}, "seals": {"e": "se"}}, ()),
    ]
    assert configured == [{"x": 1}] and stage.line.calls == ["ready after 3"]
    stage.become(State.ACTIVE)
    stage.worker.offer("f")
    assert bundle(stage) == [{"add": ["f"], "remove": [], "seq": 3}]  # what READY has told is not told again


def test_without_a_session_services_wait_for_ready(stage: WorkerStage) -> None:
    stage.line.state = State.DIALLING
    stage.worker.offer("tea")
    assert bundle(stage) == [] and stage.line.negotiation.services == ["tea"]
    stage.line.state = State.ACTIVE
    stage.worker.offer("milk")
    stage.line.state = State.LOST
    assert bundle(stage) == []
    stage.line.state = State.ACTIVE
    stage.worker.offer("rum")
    assert bundle(stage)[0]["add"] == ["tea", "milk", "rum"]


def test_requests_that_wait_for_a_negotiation_end_with_its_broker(stage: WorkerStage) -> None:
    stage.line.state = State.CHECKING
    stage.hear()
    stage.become(State.LOST)
    stage.become(State.ACTIVE)
    assert stage.asked == []


def test_starting_and_stopping(stage: WorkerStage) -> None:
    stage.worker.offer("tea")
    stage.line.negotiation.services = []
    stage.worker.startService()
    assert stage.worker.running and stage.line.calls == ["start"] and stage.line.negotiation.services == ["tea"]
    stage.hear()
    outcomes: list[Any] = []
    stage.worker.ask("other", b"x", timeout=3.0).addErrback(lambda failure: outcomes.append(failure.value))
    assert stage.worker.inflight == 1
    stage.worker.stopService()
    assert not stage.worker.running and stage.line.calls == ["start", "stop"] and stage.clock.getDelayedCalls() == []
    assert stage.asked[0].cancelled and stage.worker.inflight == 0
    assert [(e.code, e.reason) for e in outcomes] == [(503, "stopped")]
    stage.worker.stopService()


def test_a_worker_stops_after_its_bundle_was_sent(stage: WorkerStage) -> None:
    stage.worker.startService()
    stage.worker.offer("tea")
    bundle(stage)
    stage.worker.stopService()
    assert stage.line.calls == ["start", "stop"]


def test_what_a_worker_asks_fails_without_a_broker_and_with_it(stage: WorkerStage) -> None:
    outcomes: list[Any] = []
    stage.line.state = State.BACKOFF
    stage.worker.ask("other", b"x", timeout=3.0).addErrback(lambda failure: outcomes.append(failure.value))
    assert isinstance(outcomes[0], NotAnswered) and str(outcomes[0]) == "503 no_broker" and stage.take() == []
    stage.line.state = State.ACTIVE
    stage.worker.ask("other", b"x", timeout=3.0).addBoth(outcomes.append)
    assert stage.take() == [("REQUEST", {"id": "a1", "service": "other", "timeout_ms": 3000}, (b"x",))]
    stage.worker._received("PARTIAL", opt.Reply("a1"), (b"half",))
    stage.worker._received("FINAL", opt.Reply("a1"), (b"whole",))
    assert outcomes[1] == [b"half", b"whole"]
    stage.worker.ask("other", timeout=3.0).addErrback(lambda failure: outcomes.append(failure.value.reason))
    stage.become(State.LOST)
    assert outcomes[2] == "no_broker"


def test_each_change_of_the_session_is_told_and_logged_with_its_reason(events: list[LogEvent]) -> None:
    changes: list[Any] = []
    stage = WorkerStage(changed=lambda *change: changes.append(change))
    stage.become(State.ACTIVE)
    stage.become(State.BACKOFF, "it hung up", 408)
    assert changes == [(State.ACTIVE, "", 0), (State.BACKOFF, "it hung up", 408)]
    assert list(map(formatEvent, events)) == ["scale0 worker w: backoff: it hung up"]
    WorkerStage().become(State.BACKOFF)


class Documents:
    """Stands for the documents of a worker: it notes its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def begin(self, tell: Any) -> None:
        self.calls.append(("begin", tell("DOCUMENTS", {}, ())))

    def end(self) -> None:
        self.calls.append("end")

    def listen(self, command: str, o: Any, body: Any) -> None:
        self.calls.append((command, o, body))


def test_documents_are_compared_after_ready_and_hear_what_is_no_request() -> None:
    documents = Documents()
    stage = WorkerStage(documents=documents)
    stage.worker._configured({})
    assert [command for command, _, _ in stage.take()] == ["READY", "DOCUMENTS"]
    assert documents.calls == [("begin", True)]
    stage.worker._received("HEARTBEAT", "o", (b"b",))
    stage.hear()
    stage.worker._received("CANCEL", opt.Cancel("1"), ())
    stage.become(State.LOST)
    assert documents.calls[1:] == [("HEARTBEAT", "o", (b"b",)), "end"]
    WorkerStage().worker._received("HEARTBEAT", "o", ())


def test_a_withdrawn_service_is_told_by_its_name() -> None:
    names: list[str] = []
    stage = WorkerStage(withdrawn=names.append, superseded=None)
    stage.worker.offer("a", "b")
    stage.worker._received("SERVICES", opt.ServicesDelta(remove=["b", "c"]), ())
    assert names == ["b"] and list(stage.worker.services) == ["a"]
    quiet = WorkerStage()
    quiet.worker.offer("a")
    quiet.worker._received("SERVICES", opt.ServicesDelta(remove=["a"]), ())
    assert quiet.withdrawn == [("a", None)]


def test_an_answer_that_fails_is_a_500_without_its_text(stage: WorkerStage, events: list[LogEvent]) -> None:
    stage.hear()
    stage.running[0].errback(ZeroDivisionError("secret"))
    assert stage.take() == [("FINAL", {"id": "1", "code": 500, "reason": "internal"}, ())]
    assert [event["log_failure"].type for event in events] == [ZeroDivisionError]
    stage.hear("2")
    stage.running[1].callback(7)  # no body at all
    assert stage.worker.inflight == 1 and events[1]["log_failure"].type is TypeError


def test_an_answer_without_room_is_dropped_and_logged(stage: WorkerStage, events: list[LogEvent]) -> None:
    for number, room in (("1", True), ("2", False)):
        stage.line.room = room
        stage.hear(number)
        stage.running[-1].callback(b"x")
        assert [event["log_level"] for event in events] == ([] if room else [LogLevel.error])
    assert stage.worker.inflight == 0


def test_what_an_answer_says_as_it_is_cancelled_goes_to_no_other_broker(stage: WorkerStage) -> None:
    stage.worker._answer = lambda request: Deferred(lambda deferred: deferred.callback(b"old"))
    stage.hear()
    stage.become(State.LOST)
    assert stage.take() == [] and stage.worker.inflight == 0
    stage.become(State.ACTIVE)
    stage.hear()
    stage.worker._received("CANCEL", opt.Cancel("1"), ())
    assert stage.take() == [("FINAL", {"id": "1", "code": 200}, (b"old",))]
