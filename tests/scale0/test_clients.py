"""Tests the worker and client libraries against real brokers in the same process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from scale0 import client as client_module
from scale0.broker.service import BrokerService
from scale0.broker.sockets import Security
from scale0.client import Client, RequestFailed
from scale0.config.keys import AuthorizedKeys, Pair, write_pair
from scale0.endpoint.connection import Keys
from scale0.endpoint.effects import State, Target
from scale0.wire.reader import new_keys
from scale0.worker import Refused, Reply, Request, Worker

BEAT = 1.0


class Peers:
    """Starts the workers and clients of one case."""

    def __init__(self, pump: Any) -> None:
        self.pump = pump
        self._started: list[Any] = []

    def start(self, service: Any) -> Any:
        service.startService()
        self._started.append(service)
        return service

    def worker(
        self, *brokers: BrokerService | str, answer: Callable[[Request], Any] = lambda r: r.body, **options: Any
    ) -> Worker:
        """Return a worker of `echo` that the broker does not know yet."""
        ends = [b if isinstance(b, str | Target) else b.sockets.endpoints["backend"] for b in brokers]
        options = {"identity": "worker", "interval": BEAT, **options}
        worker = Worker(self.pump.reactor, options.pop("identity"), ends, answer, **options)
        worker.offer("echo")
        return self.start(worker)

    def client(self, *brokers: BrokerService | str, **options: Any) -> Client:
        ends = [b if isinstance(b, str | Target) else b.sockets.endpoints["frontend"] for b in brokers]
        return self.start(Client(self.pump.reactor, options.pop("identity", "client"), ends, interval=BEAT, **options))

    def active(self, *peers: Any) -> None:
        self.pump.until(lambda: all(p.state is State.ACTIVE for p in peers))

    def stop_all(self) -> None:
        for service in self._started:
            if service.running:
                self.pump.result(maybeDeferred(service.stopService))


@pytest.fixture
def peers(pump) -> Iterator[Peers]:
    peers = Peers(pump)
    yield peers
    peers.stop_all()


def knows(broker: BrokerService, service: str) -> bool:
    return broker.broker.routing.knows(service)


def test_a_request_is_answered(pump, brokers, peers):
    broker = brokers.start()
    peers.worker(broker)
    client = peers.client(broker)
    reply = pump.result(client.request("echo", b"one", b"", b"\x00\xff"))
    assert (reply.code, list(reply.body)) == (200, [b"one", b"", b"\x00\xff"])


def test_requests_wait_for_a_broker(pump, brokers, peers):
    """Requests that are made before there is any connection are sent and answered once there is one."""
    broker = brokers.start()
    client = peers.client(broker)
    answers = [client.request("echo", b"%d" % number) for number in range(3)]
    peers.worker(broker)
    assert [list(pump.result(answer).body) for answer in answers] == [[b"0"], [b"1"], [b"2"]]


def test_partial_answers_come_before_the_final_one(pump, brokers, peers):
    def answer(request: Request) -> bytes:
        request.partial(b"one")
        request.partial(b"two", b"")
        return b"three"

    broker = brokers.start()
    peers.worker(broker, answer=answer)
    parts: list[list[bytes]] = []
    reply = pump.result(peers.client(broker).request("echo", b"?", on_partial=lambda body: parts.append(list(body))))
    assert (parts, list(reply.body)) == ([[b"one"], [b"two", b""]], [b"three"])


def _refuse(request: Request) -> None:
    raise Refused(404, "unknown_agent", [b"no"])


def _break(request: Request) -> None:
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(
    "answer, code, reason",
    [
        (_refuse, 404, "unknown_agent"),
        (_break, 500, "internal"),
        (lambda r: Reply([b"x"], 418, "teapot"), 418, "teapot"),
    ],
)
def test_an_error_is_a_coded_failure(pump, brokers, peers, answer, code, reason):
    broker = brokers.start()
    worker = peers.worker(broker, answer=answer)
    client = peers.client(broker)
    with pytest.raises(RequestFailed) as caught:
        pump.result(client.request("echo", b"?"))
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert worker.inflight == 0


def test_a_deferred_answer_and_concurrency(pump, brokers, peers):
    """A worker with concurrency 2 has two requests in hand at once, and gets the third when one is answered."""
    held: list[tuple[Request, Deferred]] = []

    def answer(request: Request) -> Deferred:
        held.append((request, Deferred()))
        return held[-1][1]

    broker = brokers.start()
    peers.worker(broker, answer=answer, concurrency=2)
    client = peers.client(broker)
    answers = [client.request("echo", b"%d" % number) for number in range(3)]
    pump.until(lambda: len(held) == 2)
    pump.sit(0.1)
    assert len(held) == 2
    held[0][1].callback(b"first")
    assert list(pump.result(answers[0]).body) == [b"first"]
    pump.until(lambda: len(held) == 3)
    for _, deferred in held[1:]:
        deferred.callback(b"rest")
    assert [list(pump.result(a).body) for a in answers[1:]] == [[b"rest"]] * 2


def test_services_come_and_go_in_real_time(pump, brokers, peers):
    broker = brokers.start()
    worker = peers.worker(broker)
    peers.active(worker)
    worker.offer(*(f"equus.agent-{number}" for number in range(1000)))
    pump.until(lambda: knows(broker, "equus.agent-999"))
    assert all(knows(broker, f"equus.agent-{number}") for number in range(1000))
    worker.withdraw("equus.agent-3", "echo")
    pump.until(lambda: not knows(broker, "equus.agent-3"))
    assert not knows(broker, "echo") and knows(broker, "equus.agent-4")


def test_a_worker_with_many_services_announces_them_all_again(pump, brokers, peers):
    """A READY holds as many services as fit into a message and SERVICES the rest, also after a renegotiation."""
    broker = brokers.start()
    worker = peers.worker(broker)
    worker.offer(*(f"equus.agent-{number}" for number in range(1234)))
    pump.until(lambda: sum(1 for _ in broker.broker.routing.pool.services()) == 1235)


def test_an_unknown_agent_is_404_at_once(pump, brokers, peers):
    client = peers.client(brokers.start())
    with pytest.raises(RequestFailed) as caught:
        pump.result(client.request("equus.nobody", b"disk"))
    assert (caught.value.code, caught.value.reason) == (404, "unknown_agent")


def test_a_cancelled_request_reaches_the_worker(pump, brokers, peers):
    requests: list[Request] = []
    cancelled: list[bool] = []

    def answer(request: Request) -> Deferred:
        requests.append(request)
        return Deferred(lambda d: cancelled.append(True))

    broker = brokers.start()
    worker = peers.worker(broker, answer=answer)
    asked = peers.client(broker).request("echo", b"?")
    asked.addErrback(lambda f: None)
    pump.until(lambda: requests)
    asked.cancel()
    pump.until(lambda: cancelled)
    assert requests[0].cancelled
    pump.until(lambda: worker.inflight == 0)


def test_a_request_times_out(pump, brokers, peers):
    client = peers.client(brokers.start())
    with pytest.raises(RequestFailed) as caught:
        pump.result(client.request("echo", b"?", timeout=0.2))
    assert caught.value.code == 504


def test_the_newest_holder_of_an_agent_has_it(pump, brokers, peers):
    """The newest holder is that of the greatest attach epoch, whatever the order in which brokers hear of it; the old
    one is told.
    """
    broker = brokers.start()
    told: list[str] = []
    old = peers.worker(broker, identity="old", answer=lambda r: b"old", withdrawn=told.append)
    old.offer("equus.a", epochs={"equus.a": 1})
    peers.active(old)
    pump.until(lambda: knows(broker, "equus.a"))
    new = peers.worker(broker, identity="new", answer=lambda r: b"new")
    new.offer("equus.a", epochs={"equus.a": 2})
    pump.until(lambda: told == ["equus.a"])
    assert "equus.a" not in old.services
    assert list(pump.result(peers.client(broker).request("equus.a", b"?")).body) == [b"new"]


def test_an_agent_moves_to_another_broker(pump, brokers, peers):
    """An agent is found at the other broker, whose table says that it attached there later, and dropped here."""
    a, b = pair(brokers)
    told: list[str] = []
    old = peers.worker(a, identity="old", answer=lambda r: b"old", withdrawn=told.append)
    old.offer("equus.a", epochs={"equus.a": 1})
    pump.until(lambda: knows(b, "equus.a"))
    new = peers.worker(b, identity="new", answer=lambda r: b"new")
    new.offer("equus.a", epochs={"equus.a": 2})
    pump.until(lambda: told == ["equus.a"])
    assert list(pump.result(peers.client(a).request("equus.a", b"?")).body) == [b"new"]


# ------------------------------------------------------------------------------ brokers that go away


def group(*brokers: BrokerService) -> list[dict[str, Any]]:
    """Return a [ GROUP CONFIG ] that says where these brokers are."""
    members = [
        {"identity": b.broker.config.identity}
        | {name: b.sockets.endpoints[name] for name in ("frontend", "backend", "peer")}
        for b in brokers
    ]
    return [{"name": "east", "brokers": members}]


def pair(brokers: Any, **config: Any) -> tuple[BrokerService, BrokerService]:
    """Start two brokers of one group; b calls a, and a knows where b is by a shared configuration."""
    a = brokers.start("a", group="east", **config)
    b = brokers.start("b", group="east", peers=[a.sockets.endpoints["peer"]], **config)
    for broker in (a, b):
        broker.share({"group_config": group(a, b)})
    brokers._pump.until(lambda: a.broker.peers.all and b.broker.peers.all)
    return a, b


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_restarted_broker_is_joined_again(pump, brokers, peers, tmp_path):
    """A restarted broker has the same ports and no memory: the monitor's second handshake makes both
    sides begin anew.
    """
    broker = brokers.start()
    ports = {f"{n}_port": int(broker.sockets.endpoints[n].rpartition(":")[2]) for n in ("frontend", "backend", "peer")}
    worker, client = peers.worker(broker), peers.client(broker)
    pump.result(client.request("echo", b"before"))
    brokers.stop(broker)
    pump.until(lambda: worker.state is not State.ACTIVE and client.state is not State.ACTIVE)
    answer = client.request("echo", b"after")
    pump.until(lambda: all(map(is_free, ports.values())))  # libzmq's own thread closes them, when it comes to it
    brokers.start(**ports)
    assert list(pump.result(answer).body) == [b"after"]


def test_when_its_broker_dies_a_client_finds_another(pump, brokers, peers):
    """The client asks another broker of the group by NEEDBROKER, and asks again what was not answered."""
    a, b = pair(brokers)
    worker, client = peers.worker(a, identity="w"), peers.client(a)
    other = peers.worker(b, identity="w2")
    peers.active(worker, client, other)
    brokers.stop(a)
    assert list(pump.result(client.request("echo", b"still there")).body) == [b"still there"]
    pump.until(lambda: worker.state is State.ACTIVE)
    assert client.connection.negotiation.target.endpoint == b.sockets.endpoints["frontend"]
    assert worker.connection.negotiation.target.endpoint == b.sockets.endpoints["backend"]


def test_a_deadline_that_comes_late_gives_the_answer_a_moment_and_then_ends(pump, brokers, peers, monkeypatch):
    """An answer may lie in the socket of a client that stood still, so it waits a moment more, and not for ever."""
    client = peers.client(brokers.start())
    peers.active(client)
    late = iter([True, True])
    monkeypatch.setattr(client_module, "GRACE", 0.05)
    monkeypatch.setattr(client_module, "is_late", lambda reactor, timer: next(late, False))
    monkeypatch.setattr(client.connection, "tell", lambda *args: True)  # no broker hears of it
    with pytest.raises(RequestFailed, match="504"):
        pump.result(client.request("tea", b"cup", timeout=0.1))
    assert next(late, None) is None


def test_what_is_not_idempotent_fails_with_its_broker(pump, brokers, peers):
    requests: list[Request] = []
    broker = brokers.start()
    peers.worker(broker, answer=lambda r: requests.append(r) or Deferred())
    answer = peers.client(broker).request("echo", b"pay", idempotent=False)
    pump.until(lambda: requests)
    brokers.stop(broker)
    with pytest.raises(RequestFailed) as caught:
        pump.result(answer)
    assert caught.value.code in (502, 503)
    pump.until(lambda: requests[0].cancelled)  # whoever of the two hears of it first


def test_a_stopped_client_fails_what_is_open(pump, brokers, peers):
    client = peers.client(brokers.start())
    answer = client.request("nobody", b"?")
    pump.result(maybeDeferred(client.stopService))
    with pytest.raises(RequestFailed, match="503 stopped"):
        pump.result(answer)


# -------------------------------------------------------------------------------------------- CURVE


@pytest.fixture
def curve(tmp_path):
    """Return a broker's security, and a function that authorizes others."""
    folder = tmp_path / "authorized"
    folder.mkdir()

    def authorize(identity: str) -> Keys:
        pair = Pair(*new_keys())
        public = write_pair(tmp_path / f"{identity}.secret", pair, identity)
        public.rename(folder / f"{identity}.key")
        return Keys(pair.public, pair.secret)

    return Security(Pair(*new_keys()), AuthorizedKeys(folder)), authorize


