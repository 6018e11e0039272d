"""Tests what the service of a broker does for it, effect by effect: no sockets, no threads, and the clock by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, LogLevel, formatEvent
from twisted.python.failure import Failure

from scale0.broker import service as module
from scale0.broker.context import Announce, Entered, Log, Probe, Publish, Reload, Send, Store, Verify
from scale0.broker.service import LOCAL, BrokerService, _reachable
from scale0.documents.publication import Publication
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.reader import Sent
from scale0.wire.zap import Caller, Origin

ADDRESS = ("frontend", b"c")
OPERATOR = opt.ManagementReq("op", "pw", "status")


class Reactor(Clock):
    """Is a clock whose threads are its own turn."""

    def callFromThread(self, call: Any, *arguments: Any) -> None:
        call(*arguments)

    def getThreadPool(self) -> Any:
        return self

    def callInThreadWithCallback(self, done: Any, work: Any, *arguments: Any, **named: Any) -> None:
        try:
            value = work(*arguments, **named)
        except Exception:
            done(False, Failure())
        else:
            done(True, value)


class Sockets:
    """Stands for the sockets: it notes what is sent, and says what came of it."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.published: list[Any] = []
        self.connected: list[Any] = []
        self.outcome = Sent.OK
        self.endpoints = {"frontend": "tcp://f", "backend": "tcp://b", "peer": "tcp://p", "config_pub": "tcp://c"}

    def send(self, address: Any, frames: Any, hold: bool) -> Sent:
        self.sent.append((address, list(frames), hold))
        return self.outcome

    def publish(self, frames: Any) -> None:
        self.published.append(frames)

    def connect_peers(self, *given: Any) -> None:
        self.connected.append(given)


class Stage:
    """Runs a service whose broker is played by hand: `heard` has what the broker is told."""

    def __init__(self, folder: Path) -> None:
        file = folder / "broker.json"
        ports = dict.fromkeys(("frontend_port", "backend_port"), 0)
        file.write_bytes(msgspec.json.encode({"identity": "b1", **ports}))
        self.reactor, self.folder = Reactor(), folder / "state"
        self.service = BrokerService(self.reactor, file, self.folder, clock=lambda: (self.reactor.seconds(), 99.0))
        self.sockets = self.service.sockets = Sockets()  # type: ignore[assignment]
        self.service.running = 1
        self.heard: list[Any] = []
        self.effects: list[Any] = []  # that the broker answers with, once
        self.real, self.due = self.service.broker, None
        self.service.broker = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name not in ("undelivered", "probed", "verified", "stored", "reloaded", "tick", "manage"):
            return getattr(self.real, name)

        def hear(*told: Any) -> list[Any]:
            self.heard.append((name, *told))
            effects, self.effects = self.effects, []
            return effects

        return hear

    def perform(self, *effects: Any) -> None:
        self.service._perform(list(effects))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# -------------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("token, hold", [(b"", True), (b"t", False)])
def test_a_request_is_not_held_for_a_full_pipe_and_all_else_is(stage: Stage, token: bytes, hold: bool) -> None:
    stage.perform(Send(ADDRESS, [b"a"], token))
    assert stage.sockets.sent == [(ADDRESS, [b"a"], hold)] and stage.heard == []


@pytest.mark.parametrize("outcome, gone", [(Sent.GONE, True), (Sent.FULL, False)])
def test_what_was_not_sent_is_told_and_its_effects_follow(stage: Stage, outcome: Sent, gone: bool) -> None:
    sent, other = Send(ADDRESS, [b"a"], b"t"), Log("info", "it is away")
    stage.sockets.outcome, stage.effects = outcome, [other]
    stage.perform(sent)
    assert stage.heard == [("undelivered", sent, gone, 0.0, 99.0)] and stage.effects == []


@pytest.mark.parametrize("outcome", [Sent.OK, Sent.GONE, Sent.FULL])
def test_a_probe_tells_if_its_peer_is_gone(stage: Stage, outcome: Sent) -> None:
    stage.sockets.outcome = outcome
    stage.perform(Probe(ADDRESS, [b"a"], 7))
    assert stage.sockets.sent == [(ADDRESS, [b"a"], False)]
    assert stage.heard == [("probed", 7, outcome is Sent.GONE, 0.0, 99.0)]


# ------------------------------------------------------------------------------------- work in threads


