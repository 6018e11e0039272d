"""Tests connections to `helen zabbix`: strangers, too many, too slow; and a Helen that refuses or goes away midway."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import define, field
from helen_running import PATIENCE, wait_until

from helen.cli.base.failures import Failed, Missing
from helen.cli.base.listening import Counts
from helen.cli.zabbix import listener as module
from helen.cli.zabbix.item_file import ItemFile, read
from helen.cli.zabbix.listener import MOST_CONNECTIONS, Listener
from helen.cli.zabbix.packets import HEADER, packet

FILE = """
listen = ["127.0.0.1:0"]
at_once = {at_once}
[[source]]
address = "{address}"
hosts = ["nas"]
[[item]]
key = "a"
check = "a"
[[item]]
key = "noise"
drop = true
"""


@define(slots=False)
class Played:
    """Takes results as Helen does; `answers` are errors for the next ones, None is none."""

    answers: list[Exception | None] = field(factory=list)
    taken: list[dict[str, Any]] = field(factory=list)

    def post(self, path: str, body: dict[str, Any], patience: float) -> Any:
        error = self.answers.pop(0) if self.answers else None
        if error is not None:
            raise error
        self.taken.append(body)


@define
class Scene:
    listener: Listener
    helen: Played
    told: list[str]
    port: int

    def connect(self, own: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE, (own, 0))

    def send(self, *values: Any, own: str = "127.0.0.1") -> Any:
        with self.connect(own) as link:
            link.sendall(packet({"request": "sender data", "data": list(values)}))
            return heard(link)


def heard(link: socket.socket) -> Any:
    """Return the JSON of an answer, None if the connection is closed without any."""
    try:
        said = b"".join(iter(lambda: link.recv(65_536), b""))
    except ConnectionResetError:
        return None
    return json.loads(said[HEADER.size :]) if said else None


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scene]]:
    """Begin to listen by a file; what is counted is told at the end."""
    begun: list[tuple[Scene, threading.Thread]] = []

    def begin(address: str = "127.0.0.1", at_once: int = 1_000, hear: float = PATIENCE) -> Scene:
        monkeypatch.setattr(module, "HEAR_SECONDS", hear)
        config: ItemFile = read(FILE.format(address=address, at_once=at_once))
        helen, told, now = Played(), list[str](), [0.0]
        steady = (lambda: now[0]) if at_once < 1_000 else time.monotonic
        listener = Listener(config, helen, Counts(told.append), steady)  # type: ignore[arg-type]
        [(_, port)] = listener.bind()
        thread = threading.Thread(target=listener.run)
        thread.start()
        begun.append((Scene(listener, helen, told, port), thread))
        return begun[-1][0]

    yield begin
    for scene, thread in begun:
        scene.listener.ended.set()
        thread.join(PATIENCE)
        scene.listener.close()


def ended(scene: Scene) -> str:
    """Return the counters."""
    scene.listener.counts.flush()
    return "; ".join(scene.told)


ONE = {"host": "nas", "key": "a", "value": "5"}


def test_values_are_reported_in_their_order(served: Callable[..., Scene]) -> None:
    """Values that can't be read, are of others or mean nothing have failed; a dropped one has not."""
    scene = served()
    said = scene.send(ONE, 5, ONE | {"host": "db"}, ONE | {"key": "b"}, ONE | {"key": "noise"}, ONE | {"value": "6"})
    assert said["info"].startswith("processed: 3; failed: 3; total: 6;")
    assert [each["output"] for each in scene.helen.taken] == ["5", "6"]
    counted = ended(scene)
    for what in ("2 taken", "1 values that can't be read (from 127.0.0.1: a value is an object)", "1 dropped (noise)",
                 "1 values for others (from 127.0.0.1 for db)", "1 without a meaning (b)"):  # fmt: skip
        assert what in counted


def failed(status: int | None) -> Failed:
    error = Failed(f"it says {status}")
    error.status = status
    return error


@pytest.mark.parametrize("error", [Missing("not declared"), failed(429), failed(409), failed(500)])
def test_a_value_that_helen_refuses_has_failed(served: Callable[..., Scene], error: Exception) -> None:
    """A refused value has failed, and the other one is reported."""
    scene = served()
    scene.helen.answers = [error]
    assert scene.send(ONE, ONE)["info"].startswith("processed: 1; failed: 1; total: 2;")
    assert "1 not taken by Helen (nas/a: " in ended(scene)


