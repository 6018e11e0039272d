"""ZeroMQ sockets on a Twisted reactor. The only file of ours that imports zmq.

What it is for: receiving and sending whole multipart messages without ever blocking the reactor, and without losing the
edge of ZMQ_FD. What it does not do: it knows no protocol; who may connect is decided by a rule that is handed in.

    network = Network.of(reactor)                  one per reactor: one Context, one ZAP gatekeeper, one turn budget
    socket = network.socket(Kind.ROUTER, received, domain="backend")
    endpoint = socket.bind("tcp://127.0.0.1:0")    the endpoint as bound, with its port
    socket.connect("tcp://127.0.0.1:5555")         SocketError where libzmq refuses an endpoint
    socket.on_message(received)                    another `received` than the socket was made with
    socket.subscribe(b"topic"), .unsubscribe(...)  of a SUB
    socket.send([routing_id, b"frame"])            Sent.OK, Sent.FULL (high-water mark) or Sent.GONE (no such peer)
    socket.send(frames, hold=True)                 keeps what meets a full pipe, within HELD_MESSAGES and HELD_BYTES,
                                                   and sends it in order as soon as there is room; FULL beyond that
    socket.watch(changed)                          changed(event, endpoint), the event being "connected", "handshake",
                                                   "disconnected", "retried" (nobody listens) or "refused" (by ZAP)
    socket.close(linger_ms=0)                      never blocks; unsent messages have that long
    network.admit("backend", rule)                 rule(zap.Caller) -> bool, asked at each handshake of that domain
    network.close()                                Deferred; closes all sockets and ends the Context

`received(frames, origin)` is called once a message. For a ROUTER frames[0] is the routing id and `origin` tells the
peer's address and, under CURVE, its key; for other kinds `origin` is NOBODY. An exception out of `received` is logged
and costs that message only. A message beyond MESSAGE_FRAMES or MESSAGE_BYTES arrives as its first frame alone.

The rules of ZMQ_FD that this file keeps:
1. The descriptor is an edge. After it fires a socket is read until EAGAIN.
2. Any send, connect or option read may eat an edge, so it is followed by a drain of that socket ("due").
3. A turn of the reactor receives at most TURN_BUDGET messages, spread over the sockets that are due, then gives way.
4. Only reading is watched; room for sending is learnt from the same edge.
5. The reader is removed before the socket is closed, and LINGER is always explicit.
6. libzmq's own thread tells a monitor of events by a send that waits, under a lock which ending the monitor needs: the
   pipe of a monitor has no bound (who is watched calls out, at the pace of RECONNECT), and its far end is closed only
   once it has been ended.
"""

from __future__ import annotations

import enum
import errno
import itertools
import os
import re
import struct
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import zmq
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from zmq.backend import Socket as BareSocket
from zope.interface import implementer

from scale0 import zap
from scale0.zap import NOBODY, Origin

TURN_BUDGET = 128  # messages per reactor turn; at 40 us each that is 5 ms before TLS traffic and timers get their turn
SLICE = 32  # of them, for one socket at a time, so that a flooded socket does not starve the one beside it
HIGH_WATER = 10_000  # messages per peer and direction
MESSAGE_BYTES = 8 << 20  # per frame (MAXMSGSIZE) and for all frames of a message together
MESSAGE_FRAMES = 2048  # twice the 1,000 parts that are held for a client of RFC 7, with room for the envelope
HEARTBEAT_INTERVAL = 2500  # ms between pings of ZMTP, which find a dead host under a live socket
HEARTBEAT_TIMEOUT = 7500
HANDSHAKE_TIMEOUT = 10_000  # ms; a stranger that says nothing holds a descriptor no longer
RECONNECT, RECONNECT_MAX = 250, 5000  # ms; doubling, so that a restarted broker is not stormed
HELD_MESSAGES = 10_000  # per socket; as much again as the pipe of one peer holds
HELD_BYTES = 64 << 20  # per socket; eight of the largest messages
LARGE = 64 << 10  # bytes of a frame from which on libzmq counts messages too generously: HIGH_WATER of them are 80 GB
UNREAD_BYTES = 64 << 20  # in large frames that one peer has not taken off us; smaller ones are at most 640 MB
WAYS = 1_000  # peers with large frames on their way that are remembered before those that got theirs are forgotten
HELD_RETRY = 0.02  # seconds; the edge that tells of room may be eaten by the very send that looked for it
KNOWN_ORIGINS = 65_536  # routing ids whose address and key are remembered; others are looked up again
SOCKETS = 16_384  # of one Context: brokers have few, test benches have thousands
_MONITORS = itertools.count(1)
ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by RFC 27