def secured(broker: BrokerService, security: Security, end: str) -> Target:
    return Target(f"tcp://127.0.0.1:{broker.sockets.endpoints[end].rpartition(':')[2]}", security.pair.public)


def test_curve_from_end_to_end(pump, brokers, peers, curve):
    security, authorize = curve
    worker_keys, client_keys = authorize("worker"), authorize("client")
    security.authorized.reload()
    broker = brokers.start(security=security, address="127.0.0.1")
    peers.worker(secured(broker, security, "backend"), keys=worker_keys)
    client = peers.client(secured(broker, security, "frontend"), keys=client_keys)
    assert list(pump.result(client.request("echo", b"secret")).body) == [b"secret"]


def test_an_identity_is_bound_to_its_key(pump, brokers, peers, curve):
    """A key that calls itself by another's name gets 403, and gives up."""
    security, authorize = curve
    keys = authorize("worker")
    security.authorized.reload()
    broker = brokers.start(security=security, address="127.0.0.1")
    liar = peers.worker(secured(broker, security, "backend"), keys=keys, identity="somebody-else")
    pump.until(lambda: liar.state is State.STOPPED)
    assert not knows(broker, "echo")


def let_in(pump, brokers, peers, curve, **options) -> tuple[BrokerService, Worker, Path]:
    """Return a broker, a worker of `echo` that it knows, and the file that lets it in."""
    security, authorize = curve
    keys = authorize("worker")
    security.authorized.reload()
    broker = brokers.start(security=security, address="127.0.0.1")
    worker = peers.worker(secured(broker, security, "backend"), keys=keys, **options)
    pump.until(lambda: knows(broker, "echo"))
    return broker, worker, security.authorized.folder / "worker.key"