@pytest.mark.parametrize("right", [True, False, None])
def test_a_password_is_compared_and_a_fault_of_that_is_no_yes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, right: bool | None
) -> None:
    def compare(stored: str, given: str) -> bool:
        assert (stored, given) == ("record", "pw")
        if right is None:
            raise ValueError("no record")
        return right

    monkeypatch.setattr(module, "password_is_right", compare)
    stage.perform(Verify(3, "record", "pw"))
    assert stage.heard == [("verified", 3, right is True, 0.0, 99.0)]


@pytest.mark.parametrize("state, stored", [("disabled", "disabled"), ("", "joining")])
def test_a_state_is_stored_and_told(stage: Stage, state: str, stored: str) -> None:
    stage.perform(Store(4, state))
    assert stage.heard == [("stored", 4, "", 0.0, 99.0)]
    assert json.loads((stage.folder / "broker.json").read_bytes())["state"] == stored


@pytest.mark.parametrize("ticket", [0, 4])
def test_a_disk_that_fails_is_told_to_those_that_wait(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, events: list[LogEvent], ticket: int
) -> None:
    monkeypatch.setattr(stage.service._folder, "store", lambda record: (_ for _ in ()).throw(OSError("disk full")))
    stage.perform(Store(ticket, "disabled"))
    assert stage.heard == ([("stored", 4, "disk full", 0.0, 99.0)] if ticket else [])
    assert [formatEvent(e) for e in events] == ["the state of the broker could not be stored: disk full"]


def test_a_file_is_read_again(stage: Stage, tmp_path: Path) -> None:
    stage.perform(Reload(5))
    [(name, ticket, (config, version), *_)] = stage.heard
    assert (name, ticket, config.identity, version) == ("reloaded", 5, "b1", stage.service._configurations.own_version)
    (tmp_path / "broker.json").write_text("{")
    stage.perform(Reload(6))
    assert stage.heard[1][:2] == ("reloaded", 6) and isinstance(stage.heard[1][2], str) and stage.heard[1][2]


