"""The broker on its sockets, as a Twisted service: `twistd zerotask` runs it, and so may any process, `twistd helen`
for one.

    service = ZeroTaskService(Settings(state=Path("/var/lib/zerotask")), reactor)
    service.setServiceParent(parent)
    link = service.local_link()                   a client or a node in this process needs no socket:
    client = Client(link, "helen")                see `client`, `node`

Three sockets: ROUTER for clients and nodes, PUB for announcements, and a ROUTER at STATE/control.sock for operators,
which only the owner of the folder can open. run.json says where they are once they accept connections.
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
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from scale0.keys import AuthorizedKeys, Pair
from scale0.reader import CurveServer, Kind, Network, Sent, Socket, SocketError
from scale0.zap import Caller as Stranger
from scale0.zap import Origin, is_local
from zerotask.broker import TICK, Broker
from zerotask.gateway import Gateway, Scale0
from zerotask.links import LocalLink, leaves_machine
from zerotask.roster import Caller
from zerotask.store import Store

DOMAIN = "zerotask"  # ZAP's name for our sockets
MOST_TOPICS = 10_000  # that are remembered; one is enough to make us publish
LINGER = 500  # ms that the last answers have to get out when the broker stops
KEYS_EVERY = 1.0  # seconds between looks at the folder of authorized keys
CONTROL_MOST = 100  # bytes of the control socket's path; the kernel takes 107
LISTEN, PUBLISH = "tcp://127.0.0.1:5555", "tcp://127.0.0.1:5556"


@frozen
class Settings:
    """Where the broker lives. Without `pair` only loopback and ipc are served."""

    state: Path
    listen: str = LISTEN
    publish: str = PUBLISH
    pair: Pair | None = None
    keys: AuthorizedKeys | None = None  # who may connect; belongs to `pair`
    scale0: Scale0 | None = None  # the network that this broker is also a service of


class Line(Struct, frozen=True):
    """A connection on one of our ROUTERs, and whether its messages have the empty frame of a REQ."""

    door: str
    routing_id: bytes
    enveloped: bool


class StartError(Exception):
    """The broker cannot start; the text says why and what to do."""


class ZeroTaskService(Service):
    """Store, broker and sockets, from start to stop."""

    name = "zerotask"
    _log = Logger()

    def __init__(self, settings: Settings, reactor: Any) -> None:
        self.settings = settings
        self.broker: Broker | None = None
        self.listen = self.publish = ""
        self.control: str | None = None
        self._reactor = reactor
        self._doors: dict[str, Socket] = {}
        self._pub: Socket | None = None
        self._gateway: Gateway | None = None
        self._topics: set[bytes] = set()
        self._store: Store | None = None
        self._ticks, self._key_reads = LoopingCall(self._tick), LoopingCall(self._read_keys)

    # ---------------------------------------------------------------------------------------- start and stop

    def startService(self) -> None:
        """StoreError or StartError, with nothing left open, if it cannot be."""
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
            raise StartError(f"cannot listen: {error}; give other endpoints with --listen and --publish") from error
        self.broker = Broker(self._store, found, self._send, self._announce, time.monotonic(), time.time())
        for calls, every in ((self._ticks, TICK), (self._key_reads, KEYS_EVERY)):
            calls.clock = self._reactor
            calls.start(every, now=False)
        self._write_run_file()
        super().startService()
        self._join_network()
        self._log.info("ZeroTask listens on {listen}", listen=self.listen)

    def _join_network(self) -> None:
        if self.settings.scale0 is not None:
            self._gateway = Gateway(self._reactor, self.settings.scale0, self._receive, self.local_link)
            self._gateway.startService()

    def _open_sockets(self) -> None:
        network, security = Network.of(self._reactor), None
        if self.settings.pair is not None:
            security = CurveServer(self.settings.pair.secret)
        network.admit(DOMAIN, self._admits)
        door = network.socket(Kind.ROUTER, self._receiver("public", operator=False), domain=DOMAIN, security=security)
        self._doors["public"] = door
        self._pub = network.socket(Kind.XPUB, self._subscribed, domain=DOMAIN, security=security)
        self.listen, self.publish = door.bind(self.settings.listen), self._pub.bind(self.settings.publish)
        path = str((self.settings.state / "control.sock").absolute())
        if len(path.encode()) > CONTROL_MOST:
            self._log.warn("No control socket: {path} is longer than the kernel takes; shorten --state", path=path)
            return
        self._doors["control"] = network.socket(Kind.ROUTER, self._receiver("control", operator=True))
        self.control = self._doors["control"].bind(f"ipc://{path}")
        os.chmod(path, 0o600)

    def _admits(self, stranger: Stranger) -> bool:
        if self.settings.pair is None:
            return stranger.mechanism == "NULL" and is_local(stranger.address)
        return stranger.mechanism == "CURVE" and self._is_authorized(stranger.key)

    def _is_authorized(self, key: str) -> bool:
        return self.settings.keys is not None and self.settings.keys.is_authorized(key)

    def stopService(self) -> Deferred[None] | None:
        """What has come in is stored and answered before the sockets close."""
        if self._store is None or self.broker is None:
            super().stopService()
            return None
        left = succeed(None) if self._gateway is None else maybeDeferred(self._gateway.stopService)
        return left.addBoth(lambda _: self._stop_store(self._store))

    def _stop_store(self, store: Store) -> Deferred[None]:
        super().stopService()
        with contextlib.suppress(OSError):
            self._run_file().unlink()
        self._ticks.stop()
        self._key_reads.stop()
        store.end()
        stopped = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), store.join)
        return stopped.addCallback(lambda _: self._stopped())

    def _stopped(self) -> None:
        self.broker = None
        self._close_sockets(LINGER)

    def _close_sockets(self, linger: int) -> None:
        for socket in [*self._doors.values(), *([self._pub] if self._pub else [])]:
            socket.close(linger)
        self._doors.clear()
        self._pub = None

    # ------------------------------------------------------------------------------------------- run.json

    def _run_file(self) -> Path:
        return self.settings.state / "run.json"

    def _write_run_file(self) -> None:
        """In one step, so that a reader never sees half of it."""
        run = {"pid": os.getpid(), "listen": self.listen, "publish": self.publish, "control": self.control}
        draft = self._run_file().with_suffix(".new")
        draft.write_text(json.dumps(run) + "\n", encoding="utf-8")
        draft.replace(self._run_file())

    # --------------------------------------------------------------------------------------------- traffic

    def _receiver(self, door: str, operator: bool) -> Callable[[list[bytes], Origin], None]:
        def received(frames: list[bytes], origin: Origin) -> None:
            enveloped = len(frames) == 3 and frames[1] == b""
            if not enveloped and (len(frames) != 2 or not frames[1]):
                return  # no message of ours: nobody can be waiting for an answer to it in a form we know
            if self.settings.pair is not None and not operator and not self._is_authorized(origin.key):
                return  # its key was taken away after it had connected
            caller = Caller(Line(door, frames[0], enveloped), origin.key, operator)
            self._receive(caller, frames[-1])

        return received

    def _receive(self, caller: Caller, text: bytes) -> None:
        if self.broker is not None and self.running:
            self.broker.receive(caller, text, time.monotonic(), time.time())

    def _send(self, line: Any, text: bytes) -> bool:
        if not isinstance(line, Line):
            return bool(line.deliver(text))
        door = self._doors.get(line.door)
        frames = [line.routing_id, b"", text] if line.enveloped else [line.routing_id, text]
        return door is not None and door.send(frames, hold=True) is Sent.OK

    def _subscribed(self, frames: list[bytes], origin: Origin) -> None:
        """XPUB tells of each topic that somebody comes to want, and of each that nobody wants any more."""
        change, topic = frames[0][:1], frames[0][1:]
        if change == b"\1" and len(self._topics) < MOST_TOPICS:
            self._topics.add(topic)
        elif change == b"\0":
            self._topics.discard(topic)

    def _announce(self, text: bytes) -> None:
        """Where nobody listens nothing is said: with our own nodes alone that is each task's most costly message."""
        if self._pub is not None and self._topics:
            self._pub.send([text])

    def _tick(self) -> None:
        if self.broker is not None:
            self.broker.tick(time.monotonic(), time.time())

    def _read_keys(self) -> Any:
        if self.settings.keys is None:
            return None
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self.settings.keys.reload)

    # ------------------------------------------------------------------------------------------- in process

    def local_link(self, operator: bool = False) -> LocalLink:
        """A connection to this broker without a socket."""
        return LocalLink(self._reactor, lambda link, text: self._receive(Caller(link, operator=operator), text))


def _must_be_local(settings: Settings) -> None:
    """Without keys nothing is served or called beyond this machine, whatever the gatekeepers would say."""
    for endpoint in (settings.listen, settings.publish):
        if settings.pair is None and leaves_machine(endpoint):
            raise StartError(f"{endpoint}: without --curve-key only loopback and ipc are served")
    network = settings.scale0
    for target in () if network is None else (*network.backends, *network.frontends):
        if leaves_machine(target.endpoint) and not (network.keys and target.key):
            raise StartError(
                f"{target.endpoint}: beyond this machine only with CURVE: give --curve-key, --authorized-keys, and"
                f" {target.endpoint}#NAME, where NAME.key in that folder is the key of the Scale0 broker there"
            )
