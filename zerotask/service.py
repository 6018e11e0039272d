"""Runs a broker with its sockets, as a Twisted service: in `twistd zerotask`, or in any other process.

    service = ZeroTaskService(Settings(state=Path("/var/lib/zerotask")), reactor)
    service.setServiceParent(parent)
    link = service.local_link()                   a client or a node in this process needs no socket:
    client = Client(link, reactor, "helen")       see `client` and `node.node`

There are three sockets: a ROUTER for clients and nodes, an XPUB for announcements, and a ROUTER at STATE/control.sock
for operators, which only the owner of the folder can open. STATE/run.json names them once they accept connections.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen
from msgspec import Struct
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.authority import ALL
from groundwork.awake_clock import AwakeClock
from scale0.config.keys import AuthorizedKeys, Pair
from scale0.wire.endpoints import leaves_machine
from scale0.wire.reader import CurveServer, Kind, Network, Sent, Socket, SocketError
from scale0.wire.zap import Caller as Peer
from scale0.wire.zap import Origin, is_local
from zerotask.broker.broker import TICK, Broker
from zerotask.broker.scale0_gateway import Scale0Gateway, Scale0Network
from zerotask.storage.database import Store
from zerotask.tasks.connections import Caller
from zerotask.wire.links import LocalLink

DOMAIN = "zerotask"  # of our sockets in ZAP
MOST_TOPICS = 10_000  # subscriptions that are remembered; a single one is enough for publishing
LINGER = 500  # ms in which the last answers may leave when the broker stops
KEYS_EVERY = 1.0  # seconds between reads of the folder of authorized keys
CONTROL_MOST = 100  # bytes of the control socket's path; the kernel takes 107
INSECURE = (
    "--insecure-network: every program that reaches this broker may ask all agents, publish checks to them, and answer"
    " for them. For trials only: give keys with roles instead"
)
LISTEN, PUBLISH = "tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"


@frozen
class Settings:
    """Holds the folder, endpoints and keys of a broker. Without `pair` only loopback and ipc are served."""

    state: Path
    listen: str = LISTEN
    publish: str = PUBLISH
    pair: Pair | None = None
    keys: AuthorizedKeys | None = None  # of clients and nodes that may connect; belongs to `pair`
    scale0: Scale0Network | None = None  # a network that this broker also serves
    is_open: bool = False  # --insecure-network: every client may do what is Helen's, without a key


class RouterConnection(Struct, frozen=True):
    """Names a connection on one of our ROUTERs; `enveloped` if its messages have the empty frame of a REQ."""

    router: str
    routing_id: bytes
    enveloped: bool


class StartError(Exception):
    """Tells why the broker cannot start, and what to do."""


class ZeroTaskService(Service):
    """Starts and stops the store, the broker and the sockets."""

    name = "zerotask"
    _log = Logger()

    def __init__(self, settings: Settings, reactor: Any) -> None:
        self.settings = settings
        self.broker: Broker | None = None
        self.listen = self.publish = ""
        self.control: str | None = None
        self._reactor = reactor
        self._routers: dict[str, Socket] = {}
        self._pub: Socket | None = None
        self._gateway: Scale0Gateway | None = None
        self._topics: set[bytes] = set()
        self._store: Store | None = None
        self._awake = AwakeClock()
        self._ticks, self._key_reads = LoopingCall(self._tick), LoopingCall(self._read_keys)

    # ---------------------------------------------------------------------------------------- start and stop

    def startService(self) -> None:
        """Open the store and the sockets, and write run.json.

        Raises StoreError or StartError if that fails; nothing is left open then.
        """
        _must_be_local(self.settings)
        self._store = Store(
            self.settings.state, self._reactor.callFromThread, lambda flush: self._reactor.callLater(0, flush)
        )
        found = self._store.open()
        try:
            self._open_sockets()
        except SocketError as error:
            self._close_sockets(0)
            self._store.end()
            self._store.join()
            raise StartError(
                f"cannot listen: {error}; give other endpoints with `twistd zerotask --listen` and `--publish`, or with"
                " `twistd helen --zerotask-listen`"
            ) from error
        self._awake = AwakeClock()
        self.broker = Broker(self._store, found, self._send, self._announce, self._awake.seconds(), time.time())
        self.broker.state.name_of_key = self._name_of_key
        if self.settings.is_open:
            self._log.warn(INSECURE)
        for calls, every in ((self._ticks, TICK), (self._key_reads, KEYS_EVERY)):
            calls.clock = self._reactor
            calls.start(every, now=False)
        self._write_run_file()
        Service.startService(self)  # named, not super(): only so does mypy see that the call is Twisted's, untyped
        self._join_network()
        self._log.info("ZeroTask listens on {listen}", listen=self.listen)

    def troubles(self) -> list[str]:
        """Return a sentence for each trouble: of the store, and of the connections to a Scale0 network."""
        state = None if self.broker is None else self.broker.state
        found = [] if state is None else [text for text in (state.trouble, state.damage) if text is not None]
        return found if self._gateway is None else [*found, *self._gateway.troubles()]

    def _join_network(self) -> None:
        if self.settings.scale0 is not None:
            self._gateway = Scale0Gateway(
                self._reactor,
                self.settings.scale0,
                self._receive,
                lambda: self.local_link(roles=()),
                self.settings.is_open,
            )
            self._gateway.startService()

    def _open_sockets(self) -> None:
        network, security = Network.of(self._reactor), None
        if self.settings.pair is not None:
            security = CurveServer(self.settings.pair.secret)
        network.admit(DOMAIN, self._admits)
        router = network.socket(Kind.ROUTER, self._receiver("public", operator=False), domain=DOMAIN, security=security)
        self._routers["public"] = router
        self._pub = network.socket(Kind.XPUB, self._subscribed, domain=DOMAIN, security=security)
        self.listen, self.publish = router.bind(self.settings.listen), self._pub.bind(self.settings.publish)
        path = str((self.settings.state / "control.sock").absolute())
        if len(path.encode()) > CONTROL_MOST:
            self._log.warn("No control socket: {path} is longer than the kernel takes; shorten --state", path=path)
            return
        self._routers["control"] = network.socket(Kind.ROUTER, self._receiver("control", operator=True))
        self.control = self._routers["control"].bind(f"ipc://{path}")
        os.chmod(path, 0o600)

    def _admits(self, peer: Peer) -> bool:
        if self.settings.pair is None:
            return peer.mechanism == "NULL" and is_local(peer.address)
        return peer.mechanism == "CURVE" and self._is_authorized(peer.key)

    def _is_authorized(self, key: str) -> bool:
        return self.settings.keys is not None and self.settings.keys.is_authorized(key)

    def _bound_to(self, key: str) -> str | None:
        return self.settings.keys.bound_to(key) if key and self.settings.keys is not None else None

    def _roles_of(self, origin: Origin) -> tuple[tuple[str, ...], str]:
        """Return the roles of a connection, and the name of its key.

        A peer on a socket of the file system is the user that opened it: our own user may do everything, as it may on
        the control socket.
        """
        entry = None if self.settings.keys is None or not origin.key else self.settings.keys.entry_of(origin.key)
        name = "" if entry is None else entry.identity
        if self.settings.is_open or (not origin.key and origin.user in (os.getuid(), 0)):
            return ALL, name
        return (() if entry is None else entry.roles), name

    def _name_of_key(self, key: str) -> str:
        entry = None if self.settings.keys is None or not key else self.settings.keys.entry_of(key)
        return "" if entry is None else entry.identity

    def stopService(self) -> Deferred[None] | None:
        """Store and answer what has come in, then close the sockets."""
        if self._store is None or self.broker is None:
            Service.stopService(self)
            return None
        return Deferred.fromCoroutine(self._stop(self._store))

    async def _stop(self, store: Store) -> None:
        try:
            if self._gateway is not None:
                await self._gateway.stopService()
        except Exception:
            self._log.failure("The gateway to Scale0 failed to stop")
        Service.stopService(self)
        with contextlib.suppress(OSError):
            self._run_file().unlink()
        self._ticks.stop()
        self._key_reads.stop()
        if self.broker is not None:
            self.broker.keep_clock()
        store.end()
        await deferToThreadPool(self._reactor, self._reactor.getThreadPool(), store.join)
        self.broker = None
        self._close_sockets(LINGER)

    def _close_sockets(self, linger: int) -> None:
        for socket in [*self._routers.values(), *([self._pub] if self._pub else [])]:
            socket.close(linger)
        self._routers.clear()
        self._pub = None

    # ------------------------------------------------------------------------------------------- run.json

    def _run_file(self) -> Path:
        return self.settings.state / "run.json"

    def _write_run_file(self) -> None:
        run = {"pid": os.getpid(), "listen": self.listen, "publish": self.publish, "control": self.control}
        write_durably(self._run_file(), json.dumps(run) + "\n", PUBLIC)

    # --------------------------------------------------------------------------------------------- traffic

    def _receiver(self, router: str, operator: bool) -> Callable[[list[bytes], Origin], None]:
        def received(frames: list[bytes], origin: Origin) -> None:
            """Pass a message of this ROUTER to the broker."""
            enveloped = len(frames) == 3 and frames[1] == b""
            if not enveloped and (len(frames) != 2 or not frames[1]):
                return  # in a form that no client uses, so there is none that waits for an answer
            if self.settings.pair is not None and not operator and not self._is_authorized(origin.key):
                return  # its key was removed after it had connected
            connection = RouterConnection(router, frames[0], enveloped)
            roles, key_name = self._roles_of(origin)
            bound = self._bound_to(origin.key)
            caller = Caller(connection, origin.key, operator, bound=bound, roles=roles, key_name=key_name)
            self._receive(caller, frames[-1])

        return received

    def _receive(self, caller: Caller, text: bytes) -> None:
        if self.broker is not None and self.running:
            self.broker.receive(caller, text, self._now(self.broker), time.time())

    def _send(self, connection: Any, text: bytes) -> bool:
        if not isinstance(connection, RouterConnection):
            return bool(connection.deliver(text))
        router = self._routers.get(connection.router)
        frames = [connection.routing_id, b"", text] if connection.enveloped else [connection.routing_id, text]
        return router is not None and router.send(frames, hold=True) is Sent.OK

    def _subscribed(self, frames: list[bytes], origin: Origin) -> None:
        """Note the topics that have a subscriber: XPUB tells of the first subscription to each, and of the last end."""
        change, topic = frames[0][:1], frames[0][1:]
        if change == b"\1" and len(self._topics) < MOST_TOPICS:
            self._topics.add(topic)
        elif change == b"\0":
            self._topics.discard(topic)

    def _announce(self, text: bytes) -> None:
        """Publish a text if there is a subscriber; without one it would be the most costly message of each task."""
        if self._pub is not None and self._topics:
            self._pub.send([text])

    def _tick(self) -> None:
        if self.broker is not None:
            self.broker.tick(self._now(self.broker), time.time())

    def _now(self, broker: Broker) -> float:
        """Return monotonic seconds without stalls: what nodes sent meanwhile is read before they are judged."""
        slept, now = self._awake.slept, self._awake.seconds()
        if self._awake.slept > slept:
            broker.woke(self._awake.slept - slept, now, time.time())
        return now

    def _read_keys(self) -> Any:
        if self.settings.keys is None:
            return None
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self.settings.keys.reload)

    # ------------------------------------------------------------------------------------------- in process

    def local_link(self, operator: bool = False, roles: tuple[str, ...] = ALL) -> LocalLink:
        """Return a link to this broker for a client or a node in this process; it uses no socket.

        Without `roles` it may do what a plain client may: for work that is done in the name of others.
        """
        return LocalLink(
            self._reactor,
            lambda link, text: self._receive(Caller(link, operator=operator, roles=roles), text),
            lambda: bool(self.running),
        )


def _must_be_local(settings: Settings) -> None:
    """Raise StartError if an endpoint leads beyond this machine without keys; ZAP would only refuse the peers."""
    for endpoint in (settings.listen, settings.publish):
        if settings.pair is None and leaves_machine(endpoint):
            raise StartError(f"{endpoint}: without --curve-key only loopback and ipc are served")
    network = settings.scale0
    if network is None:
        return
    for target in (*network.backends, *network.frontends):
        if leaves_machine(target.endpoint) and not (network.keys and target.key):
            raise StartError(
                f"{target.endpoint}: beyond this machine only with CURVE: give --curve-key, --authorized-keys, and"
                f" {target.endpoint}#NAME, where NAME.key in that folder is the key of the Scale0 broker there"
            )
