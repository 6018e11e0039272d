"""Wraps one ZeroMQ socket for the reactor: it sends without waiting and receives whole messages.

reader.py tells how it is used, and the rules of ZMQ_FD that are kept here and in read_turns.py.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from twisted.internet.interfaces import IReadDescriptor
from twisted.logger import Logger
from zmq.backend import Socket as BareSocket
from zope.interface import implementer

from scale0.wire import zap
from scale0.wire.ipc_files import IPC, IpcFiles
from scale0.wire.read_turns import ReadTurns
from scale0.wire.unsent import LARGE, UNREAD_BYTES, HeldMessages, LargeFrames, Sent
from scale0.wire.zap import NO_ORIGIN, Origin
from scale0.wire.zmq_options import MESSAGE_BYTES, SocketError

MESSAGE_FRAMES = 2048  # twice the 1,000 parts that are held for a client of RFC 7, with room for the envelope
HELD_RETRY = 0.02  # seconds; the edge that tells of room may be eaten by the very send that looked for it
KNOWN_ORIGINS = 65_536  # routing ids whose address and key are remembered; others are looked up again
_MONITORS = itertools.count(1)

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

Received = Callable[[list[bytes], Origin], None]


@implementer(IReadDescriptor)
class Socket:
    """Sends and receives on one ZeroMQ socket; reader.Network makes it. `open_sockets` lists those not closed yet."""

    _log = Logger()

    def __init__(
        self,
        turns: ReadTurns,
        open_sockets: set[Socket],
        raw: zmq.Socket[bytes],
        received: Received,
        name: str,
        is_monitor: bool = False,
    ) -> None:
        self._turns, self._open_sockets, self._raw, self._received = turns, open_sockets, raw, received
        self.name, self.is_monitor = name, is_monitor
        self._fd = int(raw.get(zmq.FD))
        self._is_router = raw.type == zmq.ROUTER
        self._origins: OrderedDict[bytes, Origin] = OrderedDict()
        self._held = HeldMessages()
        self._large = LargeFrames()
        self._files = IpcFiles()
        self._retry: Any = None
        self._monitor: Socket | None = None
        self.closed = False
        open_sockets.add(self)
        turns.reactor.addReader(self)

    def on_message(self, received: Received) -> None:
        """Give messages to `received` from now on."""
        self._received = received

    # -------------------------------------------------------------------------------- endpoints

    def bind(self, endpoint: str) -> str:
        """Listen at an endpoint and return it as bound, with its port. Raises SocketError if libzmq refuses it."""
        self._call_with(self._raw.bind, endpoint)
        bound = self._raw.get(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        text = os.fsdecode(bound.rstrip(b"\0"))
        if endpoint != f"{IPC}*":  # libzmq chose the file: it removes that and the folder around it by itself
            self._files.note(text)
        return re.sub(r"\[::ffff:([0-9.]+)\]", r"\1", text)  # an IPv4 address, as a socket that speaks both spells it

    def connect(self, endpoint: str) -> None:
        """Connect, and again whenever the connection is lost. Raises SocketError if libzmq refuses the endpoint."""
        self._call_with(self._raw.connect, endpoint)

    def subscribe(self, topic: bytes) -> None:
        """Receive messages that start with `topic`, on a SUB."""
        self._raw.set(zmq.SUBSCRIBE, topic)
        self._turns.mark(self)

    def unsubscribe(self, topic: bytes) -> None:
        """End one subscription, on a SUB."""
        self._raw.set(zmq.UNSUBSCRIBE, topic)
        self._turns.mark(self)

    def _call_with(self, call: Callable[[str], Any], endpoint: str) -> None:
        try:
            call(endpoint)
        except (zmq.ZMQError, TypeError, ValueError) as e:
            raise SocketError(f"{endpoint}: {getattr(e, 'strerror', None) or e}") from e
        self._turns.mark(self)

    # ---------------------------------------------------------------------------------- sending

    def send(self, frames: Sequence[bytes], hold: bool = False) -> Sent:
        """Send one message, or nothing of it; with `hold`, keep it for later while the pipe is full."""
        if self.closed:
            return Sent.GONE
        if self._held.count and hold and self._key(frames) in self._held:
            return self._hold(frames)
        outcome = self._try(frames)
        if outcome is Sent.FULL and hold:
            outcome = self._hold(frames)
        self._turns.mark(self)
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
        """Send without a copy, so that libzmq tells when it has no more use for a frame; FULL while too much waits."""
        key, size = self._key(frames), sum(map(len, frames))
        if self._large.waiting(key) + size > UNREAD_BYTES:
            return Sent.FULL
        for frame in frames[:-1]:
            self._large.add(key, _send(self._raw, frame, _MORE, False, True), len(frame))
        self._large.add(key, _send(self._raw, frames[-1], _DONTWAIT, False, True), len(frames[-1]))
        self._large.forget_delivered()
        return Sent.OK

    def _key(self, frames: Sequence[bytes]) -> bytes:
        """Return the key under which messages keep their order; a ROUTER has one pipe for each routing id."""
        return frames[0] if self._is_router else b""

    def _hold(self, frames: Sequence[bytes]) -> Sent:
        if not self._held.add(self._key(frames), frames):
            return Sent.FULL
        self._retry_later()
        return Sent.OK

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = self._turns.reactor.callLater(HELD_RETRY, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        if self._held.count:
            self._turns.mark(self)
            self._retry_later()

    # -------------------------------------------------------------------------------- receiving

    def doRead(self) -> None:
        """Read, as the reactor saw the descriptor's edge."""
        self._turns.edge(self)

    def drain(self, limit: int) -> int:
        """Receive until EAGAIN or `limit` messages and return how many came; due again unless EAGAIN was seen."""
        for taken in range(limit):
            if self.closed:
                return taken
            try:
                frames, origin = self._receive()
            except _AGAIN:
                if self._held.count and self._held.flush(self._try):
                    self._turns.again(self)  # its sends may have eaten an edge
                return taken
            try:
                self._received(frames, origin)
            except Exception:
                self._log.failure("A message on {name} was dropped", name=self.name)
        self._turns.again(self)
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
        origin = self._origin(frames[0], frame) if self._is_router else NO_ORIGIN
        return (frames if whole else frames[:1]), origin

    def _origin(self, routing_id: bytes, frame: zmq.Frame) -> Origin:
        """Return address and key of the connection.

        They are looked up once where libzmq chose the routing id, which it never uses again.
        """
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
        """Call `changed` for connections made and lost.

        An event says that a connection went, not which one: liveness stays with the protocol.
        """

        def tell(frames: list[bytes], origin: Origin) -> None:
            """Pass one event on."""
            event, _ = struct.unpack("=Hi", frames[0])
            if event in _EVENTS:
                changed(_EVENTS[event], frames[-1].decode("utf-8", "replace"))

        endpoint = f"inproc://monitor-{next(_MONITORS)}"  # libzmq gives a name back some time after the end
        self._raw.monitor(endpoint, sum(_EVENTS))
        far_end = self._raw.context.socket(zmq.PAIR)
        far_end.set(zmq.LINGER, 0)
        far_end.set(zmq.RCVHWM, 0)
        far_end.connect(endpoint)
        self._monitor = Socket(self._turns, self._open_sockets, far_end, tell, f"{self.name} monitor", True)
        self._turns.mark(self._monitor)

    def close(self, linger_ms: int = 0) -> None:
        """Close without waiting; libzmq goes on for `linger_ms` with messages not yet on the wire."""
        if self.closed:
            return
        self.closed = True
        self._turns.reactor.removeReader(self)
        self._open_sockets.discard(self)
        self._turns.forget(self)
        if self._monitor is not None:
            self._raw.monitor(None, 0)
            self._monitor.close()
        if self._retry is not None:
            self._retry.cancel()
        self._held.clear()
        self._large.clear()
        self._files.remove()
        self._raw.close(linger_ms)

    def fileno(self) -> int:
        """Return ZMQ_FD, which the reactor watches for reading."""
        return self._fd

    def logPrefix(self) -> str:
        """Return the name for Twisted's own log lines."""
        return f"zmq {self.name}"

    def connectionLost(self, reason: Any) -> None:
        """Close, as the reactor is going down."""
        self.close()


def _property(frame: zmq.Frame, name: str) -> str:
    try:
        return str(frame.get(name))
    except (zmq.ZMQError, UnicodeDecodeError):
        return ""  # ipc has no address, NULL has no user
