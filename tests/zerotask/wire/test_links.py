"""Tests links to a broker without sockets: what a monitor tells, when keys are read again, and what is closed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from scale0.config.keys import KeyFault
from scale0.wire.reader import CurveClient, Kind, Sent, SocketError
from scale0.wire.zap import NO_ORIGIN
from zerotask.wire import links as module
from zerotask.wire.links import LocalLink, SocketLink

HERE, AFAR = "tcp://127.0.0.1:1", "tcp://192.0.2.7:1"
OLD, NEW = (CurveClient("public", secret, "k" * 40) for secret in ("old", "new"))
REFUSED = f"{HERE}: the connection is refused: keys do not match"
LOST = f"{HERE}: the connection cannot be made, or was lost"


class Line:
    """Stands for a socket: it notes its calls."""

    def __init__(self, received: Any, security: Any, faults: list[str]) -> None:
        self.received, self.security, self._faults = received, security, faults
        self.closed: list[int] = []
        self.sent: list[Any] = []
        self.outcome = Sent.OK

    def watch(self, changed: Any) -> None:
        self.tell = lambda event: changed(event, HERE)

    def connect(self, endpoint: str) -> None:
        if self._faults:
            raise SocketError(self._faults.pop())

    def send(self, frames: list[bytes], hold: bool = False) -> Sent:
        self.sent.append((frames, hold))
        return self.outcome

    def close(self, linger_ms: int = 0) -> None:
        self.closed.append(linger_ms)


class Stage:
    """Holds a link, its sockets, and what came of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.lines: list[Line] = []
        self.faults: list[str] = []
        self.texts: list[bytes] = []
        self.renewals: list[None] = []
        self.keys: Any = OLD
        network = SimpleNamespace(socket=self._socket)
        monkeypatch.setattr(module, "Network", SimpleNamespace(of=lambda reactor: network))

    def _socket(self, kind: Kind, received: Any, security: Any) -> Line:
        assert kind is Kind.DEALER
        self.lines.append(Line(received, security, self.faults))
        return self.lines[-1]

    def read_keys(self) -> CurveClient:
        if isinstance(self.keys, str):
            raise KeyFault(self.keys)
        return self.keys

    def link(self, security: Any = None, endpoint: str = HERE) -> SocketLink:
        link = SocketLink(self.clock, endpoint, security)
        link.open(self.texts.append, lambda: self.renewals.append(None))
        return link

    @property
    def line(self) -> Line:
        return self.lines[-1]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_link_carries_texts(stage: Stage) -> None:
    link = SocketLink(stage.clock, HERE)
    assert link.trouble == f"{HERE}: there is no connection yet" and link.send(b"x") is False
    link.close()
    link = stage.link()
    assert link.send(b"x") is True and stage.line.sent == [([b"", b"x"], True)] and stage.line.security is None
    for outcome in (Sent.FULL, Sent.GONE):
        stage.line.outcome = outcome
        assert link.send(b"x") is False
    for frames in ([b"", b"1"], [b"x", b"2"], [b"3"], [b"", b"4", b"5"], [b"", b"6"]):
        stage.line.received(frames, NO_ORIGIN)
    assert stage.texts == [b"1", b"6"]
    link.close()
    assert stage.line.closed == [200] and link.send(b"x") is False and stage.clock.getDelayedCalls() == []
    link.close()


def test_each_handshake_is_a_new_connection(stage: Stage) -> None:
    link = stage.link(OLD)
    stage.line.tell("connected")
    assert stage.renewals == [] and link.trouble
    for times in (1, 2):
        stage.line.tell("handshake")
        assert len(stage.renewals) == times and link.trouble == ""


