"""Tests the sockets of a broker without libzmq: what is bound where, who is admitted, and what links and sources do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scale0_stage import broker_config, member

from scale0.broker.sockets import BrokerSockets, Security, host_of
from scale0.config.config import ConfigFault
from scale0.config.keys import Pair
from scale0.config.schema import GroupConfig
from scale0.wire.reader import CurveClient, CurveServer, Kind, Sent, SocketError
from scale0.wire.zap import NO_ORIGIN, Caller

PORTS = {"frontend_port": 11, "backend_port": 12, "peer_port": 13, "config_pub_port": 14}
KEYS = Security(Pair("public", "secret"), SimpleNamespace(is_authorized=lambda key: key == "known"))  # type: ignore[arg-type]
KEY = "k" * 40


class Socket:
    """Stands for a socket: it notes its calls."""

    def __init__(self, kind: Kind, domain: str | None, security: Any) -> None:
        self.kind, self.domain, self.security = kind, domain, security
        self.calls: list[Any] = []
        self.sent: list[Any] = []
        self.closed: list[int] = []

    def on_message(self, received: Any) -> None:
        self.received = received

    def bind(self, endpoint: str) -> str:
        if endpoint.endswith(":99"):
            raise SocketError(f"{endpoint}: taken")
        self.calls.append(endpoint)
        return endpoint.replace("*", "1234")

    def watch(self, changed: Any) -> None:
        self.changed = changed

    def connect(self, endpoint: str) -> None:
        self.calls.append(endpoint)

    def subscribe(self, topic: bytes) -> None:
        self.calls.append((b"+", topic))

    def unsubscribe(self, topic: bytes) -> None:
        self.calls.append((b"-", topic))

    def send(self, frames: Any, hold: bool = False) -> Sent:
        self.sent.append((list(frames), hold))
        return Sent.OK

    def close(self, linger_ms: int = 0) -> None:
        self.closed.append(linger_ms)


class Stage:
    """Opens the sockets of one broker, and keeps what they have heard."""

    def __init__(self, security: Security | None = None, **config: Any) -> None:
        self.made: list[Socket] = []
        self.rules: dict[str, Any] = {}
        self.kept_out: set[str] = set()
        self.heard: list[Any] = []
        self.links: list[Any] = []
        network: Any = SimpleNamespace(socket=self._socket, admit=self.rules.__setitem__)
        self.config = broker_config(**PORTS | config)
        self.sockets = BrokerSockets(network, self.config, security, lambda caller: caller.address in self.kept_out)

    def _socket(self, kind: Kind, domain: str | None = None, security: Any = None) -> Socket:
        self.made.append(Socket(kind, domain, security))
        return self.made[-1]

    def open(self) -> None:
        self.sockets.open(lambda *heard: self.heard.append(heard), self.heard.append)

    def connect_peers(self, config: Any = None) -> None:
        self.sockets.connect_peers(
            config or self.config, lambda *heard: self.heard.append(heard), lambda *told: self.links.append(told)
        )


@pytest.mark.parametrize("security, config, host", [
    (None, {}, "127.0.0.1"), (None, {"address": "127.0.0.5"}, "127.0.0.5"), (None, {"insecure": True}, "127.0.0.1"),
    (None, {"address": "0.0.0.0", "insecure": True}, "0.0.0.0"), (None, {"address": "0.0.0.0"}, None),
    (KEYS, {}, "*"), (KEYS, {"address": "192.0.2.1"}, "192.0.2.1"),
])  # fmt: skip
def test_which_address_is_bound(security: Security | None, config: dict[str, Any], host: str | None) -> None:
    if host is None:
        with pytest.raises(ConfigFault, match="NULL ports are bound on loopback only") as refusal:
            host_of(broker_config(**config), security)
        assert [fault.line for fault in refusal.value.faults] == [1]
    else:
        assert host_of(broker_config(**config), security) == host


@pytest.mark.parametrize("security", [None, KEYS])
def test_each_port_has_a_socket(security: Security | None) -> None:
    stage = Stage(security, peer_port=0)
    stage.open()
    host = "127.0.0.1" if security is None else "*"
    ends = [f"tcp://{host}:11", f"tcp://{host}:12", f"tcp://{host}:*", f"tcp://{host}:14"]
    assert [each.calls for each in stage.made] == [[end] for end in ends]
    assert [(each.kind, each.domain) for each in stage.made] == [
        (Kind.ROUTER, "frontend"), (Kind.ROUTER, "backend"), (Kind.ROUTER, "peer"), (Kind.XPUB, "config"),
    ]  # fmt: skip
    assert {each.security for each in stage.made} == {CurveServer("secret") if security else None}
    bound = [end.replace("*", "1234") for end in ends]
    assert stage.sockets.endpoints == dict(zip(("frontend", "backend", "peer", "config_pub"), bound, strict=True))
    for number, socket in enumerate(stage.made):
        socket.received([b"id", b"a", b"b"] if number < 3 else [b"\1topic"], NO_ORIGIN)
    names = ("frontend", "backend", "peer")
    assert stage.heard == [*(((name, b"id"), [b"a", b"b"], NO_ORIGIN) for name in names), b"\1topic"]


@pytest.mark.parametrize("port, together", [(11, True), (0, False)])
def test_one_port_may_serve_clients_and_workers(port: int, together: bool) -> None:
    """One port serves both if both are the same number; two ports that the kernel chooses are two."""
    stage = Stage(frontend_port=port, backend_port=port)
    stage.open()
    assert [each.domain for each in stage.made].count("backend") == (not together)
    assert (stage.sockets.endpoints["backend"] == stage.sockets.endpoints["frontend"]) or not together
    assert stage.sockets.send(("backend", b"x"), [b"a"], True) is (Sent.GONE if together else Sent.OK)


def test_a_taken_port_is_named() -> None:
    with pytest.raises(ConfigFault, match=r"peer_port.*taken") as refusal:
        Stage(peer_port=99).open()
    assert [fault.line for fault in refusal.value.faults] == [1]


@pytest.mark.parametrize("security, config, caller, admitted", [
    (None, {}, ("127.0.0.1", "NULL", ""), True), (None, {}, ("192.0.2.1", "NULL", ""), False),
    (None, {"insecure": True}, ("192.0.2.1", "NULL", ""), True), (None, {}, ("127.0.0.1", "CURVE", "known"), False),
    (KEYS, {}, ("192.0.2.1", "CURVE", "known"), True), (KEYS, {}, ("192.0.2.1", "CURVE", "other"), False),
    (KEYS, {}, ("127.0.0.1", "NULL", ""), False), (KEYS, {}, ("127.0.0.9", "CURVE", "known"), False),
    (None, {"insecure": True}, ("127.0.0.9", "NULL", ""), False),
])  # fmt: skip
def test_who_is_admitted(security: Any, config: dict[str, Any], caller: tuple[str, str, str], admitted: bool) -> None:
    stage = Stage(security, **config)
    stage.kept_out.add("127.0.0.9")
    stage.open()
    address, mechanism, key = caller
    for domain in ("frontend", "backend", "peer", "config"):
        assert stage.rules[domain](Caller(domain, address, mechanism, key)) is admitted


# --------------------------------------------------------------------------- links and sources


def test_links_follow_the_configuration() -> None:
    one, two = "tcp://127.0.0.1:21", "tcp://127.0.0.1:22"
    stage = Stage(peers=(one, "tcp://127.0.0.1:13"))
    stage.open()
    del stage.made[:]
    stage.connect_peers()  # not to itself
    stage.connect_peers()
    [link] = stage.made
    assert (link.kind, link.calls) == (Kind.DEALER, [one])
    link.received([b"a"], NO_ORIGIN)
    assert stage.heard == [((one, b""), [b"a"], NO_ORIGIN)]
    for event in ("connected", "handshake", "retried", "disconnected", "refused"):
        link.changed(event, one)
    assert stage.links == [(one, True), (one, False)]
    assert stage.sockets.send((one, b""), [b"a"], False) is Sent.OK and link.sent == [([b"a"], False)]
    stage.connect_peers(broker_config(**PORTS | {"peers": (two,)}))
    assert link.closed == [300] and stage.links[2:] == [(one, False)]
    assert stage.made[1].calls == [two] and stage.sockets.send((one, b""), [b"a"], False) is Sent.GONE


@pytest.mark.parametrize("security, insecure, endpoint, connects", [
    (None, False, "tcp://127.0.0.1:21", True), (None, False, "tcp://192.0.2.1:21", False),
    (None, True, "tcp://192.0.2.1:21", True), (None, False, "ipc:///run/x", True),
    (KEYS, False, "tcp://192.0.2.1:21", True), (KEYS, False, "tcp://192.0.2.2:21", False),
])  # fmt: skip
def test_which_brokers_are_called(security: Any, insecure: bool, endpoint: str, connects: bool) -> None:
    """The broker calls those whose key is known if there is CURVE, and else those of this machine."""
    known = member("b2", peer="tcp://192.0.2.1:21", config_pub="tcp://192.0.2.1:21", public_key=KEY)
    groups = (GroupConfig("east", (member("b3"), known)),)
    stage = Stage(security, insecure=insecure, peers=(endpoint,), config_sub_ports=(endpoint,), group_config=groups)
    stage.connect_peers()
    stage.sockets.connect_sources(stage.config, [b"t"], stage.heard.append)
    assert [each.kind for each in stage.made] == [Kind.DEALER, Kind.SUB] * connects
    assert {each.security for each in stage.made} <= {CurveClient("public", "secret", KEY) if security else None}


def test_sources_are_subscribed_and_again() -> None:
    stage = Stage(config_sub_ports=("tcp://127.0.0.1:31", "tcp://192.0.2.1:31"))
    stage.sockets.connect_sources(stage.config, [b"a", b"b"], stage.heard.append)
    [source] = stage.made
    assert source.calls == [(b"+", b"a"), (b"+", b"b"), "tcp://127.0.0.1:31"]
    source.received([b"a", b"x"], NO_ORIGIN)
    assert stage.heard == [[b"a", b"x"]]
    del source.calls[:]
    stage.sockets.subscribe_again([b"a", b"b"])
    assert source.calls == [(b"-", b"a"), (b"+", b"a"), (b"-", b"b"), (b"+", b"b")]


def test_what_is_sent_where_and_the_end() -> None:
    stage = Stage(peers=("tcp://127.0.0.1:21",), config_sub_ports=("tcp://127.0.0.1:31",))
    stage.sockets.publish([b"early"])
    stage.open()
    stage.connect_peers()
    stage.sockets.connect_sources(stage.config, [], stage.heard.append)
    for hold in (True, False):
        assert stage.sockets.send(("peer", b"id"), [b"a"], hold) is Sent.OK
    assert stage.sockets.send(("nowhere", b"id"), [b"a"], True) is Sent.GONE
    stage.sockets.publish([b"topic", b"text"])
    frontend, backend, peer, publisher, link, source = stage.made
    assert peer.sent == [([b"id", b"a"], True), ([b"id", b"a"], False)] and publisher.sent[0][0] == [b"topic", b"text"]
    for _ in range(2):
        stage.sockets.close()
    assert [each.closed for each in (frontend, backend, peer, link)] == [[300]] * 4
    assert [source.closed, publisher.closed] == [[0], [0]]
    assert stage.sockets.send(("peer", b"id"), [b"a"], True) is Sent.GONE
    stage.sockets.publish([b"late"])
    assert len(publisher.sent) == 1
