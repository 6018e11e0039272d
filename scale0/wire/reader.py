"""Gives a Twisted reactor ZeroMQ sockets. Only this file and its two helpers, zmq_socket and zmq_options, import zmq.

Its task is receiving and sending whole multipart messages without ever blocking the reactor, and without losing the
edge of ZMQ_FD. It knows no protocol; a rule that is handed in decides which connections are admitted.

    network = Network.of(reactor)                  one per reactor: one Context, one ZAP handler, one turn budget
    socket = network.socket(Kind.ROUTER, received, domain="backend")
    endpoint = socket.bind("tcp://127.0.0.1:0")    the endpoint as bound, with its port
    socket.connect("tcp://127.0.0.1:5555")         SocketError where libzmq refuses an endpoint
    socket.on_message(received)                    another `received` than the socket was made with
    socket.subscribe(b"topic"), .unsubscribe(...)  of a SUB
    socket.send([routing_id, b"frame"])            Sent.OK, Sent.FULL (high-water mark) or Sent.GONE (no such peer)
    socket.send(frames, hold=True)                 keeps what meets a full pipe, within HELD_MESSAGES and HELD_BYTES,
                                                   and sends it in order as soon as there is room; FULL beyond that
    socket.watch(changed)                          changed(event, endpoint), the event being "connected", "handshake",
                                                   "disconnected", "retried" (none listens) or "refused" (by ZAP)
    socket.close(linger_ms=0)                      never blocks; unsent messages have that long
    network.admit("backend", rule)                 rule(zap.Caller) -> bool, asked at each handshake of that domain
    network.close()                                Deferred; closes all sockets and ends the Context

`received(frames, origin)` is called once a message. For a ROUTER frames[0] is the routing id and `origin` tells the
peer's address and, under CURVE, its key; for other kinds `origin` is NO_ORIGIN. An exception out of `received` is
logged and costs that message only. A message beyond MESSAGE_FRAMES or MESSAGE_BYTES arrives as its first frame alone.

The rules of ZMQ_FD that are kept here:
1. The descriptor is an edge. After it fires a socket is read until EAGAIN.
2. Any send, connect or option read may eat an edge, so it is followed by a drain of that socket ("due").
3. A turn of the reactor receives at most TURN_BUDGET messages, spread over the sockets that are due, then gives way.
4. Only reading is watched; room for sending is learnt from the same edge.
5. The reader is removed before the socket is closed, and LINGER is always explicit.
6. libzmq's own thread tells a monitor of events by a send that waits, under a lock which ending the monitor needs: the
   pipe of a monitor has no bound (a watched socket connects at the pace of RECONNECT), and its far end is closed only
   once it has been ended.
"""

from __future__ import annotations

import os
from typing import Any

import zmq
from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool

from scale0.wire import zap
from scale0.wire.read_turns import ReadTurns
from scale0.wire.unsent import Sent
from scale0.wire.zap import Origin
from scale0.wire.zmq_options import (
    CurveClient,
    CurveServer,
    Kind,
    SocketError,
    new_keys,
    public_key,
    set_limits,
    set_security,
)
from scale0.wire.zmq_socket import Received, Socket

# Users of sockets import all of these from here.
__all__ = ["CurveClient", "CurveServer", "Kind", "Network", "Sent", "Socket", "SocketError", "new_keys", "public_key"]

SOCKETS = 16_384  # of one Context: brokers have few, test benches have thousands
ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by RFC 27


class Network:
    """Holds all sockets of one reactor: their Context, the ZAP handler and the turns in which they are read."""

    _networks: dict[Any, Network] = {}  # by reactor; until closed, as the sockets live until then

    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self.turns = ReadTurns(reactor)
        self.sockets: set[Socket] = set()
        self._pid = os.getpid()
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, SOCKETS)
        self._rules: dict[str, zap.Rule] = {}
        self._zap_handler: Socket | None = None

    @classmethod
    def of(cls, reactor: Any) -> Network:
        """Return the network of this reactor: Helen, a broker and ZeroTask in one process share it."""
        network = cls._networks.get(reactor)
        if network is None or network._context.closed or network._pid != os.getpid():
            network = cls._networks[reactor] = cls(reactor)
        return network

    def socket(
        self,
        kind: Kind,
        received: Received | None = None,
        *,
        domain: str | None = None,
        security: CurveServer | CurveClient | None = None,
    ) -> Socket:
        """Return a new socket with all limits set.

        `domain` makes it a server: the rule of that domain decides its handshakes. Raises SocketError if
        libzmq refuses a key or has no socket left.
        """
        raw = self._context.socket(kind.value)
        try:
            set_limits(raw, kind)
            set_security(raw, security)
            if domain is not None:
                self._open_zap_handler()
                raw.set(zmq.ZAP_DOMAIN, domain.encode("ascii"))
        except (zmq.ZMQError, ValueError, TypeError) as e:
            raw.close(0)
            raise SocketError(f"a {kind.name} socket cannot be made: {e}") from e
        return Socket(self.turns, self.sockets, raw, received or _discard, kind.name)

    def admit(self, domain: str, rule: zap.Rule) -> None:
        """Let this rule decide which connections are admitted in the domain."""
        self._rules[domain] = rule

    def _open_zap_handler(self) -> None:
        if self._zap_handler is None:
            raw = self._context.socket(zmq.ROUTER)
            raw.set(zmq.LINGER, 0)
            self._zap_handler = Socket(self.turns, self.sockets, raw, self._zap_request, "ZAP")
            raw.bind(ZAP_ENDPOINT)

    def _zap_request(self, frames: list[bytes], origin: Origin) -> None:
        cut = frames.index(b"") + 1 if b"" in frames else len(frames)
        if self._zap_handler is not None:
            self._zap_handler.send(frames[:cut] + zap.answer(frames[cut:], self._rules))

    def close(self) -> Deferred[None]:
        """Close open sockets and end the Context, in a thread, since that waits for lingering messages."""
        for socket in [each for each in self.sockets if not each.is_monitor]:
            socket.close()  # its monitor with it, and after it: rule 6
        self._zap_handler = None
        self.turns.stop()
        self._networks.pop(self.reactor, None)
        pool = self.reactor.getThreadPool()
        if not pool.started:
            self._context.term()
            return succeed(None)
        return deferToThreadPool(self.reactor, pool, self._context.term)


def _discard(frames: list[bytes], origin: Origin) -> None:
    """Drop a message, for sockets that only send."""
