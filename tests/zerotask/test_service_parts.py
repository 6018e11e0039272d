"""Tests the service of ZeroTask without sockets: what reaches the broker, with which rights, and what it
sends where.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from groundwork.authority import ALL
from scale0.config.keys import Pair
from scale0.endpoint.effects import Target
from scale0.wire.reader import Sent
from scale0.wire.zap import Caller as Peer
from scale0.wire.zap import Origin
from zerotask import service as module
from zerotask.broker.scale0_gateway import Scale0Network
from zerotask.service import RouterConnection, Settings, StartError, ZeroTaskService, _must_be_local
from zerotask.tasks.connections import Caller
from zerotask.wire.links import LocalLink

PAIR = Pair("public", "secret")


class Keys:
    """Stands for the folder of keys: it has one of `me`, with a role."""

    def is_authorized(self, key: str) -> bool:
        return key == "K"

    def bound_to(self, key: str) -> str | None:
        return "me" if key == "K" else None

    def entry_of(self, key: str) -> Any:
        return SimpleNamespace(identity="me", roles=("helen",)) if key == "K" else None

    def reload(self) -> None:
        raise AssertionError("not in the reactor")


class Socket:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed: list[int] = []
        self.outcome = Sent.OK

    def send(self, frames: Any, hold: bool = False) -> Sent:
        self.sent.append((frames, hold))
        return self.outcome

    def close(self, linger: int) -> None:
        self.closed.append(linger)


class Stage:
    """Holds a service with a broker that notes what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        monkeypatch.setattr(module.time, "time", lambda: 99.0)
        self.service = ZeroTaskService(Settings(Path("/nowhere"), **settings), Clock())
        self.told: list[Any] = []
        self.service.broker = self  # type: ignore[assignment]
        self.service.running = 1
        self.state: Any = SimpleNamespace(trouble=None, damage=None)
        self.service._awake = SimpleNamespace(slept=0.0, seconds=lambda: 5.0)  # type: ignore[assignment]

    def receive(self, *told: Any) -> None:
        self.told.append(told)

    def tick(self, *told: Any) -> None:
        self.told.append(("tick", *told))

    def woke(self, *told: Any) -> None:
        self.told.append(("woke", *told))

    def hear(self, *frames: bytes, key: str = "", user: int | None = None, operator: bool = False) -> None:
        origin = Origin("127.0.0.1", key) if user is None else Origin(f"localhost:{user}:1:1", key)
        self.service._receiver("public", operator)(list(frames), origin)


def test_a_message_has_two_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message comes with the empty frame of a REQ or without it; all else is no client's."""
    stage = Stage(monkeypatch)
    for frames in ([b"id"], [b"id", b""], [b"id", b"x", b"text"], [b"id", b"", b"text", b"more"]):
        stage.hear(*frames)
    assert stage.told == []
    stage.hear(b"id", b"text")
    stage.hear(b"id", b"", b"text")
    for (caller, text, now, wall), enveloped in zip(stage.told, (False, True), strict=True):
        assert caller == Caller(RouterConnection("public", b"id", enveloped), "", False, bound=None, roles=())
        assert (text, now, wall) == (b"text", 5.0, 99.0)
    stage.service.running = 0
    stage.hear(b"id", b"text")
    assert len(stage.told) == 2


@pytest.mark.parametrize("settings, key, user, operator, roles, name", [
    ({}, "", None, False, (), ""), ({"is_open": True}, "", None, False, ALL, ""), ({}, "", os.getuid(), True, ALL, ""),
    ({}, "", 0, True, ALL, ""), ({}, "", 4_000_000, True, (), ""),
    ({"pair": PAIR, "keys": Keys()}, "K", None, False, ("helen",), "me"),
    ({"pair": PAIR, "keys": Keys(), "is_open": True}, "K", None, False, ALL, "me"),
])  # fmt: skip
def test_with_which_rights_a_message_comes(
    monkeypatch: pytest.MonkeyPatch, settings: Any, key: str, user: int | None, operator: bool, roles: Any, name: str
) -> None:
    stage = Stage(monkeypatch, **settings)
    stage.hear(b"id", b"text", key=key, user=user, operator=operator)
    [(caller, *_)] = stage.told
    assert (caller.roles, caller.key_name, caller.operator, caller.key) == (roles, name, operator, key)
    assert caller.bound == ("me" if key else None) and stage.service._name_of_key(key) == (name if key else "")


def test_a_key_that_was_removed_is_heard_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch, pair=PAIR, keys=Keys())
    stage.hear(b"id", b"text", key="removed")
    assert stage.told == []
    stage.hear(b"id", b"text", user=os.getuid(), operator=True)
    assert len(stage.told) == 1


@pytest.mark.parametrize("settings, peer, admitted", [
    ({}, ("127.0.0.1", "NULL", ""), True), ({}, ("192.0.2.1", "NULL", ""), False),
    ({}, ("127.0.0.1", "CURVE", "K"), False),
    ({"pair": PAIR, "keys": Keys()}, ("192.0.2.1", "CURVE", "K"), True),
    ({"pair": PAIR, "keys": Keys()}, ("192.0.2.1", "CURVE", "x"), False),
    ({"pair": PAIR, "keys": Keys()}, ("127.0.0.1", "NULL", ""), False),
    ({"pair": PAIR}, ("127.0.0.1", "CURVE", "K"), False),
])  # fmt: skip
def test_who_is_admitted(monkeypatch: pytest.MonkeyPatch, settings: Any, peer: Any, admitted: bool) -> None:
    address, mechanism, key = peer
    assert Stage(monkeypatch, **settings).service._admits(Peer("zerotask", address, mechanism, key)) is admitted


