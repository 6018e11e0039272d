"""One connection to Helen: Twisted on one side, equus_protocol's Conversation on the other.

What it does itself: the greeting, `ping` and `pong`, one write per reactor turn, fairness, and every way in which a
connection ends. What messages mean is for its `Listener`. Whatever is illegal is logged and ends the connection;
an agent never says `error`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, IPushProducer, ITCPTransport
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import RemoteProtocolError

HANDSHAKE_WITHIN = 10.0  # seconds for TLS; docs/protocol.rst section 1
PING_AFTER = 20.0  # seconds without reading anything; docs/protocol.rst section 5
DROP_AFTER = 10.0  # seconds more
# With another Helen to go to, silence is not borne for so long while something awaits her answer (a report its `ack`).
RESTLESS_AFTER, RESTLESS_DROP = 4.0, 4.0  # seconds until a ping, seconds more until the link is dropped
ACCEPTED_AFTER = 1.0  # seconds without an error, from a Helen that takes hello in silence
CLOSE_WITHIN = 2.0  # seconds that a peer has to say goodbye; half of what SIGTERM leaves us
MESSAGES_PER_TURN = 256  # then the rest of the reactor has its turn
MAX_ARGS = 64 * 1024 * 1024  # bytes of args of unanswered checks, all together
MAX_UNSENT = 64 * 1024 * 1024  # bytes: results for as many args, to a Helen that doesn't read
MAX_ID = 2**31 - 1
# A version 1 link has no heartbeat: the kernel asks after a minute and gives up after another.
KEEPALIVE_IDLE, KEEPALIVE_EVERY, KEEPALIVE_TRIES = 60, 15, 4  # seconds, seconds, probes
USER_TIMEOUT = 60_000  # milliseconds that bytes of ours may stay unacknowledged


class Listener(Protocol):
    """What a connection tells; `heard` is never called with Ping, Pong or Error."""

    def accepted(self, connection: Connection) -> None: ...

    def heard(self, connection: Connection, message: m.Message) -> None: ...

    def writable(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection, reason: Failure) -> None: ...


@implementer(IHandshakeListener, IPushProducer)
class Connection(TwistedProtocol):
    """Made for one dial. `greet` says the first thing: hello, or enrol."""

    log = Logger(namespace="equus.connection")

    def __init__(self, listener: Listener, clock: Any, greet: Callable[[Connection], None], is_secure: bool) -> None:
        self._listener = listener
        self._clock = clock
        self._greet = greet
        self._is_secure = is_secure
        self.conversation = Conversation(Role.EQUUS)
        self.alive = False  # greeted, and not over
        self.is_accepted = False
        self.is_writable = True
        self.error = ""  # what Helen said last
        self.offence = ""  # what she did
        self.began = clock.seconds()
        self.is_restless: Callable[[], bool] = lambda: False  # whether there is another Helen to go to
        self._awaiting: float | None = None  # since when something of ours awaits an answer
        self._out: list[bytes] = []
        self._unsent = 0  # bytes in _out
        self._args: dict[int, int] = {}  # bytes of args by outstanding check
        self._asked: dict[int, Deferred[Any]] = {}
        self._last_id = 0
        self._last_read = self.began
        self._timers: dict[str, Any] = {}

    # ---------------------------------------------------------------------------------------------- Twisted's side

    def connectionMade(self) -> None:
        watch_the_wire(self.transport)
        if self._is_secure:
            self._later("handshake", HANDSHAKE_WITHIN, self.abort)
        else:
            self._begin()

    def handshakeCompleted(self) -> None:
        """Only now is the peer known to be Helen."""
        self._begin()

    def _begin(self) -> None:
        self._cancel("handshake")
        self.alive = True
        self.began = self._last_read = self._clock.seconds()
        self.transport.registerProducer(self, True)
        self._greet(self)
        self._later("accepted", ACCEPTED_AFTER, self._accept)

    def dataReceived(self, data: bytes) -> None:
        self._last_read = self._clock.seconds()
        if self.alive:
            self.conversation.feed(data)
            self._read()

    def _read(self) -> None:
        """Take messages until there are none, or until it is others' turn."""
        try:
            for message in self.conversation.turn(MESSAGES_PER_TURN):
                self._heard(message)
                if not self.alive:
                    return
        except RemoteProtocolError as error:
            self.illegal(f"{error.slug}: {error.detail}")
            return
        if self.conversation.more:
            self.transport.pauseProducing()
            self._later("read", 0, self._read_on)

    def _read_on(self) -> None:
        self.transport.resumeProducing()
        self._read()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._over()
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            waiting.errback(reason)
        self._listener.lost(self, reason)

    # ---------------------------------------------------------------------------------------------- what Helen says

    def _heard(self, message: m.Message) -> None:
        if isinstance(message, m.Error):
            self.error = message.message
            self.log.error("Helen says error: {message}", message=message.message)
            self._out.clear()
            self.close()
            return
        if isinstance(message, m.Check):
            self._args[message.message_id] = len(message.args)
            if sum(self._args.values()) > MAX_ARGS:
                self.illegal(f"too-many-outstanding: args of unanswered checks exceed {MAX_ARGS} bytes")
                return
        if not isinstance(message, m.Enrolled):
            self._accept()
        if isinstance(message, m.Ping):
            self.send(m.Pong(message.message_id))
        elif isinstance(message, m.Manifest | m.File | m.Enrolled):
            self._asked.pop(message.message_id).callback(message)
        elif not isinstance(message, m.Pong):
            self._listener.heard(self, message)
        if self.conversation.speaks_v2 and "heartbeat" not in self._timers:
            self._later("heartbeat", PING_AFTER, self._feel_pulse)

    def _accept(self) -> None:
        self._cancel("accepted")
        if not self.is_accepted and self.conversation.version:
            self.is_accepted = True
            self._listener.accepted(self)

    def _feel_pulse(self) -> None:
        """One timer, moved only when it rings: reading costs nothing."""
        silence = self._clock.seconds() - self._last_read
        if silence >= PING_AFTER + DROP_AFTER:
            self.log.error("Helen has been silent for {silence:.0f} s and answered no ping: dropped", silence=silence)
            self.abort()
            return
        if silence >= PING_AFTER:
            self.send(m.Ping(self.next_id()))
        limit = PING_AFTER if silence < PING_AFTER else PING_AFTER + DROP_AFTER
        self._later("heartbeat", limit - silence, self._feel_pulse)

    def awaits(self, waits: bool) -> None:
        """Whether something that we said is still to be answered; `sender.py` knows."""
        if not waits:
            self._awaiting = None
        elif self._awaiting is None:
            self._awaiting = self._clock.seconds()
            self._later("answer", RESTLESS_AFTER, self._grow_restless)

    def _grow_restless(self) -> None:
        """Our own pulse is slow on purpose: 30 s bother nobody who has nowhere else to go."""
        if self._awaiting is None or not self.conversation.speaks_v2 or not self.is_restless():
            if self._awaiting is not None:
                self._later("answer", RESTLESS_AFTER, self._grow_restless)
            return
        silence = self._clock.seconds() - max(self._last_read, self._awaiting)
        if silence >= RESTLESS_AFTER + RESTLESS_DROP:
            self.log.error("Helen has answered nothing for {silence:.0f} s: going to another", silence=silence)
            self.abort()
            return
        if silence >= RESTLESS_AFTER:
            self.send(m.Ping(self.next_id()))
        limit = RESTLESS_AFTER if silence < RESTLESS_AFTER else RESTLESS_AFTER + RESTLESS_DROP
        self._later("answer", limit - silence, self._grow_restless)

    # ---------------------------------------------------------------------------------------------- what we say

    def send(self, message: m.Message) -> None:
        """Say it at the end of this reactor turn, in one write with all else; nothing when it is over."""
        if not self.alive:
            return
        data = self.conversation.send(message)
        if isinstance(message, m.Result):
            self._args.pop(message.message_id, None)
        self._out.append(data)
        self._unsent += len(data)
        if self._unsent > MAX_UNSENT:
            self.log.error("Helen has not read {size} bytes of ours: dropped", size=self._unsent)
            self.abort()
        elif self.is_writable:
            self._later("flush", 0, self._flush)

    def ask(self, make: Callable[[int], m.Message]) -> Deferred[Any]:
        """Send a request made with the next id; its answer. Fails when the connection is lost."""
        if not self.alive:
            return fail(ConnectionDone())
        message_id = self.next_id()
        answer: Deferred[Any] = Deferred()
        self._asked[message_id] = answer
        self.send(make(message_id))
        return answer

    def next_id(self) -> int:
        self._last_id = self._last_id % MAX_ID + 1
        return self._last_id

    def _flush(self) -> None:
        out, self._out, self._unsent = self._out, [], 0
        if out and self.alive:
            self.transport.write(b"".join(out))

    def pauseProducing(self) -> None:
        """Helen reads more slowly than we write."""
        self.is_writable = False
        self._cancel("flush")

    def resumeProducing(self) -> None:
        self.is_writable = True
        if self.alive:
            self._flush()
            self._listener.writable(self)

    def stopProducing(self) -> None:
        """The connection is lost; connectionLost will say so."""

    # ---------------------------------------------------------------------------------------------- the end

    def illegal(self, what: str) -> None:
        """Helen broke the protocol: hang up, and say nothing more."""
        self.offence = what
        version = self.conversation.version
        state = f"version {version}" if version else "before hello"  # its own state is "failed" by now
        self.log.error("illegal from helen ({state}): {what}", state=state, what=what)
        self._out.clear()
        self.close()

    def close(self) -> None:
        """Say goodbye properly: what was said is flushed, and a peer that doesn't answer is cut off soon."""
        if not self.alive:
            return
        self._flush()
        self._over()
        self._later("abort", CLOSE_WITHIN, self.transport.abortConnection)
        self.transport.unregisterProducer()
        self.transport.resumeProducing()  # reading may be paused, and the peer's goodbye must be heard
        self.transport.loseConnection()

    def abort(self) -> None:
        self._over()
        self.transport.abortConnection()

    def _over(self) -> None:
        self.alive = False
        self.conversation.hang_up()
        for name in list(self._timers):
            self._cancel(name)

    # ---------------------------------------------------------------------------------------------- timers and trace

    def _later(self, name: str, seconds: float, call: Callable[[], Any]) -> None:
        if name not in self._timers and (self.alive or name in ("handshake", "abort")):
            self._timers[name] = self._clock.callLater(seconds, self._ring, name, call)

    def _ring(self, name: str, call: Callable[[], Any]) -> None:
        del self._timers[name]
        call()

    def _cancel(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def trace(self) -> None:
        """Log each message that comes and goes."""
        self.conversation.trace = lambda line: self.log.debug("{line}", line=line)


def watch_the_wire(transport: Any) -> None:
    """Let the kernel find out about a link that is dead; what it can't set on this system is left as it is."""
    if not ITCPTransport.providedBy(transport):
        return
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    wire = getattr(transport, "socket", None)
    if not isinstance(wire, socket.socket):
        return
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY),
        ("TCP_KEEPCNT", KEEPALIVE_TRIES),
        ("TCP_USER_TIMEOUT", USER_TIMEOUT),
    ):
        if hasattr(socket, name):
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
