"""Tests the connection of a client or worker without sockets: which sockets it opens and closes, its
wakes, its keys.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, formatEvent

from scale0.config.keys import KeyFault
from scale0.endpoint import connection as module
from scale0.endpoint.connection import Connection, Keys
from scale0.endpoint.effects import State, Target
from scale0.wire import frames as wire
from scale0.wire import options as opt
from scale0.wire.frames import S0
from scale0.wire.reader import CurveClient, Kind, Sent, SocketError
from scale0.wire.zap import NO_ORIGIN

HERE, AFAR = "tcp://127.0.0.1:1", "tcp://192.0.2.7:1"
SERVER = "k" * 40


class Wire:
    """Stands for a socket: it notes its calls."""

    def __init__(self, kind: Kind, received: Any, security: Any, faults: list[str]) -> None:
        self.kind, self.received, self.security, self._faults = kind, received, security, faults
        self.sent: list[tuple[str, dict[str, Any], list[bytes]]] = []
        self.holds: list[bool] = []
        self.outcome = Sent.OK
        self.endpoint = ""
        self.closed: list[int] = []

    def watch(self, changed: Any) -> None:
        self.changed = changed

    def connect(self, endpoint: str) -> None:
        if self._faults:
            raise SocketError(self._faults.pop())
        self.endpoint = endpoint

    def send(self, frames: Any, hold: bool = False) -> Sent:
        message = wire.parse(frames)
        self.sent.append((message.command, opt.decode_any(message.options), list(message.body)))
        self.holds.append(hold)
        return self.outcome

    def close(self, linger_ms: int = 0) -> None:
        self.closed.append(linger_ms)


class Stage:
    """Holds a connection, the sockets that it has opened, and what it has called back with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, brokers: Any = (HERE,), keys: Any = None) -> None:
        self.clock = Clock()
        self.clock.advance(50.0)
        self.sockets: list[Wire] = []
        self.faults: list[str] = []
        self.commands: list[Any] = []
        self.changes: list[tuple[State, str, int]] = []
        self.documents: list[Any] = []
        network = SimpleNamespace(socket=self._socket)
        monkeypatch.setattr(module, "Network", SimpleNamespace(of=lambda reactor: network))
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=self.clock.seconds, time=lambda: 1234.5))
        self.connection = Connection(
            self.clock, "backend", "w", brokers, lambda *heard: self.commands.append(heard),
            lambda *change: self.changes.append(change), self.documents.append, keys,
        )  # fmt: skip

    def _socket(self, kind: Kind, received: Any, security: Any) -> Wire:
        self.sockets.append(Wire(kind, received, security, self.faults))
        return self.sockets[-1]

    @property
    def line(self) -> Wire:
        return self.sockets[-1]

    def hear(self, command: str, *body: bytes, **options: Any) -> None:
        self.line.received(wire.scale0(S0, command, opt.encode(options), body), NO_ORIGIN)

    def states(self) -> list[str]:
        found = [state.value for state, _, _ in self.changes]
        self.changes.clear()
        return found

    def become_active(self) -> None:
        """Bring the connection from a new socket to a session, as a broker's answers do."""
        self.line.changed("handshake", HERE)
        self.hear("CONFIGACK", config_version="7", hbeatinterval=2.0)
        self.connection.ready_sent()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_without_a_broker_there_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="name at least one broker"):
        Stage(monkeypatch, brokers=())


def test_a_session_from_its_start_to_its_end(stage: Stage) -> None:
    connection = stage.connection
    assert connection.tell("READY", {}) is False and "no connection" in connection.trouble
    connection.start()
    assert (stage.line.kind, stage.line.endpoint, stage.line.security) == (Kind.DEALER, HERE, None)
    assert connection.state is State.DIALLING and stage.states() == ["dialling"]
    stage.line.changed("handshake", HERE)
    [(command, options, _)] = stage.line.sent
    assert (command, options["time"], stage.states()) == ("CHECKCONFIG", 1234.5, ["checking"])
    stage.hear("CONFIGACK", config_version="7", hbeatinterval=2.0)
    assert stage.documents == [{}] and [command for command, _, _ in stage.commands] == ["CONFIGACK"]
    connection.ready_sent()
    assert stage.states() == ["configured", "active"] and connection.trouble == ""
    assert connection.tell("FINAL", {"id": "1"}, [b"x"]) is True
    assert stage.line.sent[1:] == [("FINAL", {"id": "1"}, [b"x"])] and stage.line.holds == [True, True]
    connection.stop()
    assert stage.line.sent[-1][0] == "DISCONNECT" and stage.line.closed == [300]
    assert stage.states() == ["stopped"] and stage.clock.getDelayedCalls() == []
    assert connection.tell("FINAL", {"id": "1"}) is False