@pytest.mark.parametrize("enveloped, frames", [(True, [b"id", b"", b"text"]), (False, [b"id", b"text"])])
def test_an_answer_has_the_form_of_its_question(monkeypatch: pytest.MonkeyPatch, enveloped: bool, frames: Any) -> None:
    stage, socket = Stage(monkeypatch), Socket()
    connection = RouterConnection("public", b"id", enveloped)
    assert stage.service._send(connection, b"text") is False
    stage.service._routers["public"] = socket  # type: ignore[assignment]
    for outcome in (Sent.OK, Sent.FULL, Sent.GONE):
        socket.outcome = outcome
        assert stage.service._send(connection, b"text") is (outcome is Sent.OK)
    assert socket.sent == [(frames, True)] * 3


def test_a_link_in_this_process_uses_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, texts = Stage(monkeypatch), []  # type: ignore[var-annotated]
    link = stage.service.local_link(operator=True, roles=("helen",))
    assert isinstance(link, LocalLink) and stage.service._send(link, b"early") is False
    link.open(texts.append, lambda: None)
    link.send(b"question")
    assert stage.service._send(link, b"answer") is True
    stage.service._reactor.advance(0)
    [(caller, text, *_)] = stage.told
    assert (caller.connection, caller.operator, caller.roles, text) == (link, True, ("helen",), b"question")
    assert texts == [b"answer"] and link.trouble == ""
    stage.service.running = 0
    assert link.trouble


def test_nothing_is_published_without_a_subscriber(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOPICS", 2)
    stage, socket = Stage(monkeypatch), Socket()
    stage.service._announce(b"text")
    stage.service._pub = socket  # type: ignore[assignment]
    stage.service._announce(b"text")
    assert socket.sent == []
    for frame in (b"\1a", b"\1b", b"\1c", b"\2d", b""):
        stage.service._subscribed([frame], Origin("", ""))
    assert stage.service._topics == {b"a", b"b"}
    stage.service._announce(b"text")
    assert socket.sent == [([b"text"], False)]
    for frame in (b"\0a", b"\0b", b"\0c"):
        stage.service._subscribed([frame], Origin("", ""))
    stage.service._announce(b"text")
    assert len(socket.sent) == 1


def test_a_stall_is_told_before_the_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.service._tick()

    class Awake:
        slept = 3.0

        def seconds(self) -> float:
            self.slept += 2.5
            return 7.0

    stage.service._awake = Awake()  # type: ignore[assignment]
    stage.service._tick()
    assert stage.told == [("tick", 5.0, 99.0), ("woke", 2.5, 7.0, 99.0), ("tick", 7.0, 99.0)]
    stage.service.broker = None
    stage.service._tick()
    assert len(stage.told) == 3


def test_troubles_are_those_of_the_store_and_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    assert stage.service.troubles() == []
    stage.state.trouble, stage.state.damage = "the disk is full", "it was damaged"
    stage.service._gateway = SimpleNamespace(troubles=lambda: ["no broker"])  # type: ignore[assignment]
    assert stage.service.troubles() == ["the disk is full", "it was damaged", "no broker"]
    stage.service.broker = None
    assert stage.service.troubles() == ["no broker"]


def test_sockets_are_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, router, publisher = Stage(monkeypatch), Socket(), Socket()
    stage.service._routers["public"], stage.service._pub = router, publisher  # type: ignore[assignment]
    for _ in range(2):
        stage.service._close_sockets(500)
    assert (router.closed, publisher.closed, stage.service._routers, stage.service._pub) == ([500], [500], {}, None)


def network(endpoint: str, key: str = "", keys: Any = None) -> Scale0Network:
    return Scale0Network("b", backends=(Target("tcp://127.0.0.1:1"),), frontends=(Target(endpoint, key),), keys=keys)


@pytest.mark.parametrize("settings, wrong", [
    ({}, ""), ({"listen": "tcp://192.0.2.1:1"}, "tcp://192.0.2.1:1"), ({"publish": "tcp://0.0.0.0:1"}, "tcp://0.0.0.0:1"),
    ({"listen": "tcp://192.0.2.1:1", "pair": PAIR}, ""), ({"scale0": network("tcp://127.0.0.1:2")}, ""),
    ({"scale0": network("tcp://192.0.2.1:2")}, "tcp://192.0.2.1:2"),
    ({"scale0": network("tcp://192.0.2.1:2", "k", "keys")}, ""),
    ({"scale0": network("tcp://192.0.2.1:2", "k")}, "tcp://192.0.2.1:2"),
    ({"scale0": network("tcp://192.0.2.1:2", "", "keys")}, "tcp://192.0.2.1:2"),
])  # fmt: skip
def test_beyond_this_machine_only_with_keys(settings: Any, wrong: str) -> None:
    given = Settings(Path("/nowhere"), **settings)
    if wrong:
        with pytest.raises(StartError) as refusal:
            _must_be_local(given)
        assert str(refusal.value).startswith(f"{wrong}: ")
    else:
        _must_be_local(given)