@pytest.mark.parametrize("status", [None, 200, 502, 503])
def test_helen_goes_away_midway(served: Callable[..., Scene], status: int | None) -> None:
    """Values that it has taken count, the rest has failed; when it had none, the sender is told to come again."""
    scene = served()
    scene.helen.answers = [None, failed(status)]
    assert scene.send(ONE, ONE, ONE)["info"].startswith("processed: 1; failed: 2; total: 3;")
    scene.helen.answers = [failed(status)]
    assert scene.send(ONE, ONE) == {"response": "failed", "info": "Helen is away: send it again later"}
    assert len(scene.helen.taken) == 1
    assert f"4 values while Helen is away (it says {status})" in ended(scene)


def test_a_stranger_is_not_read(served: Callable[..., Scene]) -> None:
    """The connection is closed at once."""
    scene = served(address="10.9.9.9")
    with scene.connect() as link:
        assert heard(link) is None
    assert "1 of strangers (from 127.0.0.1)" in ended(scene)


def test_an_address_has_a_limit(served: Callable[..., Scene]) -> None:
    """An address may connect twice at once, and then once a second."""
    scene = served(at_once=2)
    assert [scene.send(ONE) is not None for _ in range(2)] == [True, True]
    with scene.connect() as link:
        assert heard(link) is None
    assert "1 over the limit (from 127.0.0.1)" in ended(scene)


def test_no_more_than_a_few_at_once(served: Callable[..., Scene]) -> None:
    """A silent quarter of all places keeps its own address out, and four of them all others, until they end."""
    scene = served(address="127.0.0.0/8")
    silent = [scene.connect() for _ in range(MOST_CONNECTIONS // 4)]
    with scene.connect() as link:
        assert heard(link) is None
    assert scene.send(ONE, own="127.0.0.2")["response"] == "success"
    assert "1 too many at once (from 127.0.0.1: it has 5)" in ended(scene)
    wait_until(lambda: scene.listener._places.held == 5, "a place that is free again", PATIENCE)
    silent += [scene.connect(f"127.0.0.{at}") for at in (2, 3, 4) for _ in range(MOST_CONNECTIONS // 4)]
    with scene.connect("127.0.0.5") as link:
        assert heard(link) is None
    for each in silent:
        each.close()
    wait_until(lambda: not scene.listener._places.held, "places that are free again", PATIENCE)
    assert scene.send(ONE)["response"] == "success"
    assert "1 too many at once (from 127.0.0.5: all have 20)" in ended(scene)


def test_no_post_waits_beyond_the_time_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for all is counted from the connection; here a packet takes 5 s, and each value 11 s."""
    now, given = [100.0], list[float]()

    def post(_path: str, _body: dict[str, Any], patience: float) -> None:
        given.append(patience)
        now[0] += 11.0

    def hear(*_: Any) -> bytes:
        now[0] += 5.0
        return json.dumps({"request": "sender data", "data": [ONE] * 6}).encode()

    config, helen = read(FILE.format(address="127.0.0.1", at_once=9)), Played()
    monkeypatch.setattr(helen, "post", post)
    monkeypatch.setattr(Listener, "_hear", hear)
    listener = Listener(config, helen, Counts(lambda _: None), lambda: now[0])  # type: ignore[arg-type]
    ours, theirs = socket.socketpair()
    with theirs:
        listener._serve(ours, "127.0.0.1", list(config.sources))
        theirs.settimeout(PATIENCE)
        assert heard(theirs)["info"].startswith("processed: 4; failed: 2; total: 6;")
    assert given == [10.0, 10.0, 10.0, 2.0]


def test_one_that_is_slow_is_given_up(served: Callable[..., Scene]) -> None:
    """The time is for all of a packet, and not for each of its bytes."""
    scene = served(hear=0.2)
    with scene.connect() as link:
        link.sendall(b"ZBXD\x01")
        assert heard(link) == {"response": "failed", "info": "it was not whole within 0.2 s"}