@pytest.mark.parametrize("outcome", [Sent.FULL, Sent.GONE])
def test_a_message_that_is_not_even_kept_is_told(stage: Stage, outcome: Sent) -> None:
    stage.connection.start()
    stage.line.outcome = outcome
    assert stage.connection.tell("FINAL", {"id": "1"}) is False


def test_it_wakes_once_for_what_is_due(stage: Stage) -> None:
    """The connection wakes for a heartbeat at each interval, and ends the session after three silent ones."""
    stage.connection.start()
    stage.become_active()
    assert [round(call.getTime(), 6) for call in stage.clock.getDelayedCalls()] == [52.0]
    stage.clock.advance(2.0)
    assert stage.line.sent[-1] == ("HEARTBEAT", {"time": 1234.5, "config_version": "7"}, [])
    assert [round(call.getTime(), 6) for call in stage.clock.getDelayedCalls()] == [54.0]
    for _ in range(100):
        stage.clock.advance(0.1)
    assert stage.changes[-1][0] in (State.LOST, State.DIALLING)
    assert stage.sockets[0].closed == [300] and "nothing received" in stage.connection.trouble
    assert len(stage.sockets) >= 2 and stage.sockets[1].endpoint == HERE


@pytest.mark.parametrize(
    "event, lost", [("disconnected", True), ("retried", True), ("refused", True), ("connected", False)]
)
def test_what_a_monitor_tells(stage: Stage, event: str, lost: bool) -> None:
    stage.connection.start()
    stage.line.changed(event, HERE)
    assert stage.connection.state is (State.LOST if lost else State.DIALLING) and bool(stage.line.closed) is lost
    reasons = {"refused": "the connection is refused: keys do not match"}
    expected = f"{HERE}: {reasons.get(event, 'no connection can be made')}" if lost else "there is no connection"
    assert stage.connection.trouble.startswith(expected)
    [wake] = stage.clock.getDelayedCalls()
    assert wake.getTime() == pytest.approx(stage.connection.negotiation.due) and (wake.getTime() < 50.6) is lost


def test_a_broken_message_is_counted_and_changes_nothing(stage: Stage) -> None:
    stage.connection.start()
    stage.become_active()
    for frames in ([b"noise"], wire.scale0(S0, "FINAL", b"[1]", ()), wire.scale0(S0, "READY", b"{}", ())):
        stage.line.received(frames, NO_ORIGIN)
    assert stage.connection.dropped == 3 and len(stage.commands) == 1 and stage.connection.state is State.ACTIVE


def test_another_broker_gets_another_socket(stage: Stage) -> None:
    stage.connection.start()
    stage.connection._dial(Target(AFAR))
    assert [each.closed for each in stage.sockets] == [[0], []] and stage.line.endpoint == AFAR
    stage.faults.append("no such device")
    stage.connection._dial(Target(HERE))
    assert [each.closed for each in stage.sockets] == [[0], [0], [0]] and not stage.connection.tell("CANCEL", {})


def test_a_socket_that_cannot_be_opened_is_closed_and_logged(stage: Stage, events: list[LogEvent]) -> None:
    stage.faults.append("no such device")
    stage.connection.start()
    assert stage.line.closed == [0] and stage.connection.state is State.LOST
    assert stage.connection.trouble == f"{HERE}: no such device" and formatEvent(events[0]) == "no such device"
    assert stage.connection.tell("FINAL", {"id": "1"}) is False
    stage.clock.advance(1.0)
    assert len(stage.sockets) == 2 and stage.line.endpoint == HERE and stage.line.closed == []


