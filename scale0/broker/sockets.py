"""Opens the sockets of one broker: ports that others connect to, links to peer brokers and to sources.

Without CURVE a broker listens on loopback only, and admits only connections from loopback, unless its configuration
says `insecure = 1`: a program that reaches a NULL port can read and send everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
from twisted.logger import Logger

from scale0.broker.context import BACKEND, FRONTEND, PEER
from scale0.broker.requests.worker_pool import Address
from scale0.config.config import ConfigFault, Fault
from scale0.config.keys import AuthorizedKeys, Pair
from scale0.config.schema import BrokerConfig
from scale0.wire.reader import CurveClient, CurveServer, Kind, Network, Sent, Socket, SocketError
from scale0.wire.zap import Caller, Origin, is_local

LOOPBACK = "127.0.0.1"
CLOSE_LINGER = 300  # ms that the last messages have to reach the wire


@attrs.frozen
class Security:
    """Holds the own CURVE pair and the keys that may connect; without a Security all sockets are NULL."""

    pair: Pair
    authorized: AuthorizedKeys


def host_of(config: BrokerConfig, security: Security | None) -> str:
    """Return the address to bind. Raises ConfigFault if that would open unprotected ports to other machines."""
    if security is not None:
        return config.address or "*"
    host = config.address or LOOPBACK
    if not config.insecure and not is_local(host):
        message = "NULL ports are bound on loopback only; use --curve-key and --authorized-keys, or insecure = 1"
        raise ConfigFault("configuration", [Fault(1, "address", message)])
    return host


class BrokerSockets:
    """Holds the sockets of one broker; `endpoints` maps the name of each bound port to its endpoint."""

    _log = Logger()

    def __init__(
        self,
        network: Network,
        config: BrokerConfig,
        security: Security | None,
        is_kept_out: Callable[[Caller], bool],
    ) -> None:
        self._network, self._config, self._security, self._is_kept_out = network, config, security, is_kept_out
        self._sockets: dict[str, Socket] = {}
        self._links: dict[str, Socket] = {}
        self._sources: list[Socket] = []
        self._publisher: Socket | None = None
        self.endpoints: dict[str, str] = {}

    # --------------------------------------------------------------------------------- opening

    def open(
        self,
        received: Callable[[Address, Sequence[bytes], Origin], None],
        subscribed: Callable[[bytes], None],
    ) -> None:
        """Bind all ports that others connect to. Raises ConfigFault if one is taken."""
        config = self._config
        one_port = config.frontend_port == config.backend_port and config.frontend_port != 0
        wanted = {FRONTEND: config.frontend_port, BACKEND: config.backend_port, PEER: config.peer_port}
        for name, port in wanted.items():
            if name == BACKEND and one_port:
                self.endpoints[BACKEND] = self.endpoints[FRONTEND]
                continue
            self._sockets[name] = socket = self._server(Kind.ROUTER, name)
            self.endpoints[name] = self._bind(socket, port, f"{name}_port")
            self._listen(socket, name, received)
        self._publisher = self._server(Kind.XPUB, "config")
        self._publisher.on_message(lambda frames, origin: subscribed(frames[0]))
        self.endpoints["config_pub"] = self._bind(self._publisher, config.config_pub_port, "config_pub_port")

    def _listen(self, socket: Socket, name: str, received: Callable[[Address, Sequence[bytes], Origin], None]) -> None:
        socket.on_message(lambda frames, origin: received((name, frames[0]), frames[1:], origin))

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
        """Admit authorized keys with CURVE, connections from this machine without; never a peer that is kept out."""
        if self._is_kept_out(caller):
            return False
        if self._security is not None:
            return caller.mechanism == "CURVE" and self._security.authorized.is_authorized(caller.key)
        return caller.mechanism == "NULL" and (self._config.insecure or is_local(caller.address))

    # -------------------------------------------------------------------------------- connecting

    def connect_peers(
        self,
        config: BrokerConfig,
        received: Callable[[Address, Sequence[bytes], Origin], None],
        link: Callable[[str, bool], None],
    ) -> None:
        """Connect a DEALER to each of `peers`; close those that are no longer listed."""
        for endpoint in set(self._links) - set(config.peers):
            self._links.pop(endpoint).close(CLOSE_LINGER)
            link(endpoint, False)
        for endpoint in config.peers:
            if endpoint not in self._links and endpoint != self.endpoints.get(PEER):
                self._connect_peer(config, endpoint, received, link)

    def _connect_peer(
        self,
        config: BrokerConfig,
        endpoint: str,
        received: Callable[[Address, Sequence[bytes], Origin], None],
        link: Callable[[str, bool], None],
    ) -> None:
        known = next((m.public_key for g in config.group_config for m in g.brokers if m.peer == endpoint), "")
        socket = self._client(Kind.DEALER, endpoint, known)
        if socket is None:
            return
        self._links[endpoint] = socket
        socket.on_message(lambda frames, origin: received((endpoint, b""), frames, origin))
        states = {"handshake": True, "disconnected": False}
        socket.watch(lambda event, _: link(endpoint, states[event]) if event in states else None)
        socket.connect(endpoint)

    def connect_sources(
        self, config: BrokerConfig, topics: list[bytes], received: Callable[[list[bytes]], None]
    ) -> None:
        """Connect a SUB to each of config_sub_ports."""
        for endpoint in config.config_sub_ports:
            known = next((m.public_key for g in config.group_config for m in g.brokers if m.config_pub == endpoint), "")
            socket = self._client(Kind.SUB, endpoint, known)
            if socket is not None:
                socket.on_message(lambda frames, origin: received(frames))
                for topic in topics:
                    socket.subscribe(topic)
                socket.connect(endpoint)
                self._sources.append(socket)

    def subscribe_again(self, topics: list[bytes]) -> None:
        """Subscribe once more, which makes publishers repeat their documents."""
        for source in self._sources:
            for topic in topics:
                source.unsubscribe(topic)
                source.subscribe(topic)

    def _client(self, kind: Kind, endpoint: str, server_key: str) -> Socket | None:
        if self._security is None:
            host = endpoint.removeprefix("tcp://").rpartition(":")[0]
            if endpoint.startswith("tcp://") and not self._config.insecure and not is_local(host):
                self._log.error(
                    "{endpoint} is not connected: it is on another machine and there is no CURVE key", endpoint=endpoint
                )
                return None
            return self._network.socket(kind)
        if not server_key:
            self._log.error("{endpoint} is not connected: group_config has no public_key for it", endpoint=endpoint)
            return None
        pair = self._security.pair
        return self._network.socket(kind, security=CurveClient(pair.public, pair.secret, server_key))

    # ------------------------------------------------------------------------- sending and closing

    def send(self, address: Address, frames: Sequence[bytes], hold: bool) -> Sent:
        """Send a message to a connection, or on a link; with `hold`, keep it while the pipe is full."""
        name, routing_id = address
        socket = self._sockets.get(name)
        if socket is not None:
            return socket.send([routing_id, *frames], hold)
        link = self._links.get(name)
        return link.send(frames, hold) if link is not None else Sent.GONE

    def publish(self, frames: Sequence[bytes]) -> None:
        """Send a message to all subscribers of its topic."""
        if self._publisher is not None:
            self._publisher.send(frames)

    def close(self) -> None:
        """Close everything; the last messages have CLOSE_LINGER to reach the wire."""
        for socket in (*self._sockets.values(), *self._links.values()):
            socket.close(CLOSE_LINGER)
        for socket in self._sources:
            socket.close()
        if self._publisher is not None:
            self._publisher.close()
        self._sockets, self._links, self._sources, self._publisher = {}, {}, [], None