_DONTWAIT = int(zmq.DONTWAIT)
_MORE = int(zmq.SNDMORE | zmq.DONTWAIT)
_AGAIN = zmq.Again
_send = BareSocket.send
_recv = BareSocket.recv

_EVENTS = {
    zmq.EVENT_CONNECTED: "connected",
    zmq.EVENT_CONNECT_RETRIED: "retried",
    zmq.EVENT_HANDSHAKE_SUCCEEDED: "handshake",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "refused",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "refused",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "refused",
    zmq.EVENT_DISCONNECTED: "disconnected",
}


class Kind(enum.Enum):
    ROUTER = zmq.ROUTER
    DEALER = zmq.DEALER
    PUB = zmq.PUB
    XPUB = zmq.XPUB  # a PUB that is told of subscriptions, each of them
    SUB = zmq.SUB


class Sent(enum.Enum):
    """What became of a message."""

    OK = "ok"
    FULL = "full"  # the peer does not read; nothing of the message was sent
    GONE = "gone"  # no peer has this routing id


class SocketError(Exception):
    """libzmq refuses an endpoint or a key; the text says which and why."""


@attrs.frozen
class CurveServer:
    """Security of a socket that others connect to."""

    secret: str = attrs.field(repr=False)


@attrs.frozen
class CurveClient:
    """Security of a socket that connects to one server, whose key is known beforehand."""

    public: str
    secret: str = attrs.field(repr=False)
    server: str


Received = Callable[[list[bytes], Origin], None]


def new_keys() -> tuple[str, str]:
    """A fresh CURVE pair in Z85 text: public, secret."""
    public, secret = zmq.curve_keypair()
    return public.decode("ascii"), secret.decode("ascii")


def public_key(secret: str) -> str:
    """The public half of a secret key."""
    try:
        return str(zmq.curve_public(secret.encode("ascii")).decode("ascii"))
    except (zmq.ZMQError, ValueError) as e:
        raise SocketError("a CURVE key is 40 characters of Z85 text; make one with `scale0ctl keygen`") from e


class Network:
    """All sockets of one reactor: their Context, their gatekeeper and the turns in which they are read."""

    _networks: dict[Any, Network] = {}  # by reactor; until closed, as the sockets live until then

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self._pid = os.getpid()
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, SOCKETS)
        self._rules: dict[str, zap.Rule] = {}
        self._gate: Socket | None = None
        self._due: dict[Socket, None] = {}
        self._in_turn = False
        self._call: Any = None
        self.sockets: set[Socket] = set()

    @classmethod
    def of(cls, reactor: Any) -> Network:
        """The network of this reactor: Helen, a broker and ZeroTask in one process share it."""
        network = cls._networks.get(reactor)
        if network is None or network._context.closed or network._pid != os.getpid():
            network = cls._networks[reactor] = cls(reactor)
        return network

    # ------------------------------------------------------------------------------------ sockets

    def socket(
        self,
        kind: Kind,
        received: Received | None = None,
        *,
        domain: str | None = None,
        security: CurveServer | CurveClient | None = None,
    ) -> Socket:
        """A socket with all limits set. `domain` makes it one that strangers call at, and asks the gatekeeper."""
        raw = self._context.socket(kind.value)
        try:
            _set_limits(raw, kind)
            _set_security(raw, security)
            if domain is not None:
                self._open_gate()
                raw.set(zmq.ZAP_DOMAIN, domain.encode("ascii"))
        except (zmq.ZMQError, ValueError, TypeError) as e:
            raw.close(0)
            raise SocketError(f"a {kind.name} socket cannot be made: {e}") from e
        return Socket(self, raw, received or _discard, kind.name)

    def pair(self, endpoint: str) -> zmq.Socket[bytes]:
        """The far end of a monitor."""
        raw = self._context.socket(zmq.PAIR)
        raw.set(zmq.LINGER, 0)
        raw.set(zmq.RCVHWM, 0)
        raw.connect(endpoint)
        return raw

    def admit(self, domain: str, rule: zap.Rule) -> None:
        """From now on this rule decides who may connect in the domain."""
        self._rules[domain] = rule

    def _open_gate(self) -> None:
        if self._gate is None:
            raw = self._context.socket(zmq.ROUTER)
            raw.set(zmq.LINGER, 0)
            self._gate = Socket(self, raw, self._asked, "ZAP")
            raw.bind(ZAP_ENDPOINT)

    def _asked(self, frames: list[bytes], origin: Origin) -> None:
        cut = frames.index(b"") + 1 if b"" in frames else len(frames)
        if self._gate is not None:
            self._gate.send(frames[:cut] + zap.answer(frames[cut:], self._rules))

    def close(self) -> Deferred[None]:
        """Close what is still open and end the Context, in a thread: it waits for lingering messages."""
        for socket in [each for each in self.sockets if not each.is_monitor]:
            socket.close()  # its monitor with it, and after it: rule 6
        self._gate = None
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._networks.pop(self.reactor, None)
        pool = self.reactor.getThreadPool()
        if not pool.started:
            self._context.term()
            return succeed(None)
        return deferToThreadPool(self.reactor, pool, self._context.term)

    # -------------------------------------------------------------------------------------- turns

    def _mark(self, socket: Socket) -> None:
        """This socket may hold messages whose edge is gone."""
        self._due[socket] = None
        if not self._in_turn and self._call is None:
            self._call = self.reactor.callLater(0, self._again)

    def _again(self) -> None:
        self._call = None
        self._turn()

    def _turn(self) -> None:
        """Read what is due, round robin, within the budget; the rest waits for the next turn of the reactor."""
        due, left, self._in_turn = self._due, TURN_BUDGET, True
        try:
            while due and left > 0:
                socket = next(iter(due))
                del due[socket]
                taken = socket._drain(min(left, SLICE))
                left -= taken + 1  # an empty drain costs a turn's budget too: a send in each must not loop for ever
        finally:
            self._in_turn = False
            if due and self._call is None:
                self._call = self.reactor.callLater(0, self._again)