def test_a_configuration_is_read_and_its_brokers_are_known(stage: Stage, events: list[LogEvent]) -> None:
    stage.connection.start()
    stage.line.changed("handshake", HERE)
    document = b'{"group_config": [{"brokers": [{"identity": "b2", "backend": "tcp://x:2"}]}], "prefered_broker": "b2"}'
    stage.hear("CONFIG", document, config_version="8", hbeatinterval=2.0, config_type="JSON")
    [tree] = stage.documents
    negotiation = stage.connection.negotiation
    assert tree["prefered_broker"] == "b2" == negotiation.choice.preferred and tree is stage.connection.document
    assert negotiation.choice._known == [Target("tcp://x:2", "", "b2")]
    for broken in (b"[1]", b"{", b"\xff"):
        stage.connection._apply(broken)
    assert len(stage.documents) == 1 and stage.connection.document is tree and len(events) == 3


# ------------------------------------------------------------------------------------------ keys


def test_keys_are_for_brokers_whose_key_is_known() -> None:
    keys = Keys("public", "secret")
    assert keys.security(Target(HERE, SERVER)) == CurveClient("public", "secret", SERVER)
    assert keys.security(Target(HERE)) is None and "secret" not in repr(keys)


@pytest.mark.parametrize(
    "first, then, is_called",
    [(Target(HERE), Target("tcp://127.0.0.1:2"), True), (Target(HERE), Target(AFAR, identity="b2"), False),
     (Target(HERE), Target(AFAR, SERVER), True), (Target(HERE, SERVER), Target("tcp://127.0.0.1:2"), False),
     (Target(HERE, SERVER), Target(AFAR, SERVER), True), (Target(AFAR), Target(AFAR), True)],
)  # fmt: skip
def test_a_network_under_curve_is_not_left_for_a_broker_without_a_key(
    monkeypatch: pytest.MonkeyPatch, first: Target, then: Target, is_called: bool
) -> None:
    """A broker without a key is called under CURVE if the caller named it first, and never on the word
    of the network.
    """
    stage = Stage(monkeypatch, brokers=(first,), keys=Keys("public", "secret"))
    stage.connection.start()
    expected = CurveClient("public", "secret", SERVER) if first.key else None
    assert stage.line.security == expected
    opened = len(stage.sockets)
    stage.connection._dial(then)
    assert (len(stage.sockets) > opened and stage.line.endpoint == then.endpoint) is is_called
    if not is_called:
        name = then.identity or "there"
        assert f"{then.endpoint}: group_config names no public_key of the broker {name}, so" in stage.connection.trouble


class Ring:
    """Reads keys that change, or that are not there."""

    def __init__(self) -> None:
        self.secret: str | None = "old"

    def security(self, target: Target) -> CurveClient:
        if self.secret is None:
            raise KeyFault("no file of keys")
        return CurveClient("public", self.secret, SERVER)


def refuse(stage: Stage, code: int) -> None:
    stage.connection.start()
    stage.line.changed("handshake", HERE)
    stage.hear("DISCONNECTERROR", code=code, reason="no", message="go away")
    assert stage.connection.state is State.STOPPED


@pytest.mark.parametrize("code", [401, 403])
def test_refused_keys_are_looked_at_again_until_they_are_others(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    ring = Ring()
    stage = Stage(monkeypatch, keys=ring)
    refuse(stage, code)
    assert stage.connection.trouble == f"{HERE}: {code} no: go away"
    stage.clock.advance(5.0)
    assert len(stage.sockets) == 1
    ring.secret = None
    stage.clock.advance(5.0)
    assert stage.connection.trouble == "no file of keys" and len(stage.sockets) == 1
    ring.secret = "new"
    stage.clock.advance(4.9)
    assert len(stage.sockets) == 1
    stage.clock.advance(0.1)
    assert len(stage.sockets) == 2 and stage.line.security == CurveClient("public", "new", SERVER)
    stage.become_active()
    assert stage.connection.state is State.ACTIVE and stage.connection.trouble == ""


@pytest.mark.parametrize("code, keys", [(426, Ring()), (403, Keys("public", "secret")), (401, None)])
def test_other_refusals_and_other_keys_are_for_good(monkeypatch: pytest.MonkeyPatch, code: int, keys: Any) -> None:
    stage = Stage(monkeypatch, brokers=(Target(HERE, SERVER),), keys=keys)
    refuse(stage, code)
    assert stage.clock.getDelayedCalls() == []


def test_a_stopped_connection_looks_at_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, keys=Ring())
    refuse(stage, 401)
    assert len(stage.clock.getDelayedCalls()) == 1
    stage.connection.stop()
    stage.connection.stop()
    assert stage.clock.getDelayedCalls() == []