@pytest.mark.adversary(60)
def test_a_key_that_is_removed_is_cut_with_its_next_message(pump, brokers, peers, curve):
    """A key that is removed is cut with its next message, before any of its rare heartbeats."""
    broker, worker, file = let_in(pump, brokers, peers, curve, interval=60.0)
    key, authorized = worker.connection._keys.public, curve[0].authorized
    file.unlink()
    pump.until(lambda: not authorized.is_authorized(key))
    assert worker.state is State.ACTIVE
    worker.offer("more")
    pump.until(lambda: worker.state is State.STOPPED)
    assert not knows(broker, "echo")
    assert not knows(broker, "more")


def test_who_calls_again_without_a_key_is_let_in_when_it_is_back(pump, brokers, peers, curve):
    """A worker that was refused while its key was gone goes on calling, and is let in when the key is back."""
    broker, worker, file = let_in(pump, brokers, peers, curve)
    text = file.read_text()
    file.unlink()
    curve[0].authorized.reload()
    worker.connection._perform(worker.connection.negotiation.disconnected(time.monotonic()))
    pump.until(lambda: not knows(broker, "echo"))
    pump.sit(0.5)
    assert worker.state in (State.LOST, State.DIALLING)
    file.write_text(text)
    pump.until(lambda: worker.state is State.ACTIVE and knows(broker, "echo"))


@pytest.mark.adversary(60)
def test_strangers_and_plain_peers_stay_outside(pump, brokers, peers, curve):
    security, _ = curve
    broker = brokers.start(security=security, address="127.0.0.1")
    stranger = peers.worker(secured(broker, security, "backend"), keys=Keys(*new_keys()))
    plain = peers.worker(broker.sockets.endpoints["backend"], identity="plain")
    pump.sit(0.5)
    assert State.ACTIVE not in (stranger.state, plain.state)
    assert not broker.broker.sessions.all