def _discard(frames: list[bytes], origin: Origin) -> None:
    """What a socket that only sends makes of what it is sent."""


def _set_limits(raw: zmq.Socket[bytes], kind: Kind) -> None:
    options = {
        zmq.LINGER: 0,
        zmq.SNDHWM: HIGH_WATER,
        zmq.RCVHWM: HIGH_WATER,
        zmq.MAXMSGSIZE: MESSAGE_BYTES,
        zmq.HEARTBEAT_IVL: HEARTBEAT_INTERVAL,
        zmq.HEARTBEAT_TIMEOUT: HEARTBEAT_TIMEOUT,
        zmq.HANDSHAKE_IVL: HANDSHAKE_TIMEOUT,
        zmq.RECONNECT_IVL: RECONNECT,
        zmq.RECONNECT_IVL_MAX: RECONNECT_MAX,
        zmq.IPV6: 1,
    }
    if kind is Kind.ROUTER:
        options |= {zmq.ROUTER_MANDATORY: 1, zmq.ROUTER_HANDOVER: 0}
    if kind is Kind.XPUB:
        options |= {zmq.XPUB_VERBOSE: 1}
    for option, value in options.items():
        raw.set(option, value)


def _set_security(raw: zmq.Socket[bytes], security: CurveServer | CurveClient | None) -> None:
    match security:
        case CurveServer(secret):
            raw.set(zmq.CURVE_SERVER, 1)
            raw.set(zmq.CURVE_SECRETKEY, secret.encode("ascii"))
        case CurveClient(public, secret, server):
            raw.set(zmq.CURVE_SERVERKEY, server.encode("ascii"))
            raw.set(zmq.CURVE_PUBLICKEY, public.encode("ascii"))
            raw.set(zmq.CURVE_SECRETKEY, secret.encode("ascii"))


class _Way:
    """Frames that libzmq holds for one peer, oldest first; it lets go of them in that order."""

    def __init__(self) -> None:
        self.sent: deque[tuple[Any, int]] = deque()

    def waiting(self) -> int:
        """Bytes of them."""
        while self.sent and self.sent[0][0].done:
            self.sent.popleft()
        return sum(size for _, size in self.sent)


