"""The sockets of one broker: what is bound where, who is let in, which fellows and sources are called.

Without CURVE a broker listens on loopback only, and lets in what comes from loopback, unless its configuration says
`insecure = 1`: whoever reaches a NULL port can read and send everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from twisted.logger import Logger

from scale0.config import BrokerConfig, ConfigFault, Fault
from scale0.context import BACKEND, FRONTEND, PEER
from scale0.keys import AuthorizedKeys, Pair
from scale0.lru import Address
from scale0.reader import CurveClient, CurveServer, Kind, Network, Sent, Socket, SocketError
from scale0.zap import Caller, Origin, is_local

LOOPBACK = "127.0.0.1"
FAREWELL_LINGER = 300  # ms that last words have to reach the wire


@attrs.frozen
class Security:
    """The own CURVE pair and who may connect; without it everything is NULL."""

    pair: Pair
    authorized: AuthorizedKeys


def host_of(config: BrokerConfig, security: Security | None) -> str:
    """The address to bind; a fault where that would be a door that stands open."""
    if security is not None:
        return config.address or "*"
    host = config.address or LOOPBACK
    if not config.insecure and not is_local(host):
        message = "NULL ports are bound on loopback only; use --curve-key and --authorized-keys, or insecure = 1"
        raise ConfigFault("configuration", [Fault(1, "address", message)])
    return host


class Ports:
    _log = Logger()

    def __init__(
        self,
        network: Network,
        config: BrokerConfig,
        security: Security | None,
        banned: Callable[[str], bool],
    ) -> None:
        self._network, self._config, self._security, self._banned = network, config, security, banned
        self._sockets: dict[str, Socket] = {}
        self._links: dict[str, Socket] = {}
        self._sources: list[Socket] = []
        self._publisher: Socket | None = None
        self.ends: dict[str, str] = {}

    # --------------------------------------------------------------------------------- opening

    def open(
        self,
        heard: Callable[[Address, Sequence[bytes], Origin], None],
        subscribed: Callable[[bytes], None],
    ) -> None:
        """Bind everything that others connect to."""
        config = self._config
        one_port = config.frontend_port == config.backend_port and config.frontend_port != 0
        wanted = {FRONTEND: config.frontend_port, BACKEND: config.backend_port, PEER: config.peer_port}
        for name, port in wanted.items():
            if name == BACKEND and one_port:
                self.ends[BACKEND] = self.ends[FRONTEND]
                continue
            self._sockets[name] = socket = self._server(Kind.ROUTER, name)
            self.ends[name] = self._bind(socket, port, f"{name}_port")
            self._listen(socket, name, heard)
        self._publisher = self._server(Kind.XPUB, "config")
        self._publisher.on_message(lambda frames, origin: subscribed(frames[0]))
        self.ends["config_pub"] = self._bind(self._publisher, config.config_pub_port, "config_pub_port")

    def _listen(self, socket: Socket, name: str, heard: Callable[[Address, Sequence[bytes], Origin], None]) -> None:
        socket.on_message(lambda frames, origin: heard((name, frames[0]), frames[1:], origin))

    def _server(self, kind: Kind, domain: str) -> Socket:
        self._network.admit(domain, self._admits)
        curve = CurveServer(self._security.pair.secret) if self._security else None
        return self._network.socket(kind, domain=domain, security=curve)

    def _bind(self, socket: Socket, port: int, name: str) -> str:
        host = host_of(self._config, self._security)
        try:
            return socket.bind(f"tcp://{host}:{port or '*'}")
        except SocketError as e:
            raise ConfigFault("configuration", [Fault(1, name, str(e))]) from None

    def _admits(self, caller: Caller) -> bool:
        """The gatekeeper's rule: authorized keys with CURVE, the own machine without; nobody of error_clients."""
        if self._banned(caller.key or caller.address):
            return False
        if self._security is not None:
            return caller.mechanism == "CURVE" and self._security.authorized.is_authorized(caller.key)
        return caller.mechanism == "NULL" and (self._config.insecure or is_local(caller.address))

    # -------------------------------------------------------------------------------- calling

    def call_fellows(
        self,
        config: BrokerConfig,
        heard: Callable[[Address, Sequence[bytes], Origin], None],
        link: Callable[[str, bool], None],
    ) -> None:
        """A DEALER to each of `peers`; those no longer listed are hung up."""
        for endpoint in set(self._links) - set(config.peers):
            self._links.pop(endpoint).close(FAREWELL_LINGER)
            link(endpoint, False)
        for endpoint in config.peers:
            if endpoint not in self._links and endpoint != self.ends.get(PEER):
                self._call_fellow(config, endpoint, heard, link)

    def _call_fellow(self, config: BrokerConfig, endpoint: str, heard: Any, link: Any) -> None:
        known = next((m.public_key for g in config.group_config for m in g.brokers if m.peer == endpoint), "")
        socket = self._client(Kind.DEALER, endpoint, known)
        if socket is None:
            return
        self._links[endpoint] = socket
        socket.on_message(lambda frames, origin: heard((endpoint, b""), frames, origin))
        states = {"handshake": True, "disconnected": False}
        socket.watch(lambda event, _: link(endpoint, states[event]) if event in states else None)
        socket.connect(endpoint)

    def call_sources(self, config: BrokerConfig, topics: list[bytes], told: Callable[[list[bytes]], None]) -> None:
        """A SUB to each of config_sub_ports."""
        for endpoint in config.config_sub_ports:
            known = next((m.public_key for g in config.group_config for m in g.brokers if m.config_pub == endpoint), "")
            socket = self._client(Kind.SUB, endpoint, known)
            if socket is not None:
                socket.on_message(lambda frames, origin: told(frames))
                for topic in topics:
                    socket.subscribe(topic)
                socket.connect(endpoint)
                self._sources.append(socket)

    def ask_again(self, topics: list[bytes]) -> None:
        """Subscribe anew, which makes publishers repeat their documents."""
        for source in self._sources:
            for topic in topics:
                source.unsubscribe(topic)
                source.subscribe(topic)

    def _client(self, kind: Kind, endpoint: str, server_key: str) -> Socket | None:
        if self._security is None:
            host = endpoint.removeprefix("tcp://").rpartition(":")[0]
            if endpoint.startswith("tcp://") and not self._config.insecure and not is_local(host):
                self._log.error(
                    "{endpoint} is not called: it is not on this machine and there is no CURVE key", endpoint=endpoint
                )
                return None
            return self._network.socket(kind)
        if not server_key:
            self._log.error("{endpoint} is not called: group_config tells no public_key for it", endpoint=endpoint)
            return None
        pair = self._security.pair
        return self._network.socket(kind, security=CurveClient(pair.public, pair.secret, server_key))

    # ------------------------------------------------------------------------- sending and closing

    def send(self, address: Address, frames: Sequence[bytes], hold: bool) -> Sent:
        name, routing_id = address
        socket = self._sockets.get(name)
        if socket is not None:
            return socket.send([routing_id, *frames], hold)
        link = self._links.get(name)
        return link.send(frames, hold) if link is not None else Sent.GONE

    def publish(self, frames: Sequence[bytes]) -> None:
        if self._publisher is not None:
            self._publisher.send(frames)

    def close(self) -> None:
        for socket in (*self._sockets.values(), *self._links.values()):
            socket.close(FAREWELL_LINGER)
        for socket in self._sources:
            socket.close()
        if self._publisher is not None:
            self._publisher.close()
        self._sockets, self._links, self._sources, self._publisher = {}, {}, [], None