@pytest.mark.parametrize(
    "events, trouble",
    [(["disconnected"], LOST), (["retried"], LOST), (["refused"], REFUSED), (["refused", "disconnected"], REFUSED),
     (["refused", "handshake", "disconnected"], LOST), (["handshake", "connected"], "")],
)  # fmt: skip
def test_the_trouble_is_the_last_that_was_heard(stage: Stage, events: list[str], trouble: str) -> None:
    link = stage.link(OLD)
    for event in events:
        stage.line.tell(event)
    assert link.trouble == trouble
    assert [call.getTime() for call in stage.clock.getDelayedCalls()] == [2.0] * bool(trouble)
    for _ in range(2):
        link.close()
    assert stage.clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    "event, keys, opens",
    [("disconnected", OLD, False), ("disconnected", NEW, True), ("refused", OLD, True), ("refused", NEW, True)],
)
def test_another_socket_is_opened_for_other_keys_and_after_a_refusal(
    stage: Stage, event: str, keys: CurveClient, opens: bool
) -> None:
    link = stage.link(stage.read_keys)
    stage.line.tell(event)
    stage.keys = keys
    stage.clock.advance(1.9)
    assert len(stage.lines) == 1
    stage.clock.advance(0.1)
    assert len(stage.lines) == 1 + opens and stage.lines[0].closed == [0] * opens
    assert stage.line.security == keys or not opens
    assert stage.clock.getDelayedCalls() == []
    stage.line.tell("handshake")
    assert link.trouble == ""


def test_a_refusal_belongs_to_the_socket_that_it_was_told_on(stage: Stage) -> None:
    link = stage.link(stage.read_keys)
    stage.line.tell("refused")
    stage.clock.advance(2.0)
    stage.line.tell("disconnected")
    assert link.trouble == LOST
    stage.clock.advance(2.0)
    assert len(stage.lines) == 2


def test_a_connection_that_came_back_by_itself_stays(stage: Stage) -> None:
    stage.link(stage.read_keys)
    stage.line.tell("disconnected")
    stage.line.tell("handshake")
    stage.keys = NEW
    stage.clock.advance(2.0)
    assert len(stage.lines) == 1 and stage.line.closed == [] and stage.clock.getDelayedCalls() == []


def test_keys_that_cannot_be_read_are_named_and_looked_for_again(stage: Stage, log_lines: list[str]) -> None:
    link = stage.link(stage.read_keys)
    stage.line.tell("disconnected")
    stage.keys = "no file of keys"
    for _ in range(3):
        stage.clock.advance(2.0)
    assert link.trouble == "no file of keys" and stage.lines[0].closed == [0] and link.send(b"x") is False
    assert [line for line in log_lines if "no file" in line] == ["no file of keys"]
    stage.keys = OLD
    stage.faults.append("no socket left")
    stage.clock.advance(2.0)
    assert link.trouble == "no socket left" and [line.closed for line in stage.lines] == [[0], [0]]
    stage.clock.advance(2.0)
    assert len(stage.lines) == 3 and link.send(b"x") is True
    stage.line.tell("handshake")
    assert link.trouble == ""


def test_beyond_this_machine_only_with_curve(stage: Stage) -> None:
    with pytest.raises(SocketError, match="7:1: beyond this machine only with CURVE"):
        stage.link(endpoint=AFAR)
    assert stage.lines == []
    stage.link(OLD, AFAR)
    assert stage.line.security == OLD


def test_an_endpoint_that_is_malformed_leaves_no_socket(stage: Stage) -> None:
    stage.faults.append("malformed")
    with pytest.raises(SocketError, match="malformed"):
        stage.link()
    assert stage.line.closed == [0]


# ------------------------------------------------------------------------------- within the process


def test_a_local_link_delivers_in_a_later_turn() -> None:
    clock, runs = Clock(), [True]
    forwarded: list[Any] = []
    texts: list[bytes] = []
    renewals: list[None] = []
    link = LocalLink(clock, lambda *call: forwarded.append(call), lambda: runs[0])
    assert link.deliver(b"early") is False and link.trouble == ""
    link.open(texts.append, lambda: renewals.append(None))
    assert (renewals, link.send(b"question"), link.deliver(b"answer"), forwarded, texts) == ([], True, True, [], [])
    clock.advance(0)
    assert (renewals, forwarded, texts) == ([None], [(link, b"question")], [b"answer"])
    link.deliver(b"late")
    link.close()
    clock.advance(0)
    assert texts == [b"answer"] and link.deliver(b"later") is False
    runs[0] = False
    assert link.trouble == "the broker in this process does not run"
    assert LocalLink(clock, lambda *call: None).trouble == ""