def test_a_changed_configuration_reaches_links_and_subscribers(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[None] = []
    monkeypatch.setattr(stage.service._exchange, "changed", lambda: changes.append(None))
    stage.perform(Publish())
    assert len(stage.sockets.connected) == len(changes) == 1


def test_a_document_is_published_and_stored_in_its_newest_version(stage: Stage) -> None:
    texts = [Publication("scale0", "doc/x", number, "JSON", b"{}", b"") for number in (1, 2)]
    stored: list[Any] = []
    waiting: list[Any] = []
    stage.service._folder.store_document = stored.append  # type: ignore[method-assign]
    stage.service._in_turn = lambda lock, work: (
        waiting.append(work)
        or SimpleNamespace(  # type: ignore[assignment]
            addErrback=lambda logged: None
        )
    )
    for text in texts:
        stage.perform(Announce(text))
    assert stage.sockets.published == [text.frames() for text in texts]
    assert len(waiting) == 1 and stored == []
    waiting[0]()
    assert stored == [texts[1]]
    stage.perform(Announce(texts[0]))
    assert len(waiting) == 2


def test_run_json_is_there_while_the_broker_is_active(stage: Stage, events: list[LogEvent]) -> None:
    stage.service.http = "http://h/"
    run = stage.folder / "run.json"
    stage.perform(Entered("active"))
    assert json.loads(run.read_bytes()) == {
        "pid": os.getpid(), "identity": "b1", "state": "active", "http": "http://h/", **stage.sockets.endpoints,
    }  # fmt: skip
    assert formatEvent(events[-1]) == "Scale0 broker b1 at tcp://f"
    stage.perform(Entered("disabled"))
    assert not run.exists()


@pytest.mark.parametrize("state", ["active", "disabled"])
def test_a_url_is_noted_while_the_broker_serves(stage: Stage, state: str) -> None:
    stage.real.context.state = state
    stage.service.set_http("http://h/")
    assert stage.service.http == "http://h/" and (stage.folder / "run.json").exists() is (state == "active")


@pytest.mark.parametrize("level", ["info", "warn", "error"])
def test_a_line_is_logged_as_it_is(stage: Stage, events: list[LogEvent], level: str) -> None:
    stage.perform(Log(level, "a {brace}"))
    assert [(e["log_level"], formatEvent(e)) for e in events] == [(LogLevel.lookupByName(level), "a {brace}")]


# ---------------------------------------------------------------------------------------------- waking


def calls(stage: Stage) -> list[float]:
    return [call.getTime() for call in stage.reactor.getDelayedCalls()]


def test_it_wakes_when_the_broker_wants_it(stage: Stage) -> None:
    stage.perform()
    assert calls(stage) == []
    stage.due = 5.0
    stage.perform()
    stage.due = 8.0  # a later wish changes nothing: the tick comes first, and asks again
    stage.perform()
    assert calls(stage) == [5.0]
    stage.due = 3.0
    stage.perform()
    assert calls(stage) == [3.0]
    stage.due = 4.0
    stage.reactor.advance(3.0)
    assert stage.heard == [("tick", 3.0, 99.0)] and calls(stage) == [4.0]
    stage.due = None
    stage.reactor.advance(1.0)
    assert len(stage.heard) == 2 and calls(stage) == []


def test_what_was_due_before_comes_at_once_and_a_stopped_service_sleeps_on(stage: Stage) -> None:
    stage.reactor.advance(10.0)
    stage.due = 4.0
    stage.perform()
    assert calls(stage) == [10.0]
    stage.reactor.getDelayedCalls()[0].cancel()
    stage.service._wake_at, stage.service.running = float("inf"), 0
    stage.perform()
    assert calls(stage) == []


# --------------------------------------------------------------------------------------- this process


def answer(stage: Stage, ticket: bytes, *body: bytes, **options: Any) -> None:
    stage.perform(Send((LOCAL, ticket), wire.scale0(S0, "MANAGEMENTREP", opt.encode(options), body), b""))


def test_management_from_within_this_process(stage: Stage) -> None:
    stage.real.context.state = "active"
    answers: list[Any] = []
    for proven in (False, True):
        stage.service.manage(OPERATOR, Origin("127.0.0.1", ""), proven).addCallback(answers.append)
    assert [(name, *more[1:]) for name, *more in stage.heard] == [
        ("manage", OPERATOR, Origin("127.0.0.1", ""), 0.0, 99.0, proven) for proven in (False, True)
    ]
    first, second = (told[1] for told in stage.heard)
    answer(stage, second, b'{"y":2}', code=200, data={}, data_in_body=True)
    answer(stage, first, code=200, data={"x": 1})
    assert answers == [{"code": 200, "data": {"y": 2}}, {"code": 200, "data": {"x": 1}}]
    assert stage.service._local == {} and stage.sockets.sent == []
    stage.heard.clear()
    answer(stage, first, code=200)
    assert stage.heard[0][0] == "undelivered" and stage.heard[0][2] is True


def test_no_more_wait_than_there_is_room_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCAL_WAITING", 1)
    stage.real.context.state = "active"
    answers: list[Any] = []
    for _ in range(2):
        stage.service.manage(OPERATOR, Origin("127.0.0.1", "")).addCallback(answers.append)
    assert answers == [{"code": 503, "reason": "busy", "message": "too many requests at once", "data": {}}]
    assert len(stage.heard) == 1


@pytest.mark.parametrize("command, is_asked", [("status", False), ("enable", True)])
def test_a_disabled_broker_is_asked_to_be_enabled_alone(stage: Stage, command: str, is_asked: bool) -> None:
    stage.real.context.state = "disabled"
    answers: list[Any] = []
    stage.service.manage(opt.ManagementReq("op", "pw", command), Origin("127.0.0.1", "")).addCallback(answers.append)
    assert [each["code"] for each in answers] == ([] if is_asked else [503]) and len(stage.heard) == is_asked


@pytest.mark.parametrize("port, address, key, banned, kept_out", [
    ("frontend", "192.0.2.1", "", "192.0.2.1", True), ("frontend", "192.0.2.1", "", "", False),
    ("frontend", "127.0.0.1", "", "127.0.0.1", False), ("backend", "127.0.0.1", "", "127.0.0.1", True),
    ("frontend", "127.0.0.1", "k", "k", True), ("frontend", "127.0.0.1", "k", "127.0.0.1", False),
])  # fmt: skip
def test_who_is_kept_out(stage: Stage, port: str, address: str, key: str, banned: str, kept_out: bool) -> None:
    """A peer of this machine without a key may be an operator, so its messages are looked at."""
    for _ in range(5 if banned else 0):
        stage.real.context.failures.add(banned, "nonsense", 0.0)
    caller = Caller(port, address, "CURVE" if key else "NULL", key)
    assert stage.service._is_kept_out(caller) is kept_out


@pytest.mark.parametrize("endpoint, told", [
    ("tcp://0.0.0.0:1", ""), ("tcp://[::]:1", ""), ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"), ("", ""),
])  # fmt: skip
def test_a_wildcard_is_told_to_nobody(endpoint: str, told: str) -> None:
    assert _reachable(endpoint) == told