@implementer(IReadDescriptor)
class Socket:
    """One ZeroMQ socket as the reactor sees it."""

    _log = Logger()

    def __init__(self, network: Network, raw: zmq.Socket[bytes], received: Received, name: str) -> None:
        self._network, self._raw, self._received, self._name = network, raw, received, name
        self._fd = int(raw.get(zmq.FD))
        self._is_router = raw.type == zmq.ROUTER
        self._origins: OrderedDict[bytes, Origin] = OrderedDict()
        self._held: dict[bytes, deque[Sequence[bytes]]] = {}
        self._held_messages = self._held_bytes = 0
        self._ways: dict[bytes, _Way] = {}
        self._retry: Any = None
        self._monitor: Socket | None = None
        self.closed = self.is_monitor = False
        network.sockets.add(self)
        network.reactor.addReader(self)

    def on_message(self, received: Received) -> None:
        """Who is told of messages from now on."""
        self._received = received

    # -------------------------------------------------------------------------------- endpoints

    def bind(self, endpoint: str) -> str:
        """Listen; the endpoint as bound."""
        self._point(self._raw.bind, endpoint)
        bound = str(self._raw.get(zmq.LAST_ENDPOINT).rstrip(b"\0").decode("ascii"))
        return re.sub(r"\[::ffff:([0-9.]+)\]", r"\1", bound)  # an IPv4 address, as a socket that speaks both spells it

    def connect(self, endpoint: str) -> None:
        """Call there, and again whenever the connection is lost."""
        self._point(self._raw.connect, endpoint)

    def subscribe(self, topic: bytes) -> None:
        """Of a SUB: receive what starts with this."""
        self._raw.set(zmq.SUBSCRIBE, topic)
        self._network._mark(self)

    def unsubscribe(self, topic: bytes) -> None:
        self._raw.set(zmq.UNSUBSCRIBE, topic)
        self._network._mark(self)

    def _point(self, call: Callable[[str], Any], endpoint: str) -> None:
        try:
            call(endpoint)
        except (zmq.ZMQError, TypeError, ValueError) as e:
            raise SocketError(f"{endpoint}: {getattr(e, 'strerror', None) or e}") from e
        self._network._mark(self)

    # ---------------------------------------------------------------------------------- sending

    def send(self, frames: Sequence[bytes], hold: bool = False) -> Sent:
        """Send one message, or nothing of it."""
        if self.closed:
            return Sent.GONE
        if self._held and hold and self._key(frames) in self._held:
            return self._hold(frames)
        outcome = self._try(frames)
        if outcome is Sent.FULL and hold:
            outcome = self._hold(frames)
        self._network._mark(self)
        return outcome

    def _try(self, frames: Sequence[bytes]) -> Sent:
        raw, last = self._raw, frames[-1]
        try:
            if max(map(len, frames)) >= LARGE:
                return self._send_large(frames)
            for frame in frames[:-1]:
                _send(raw, frame, _MORE)
            _send(raw, last, _DONTWAIT)
        except _AGAIN:
            return Sent.FULL
        except zmq.ZMQError as e:
            if e.errno != errno.EHOSTUNREACH:
                raise
            return Sent.GONE
        return Sent.OK

    def _send_large(self, frames: Sequence[bytes]) -> Sent:
        """Without a copy, so that it can be seen when libzmq has no more use for it; FULL while too much waits."""
        key, size = self._key(frames), sum(map(len, frames))
        way = self._ways.setdefault(key, _Way())
        if way.waiting() + size > UNREAD_BYTES:
            return Sent.FULL
        for frame in frames[:-1]:
            way.sent.append((_send(self._raw, frame, _MORE, False, True), len(frame)))
        way.sent.append((_send(self._raw, frames[-1], _DONTWAIT, False, True), len(frames[-1])))
        if len(self._ways) > WAYS:
            self._ways = {key: way for key, way in self._ways.items() if way.waiting()}
        return Sent.OK

    def _key(self, frames: Sequence[bytes]) -> bytes:
        """Messages under one key keep their order; a ROUTER has one pipe for each routing id."""
        return frames[0] if self._is_router else b""

    def _hold(self, frames: Sequence[bytes]) -> Sent:
        size = sum(map(len, frames))
        if self._held_messages >= HELD_MESSAGES or self._held_bytes + size > HELD_BYTES:
            return Sent.FULL
        self._held.setdefault(self._key(frames), deque()).append(frames)
        self._held_messages += 1
        self._held_bytes += size
        self._retry_later()
        return Sent.OK

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._network.reactor.callLater(HELD_RETRY, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        if self._held:
            self._network._mark(self)
            self._retry_later()

    def _flush(self) -> bool:
        """Send what was held, each key as far as its pipe takes it, and say if anything went.

        What a vanished peer was owed goes with it.
        """
        before = self._held_messages
        for key, queue in list(self._held.items()):
            while queue:
                outcome = self._try(queue[0])
                if outcome is Sent.FULL:
                    break
                for frames in [queue.popleft()] if outcome is Sent.OK else list(queue):
                    self._held_messages -= 1
                    self._held_bytes -= sum(map(len, frames))
                if outcome is Sent.GONE:
                    queue.clear()
            if not queue:
                del self._held[key]
        return self._held_messages < before

    # -------------------------------------------------------------------------------- receiving

    def doRead(self) -> None:
        self._network._due[self] = None
        if self._network._call is None:  # else this turn's budget is spent, and the next one has been asked for
            self._network._turn()

    def _drain(self, limit: int) -> int:
        """Receive until EAGAIN or the limit, and say how many came; due again unless EAGAIN was seen."""
        for taken in range(limit):
            if self.closed:
                return taken
            try:
                frames, origin = self._receive()
            except _AGAIN:
                if self._held and self._flush():
                    self._network._due[self] = None  # its sends may have eaten an edge
                return taken
            try:
                self._received(frames, origin)
            except Exception:
                self._log.failure("A message on {name} was dropped", name=self._name)
        self._network._due[self] = None
        return limit

    def _receive(self) -> tuple[list[bytes], Origin]:
        raw = self._raw
        frame = _recv(raw, _DONTWAIT, False)
        frames, size, whole = [frame.bytes], len(frame), True
        while frame.more:
            frame = _recv(raw, _DONTWAIT, False)
            size += len(frame)
            whole = whole and size <= MESSAGE_BYTES and len(frames) < MESSAGE_FRAMES
            if whole:
                frames.append(frame.bytes)
        origin = self._origin(frames[0], frame) if self._is_router else NOBODY
        return (frames if whole else frames[:1]), origin

    def _origin(self, routing_id: bytes, frame: zmq.Frame) -> Origin:
        """Address and key of the connection. Looked up once where libzmq chose the id, which it never uses again."""
        origin = self._origins.get(routing_id)
        if origin is None:
            origin = Origin(zap.plain_address(_property(frame, "Peer-Address")), _property(frame, "User-Id"))
            if routing_id[:1] == b"\0":
                self._origins[routing_id] = origin
                if len(self._origins) > KNOWN_ORIGINS:
                    self._origins.popitem(last=False)
        return origin

    # -------------------------------------------------------------------------- monitor and end

    def watch(self, changed: Callable[[str, str], None]) -> None:
        """Tell of connections made and lost. It says that a peer went, not which: liveness stays with the protocol."""

        def told(frames: list[bytes], origin: Origin) -> None:
            event, _ = struct.unpack("=Hi", frames[0])
            if event in _EVENTS:
                changed(_EVENTS[event], frames[-1].decode("utf-8", "replace"))

        endpoint = f"inproc://monitor-{next(_MONITORS)}"  # libzmq gives a name back some time after the end
        self._raw.monitor(endpoint, sum(_EVENTS))
        self._monitor = Socket(self._network, self._network.pair(endpoint), told, f"{self._name} monitor")
        self._monitor.is_monitor = True
        self._network._mark(self._monitor)

    def close(self, linger_ms: int = 0) -> None:
        """Done with it. Messages not yet on the wire have `linger_ms`; nothing waits here."""
        if self.closed:
            return
        self.closed = True
        self._network.reactor.removeReader(self)
        self._network.sockets.discard(self)
        self._network._due.pop(self, None)
        if self._monitor is not None:
            self._raw.monitor(None, 0)
            self._monitor.close()
        if self._retry is not None:
            self._retry.cancel()
        self._held.clear()
        self._ways.clear()
        self._raw.close(linger_ms)

    def fileno(self) -> int:
        return self._fd

    def logPrefix(self) -> str:
        return f"zmq {self._name}"

    def connectionLost(self, reason: Any) -> None:
        """The reactor is going down."""
        self.close()


def _property(frame: zmq.Frame, name: str) -> str:
    try:
        return str(frame.get(name))
    except (zmq.ZMQError, UnicodeDecodeError):
        return ""  # ipc has no address, NULL has no user
