"""Run one connection to Helen, with Twisted on one side and equus_protocol's Conversation on the other.

It does the greeting, `ping` and `pong`, one write per reactor turn, fairness, and every way in which a connection ends.
All other messages go to its `Listener`. An illegal message is logged and ends the connection; an agent never sends
`error`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from equus.link.socket_options import acknowledge_at_once, enable_keepalive, raw_socket
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import RemoteProtocolError
from groundwork.awake_clock import LATE_SECONDS

HANDSHAKE_WITHIN = 10.0  # seconds for TLS; docs/protocol.rst section 1
PING_AFTER = 20.0  # seconds without reading anything; docs/protocol.rst section 5
DROP_AFTER = 10.0  # seconds more
# Shorter, with another Helen to go to, while an answer is awaited (the `ack` of a report).
SWITCH_PING_AFTER, SWITCH_DROP_AFTER = 4.0, 4.0  # seconds until a ping, seconds more until the link is dropped
ANSWER_WITHIN = 30.0  # seconds for the answer to a question, without a byte of it; docs/protocol.rst section 5
ACCEPTED_AFTER = 1.0  # seconds without an error: a Helen of version 1 does not answer hello
CLOSE_WITHIN = 2.0  # seconds that a peer has for its goodbye; half of the time that SIGTERM leaves us
MESSAGES_PER_TURN = 256  # then the rest of the reactor has its turn
MAX_ARGS = 64 * 1024 * 1024  # bytes of args of unanswered checks, all together
MAX_UNSENT = 64 * 1024 * 1024  # bytes: results for as many args, to a Helen that doesn't read
MAX_ID = 2**31 - 1


class Unanswered(Exception):
    """Report that Helen has not answered a question within ANSWER_WITHIN, though the connection lives."""


class Listener(Protocol):
    """Receives the events of a connection."""

    def accepted(self, connection: Connection) -> None:
        """Take note that Helen has accepted hello."""

    def heard(self, connection: Connection, message: m.Message) -> None:
        """Take a message that has arrived; never Ping, Pong or Error."""

    def writable(self, connection: Connection) -> None:
        """Take note that Helen reads again after it was too slow."""

    def lost(self, connection: Connection, reason: Failure) -> None:
        """Take note that the connection has ended, for whichever reason."""


@implementer(IHandshakeListener, IPushProducer)
class Connection(TwistedProtocol):
    """Describes one connection, made for one attempt to dial.

    `greet` sends the first message, hello or enrol. `can_switch` returns True if there is another Helen to go to: then
    silence is endured for a shorter time. `helen` is the address that was dialled. `trace` gets a line for
    each message, if it is given.
    """

    log = Logger(namespace="equus.link.connection")

    def __init__(
        self,
        listener: Listener,
        clock: Any,
        greet: Callable[[Connection], None],
        is_secure: bool,
        can_switch: Callable[[], bool] = lambda: False,
        trace: Callable[[str], None] | None = None,
        helen: str = "Helen",
    ) -> None:
        self.helen = helen
        self._listener = listener
        self._clock = clock
        self._greet = greet
        self._is_secure = is_secure
        self._can_switch = can_switch
        self.conversation = Conversation(Role.EQUUS)
        if trace is not None:
            self.conversation.trace_to(trace)
        self.alive = False  # greeted, and not over
        self.is_accepted = False
        self.is_writable = True
        self.error = ""  # the text of Helen's `error`
        self.violation = ""  # how Helen broke the protocol
        self.began = clock.seconds()
        self._awaiting: float | None = None  # since when (clock.seconds) an answer is awaited
        self._out: list[bytes] = []
        self._unsent = 0  # bytes in _out
        self._args: dict[int, int] = {}  # bytes of args by outstanding check
        self._asked: dict[int, Deferred[Any]] = {}
        self._overdue: set[int] = set()  # ids of questions that were given up; their answers may still come
        self._answered_at = self.began  # clock.seconds of the last answer
        self._last_id = 0
        self._last_read = self.began
        self._raw: socket.socket | None = None
        self._timers: dict[str, Any] = {}

    # ---------------------------------------------------------------------------------------------- Twisted's side

    def connectionMade(self) -> None:
        """Wait for the TLS handshake, or greet at once without TLS."""
        enable_keepalive(self.transport)
        self._raw = raw_socket(self.transport)
        if self._is_secure:
            self._later("handshake", HANDSHAKE_WITHIN, self.abort)
        else:
            self._begin()

    def handshakeCompleted(self) -> None:
        """Greet Helen, because only now the peer is known to be Helen."""
        self._begin()

    def _begin(self) -> None:
        self._cancel("handshake")
        self.alive = True
        self.began = self._last_read = self._clock.seconds()
        self.transport.registerProducer(self, True)
        self._greet(self)
        self._later("accepted", ACCEPTED_AFTER, self._accept)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes from Helen; after the end of the connection they are ignored."""
        self._last_read = self._clock.seconds()
        acknowledge_at_once(self._raw)
        if self.alive:
            self.conversation.feed(data)
            self._read()

    def _read(self) -> None:
        """Take messages until there are none, or until the rest of the reactor must have its turn."""
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
        """Fail all unanswered requests, then tell the Listener."""
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
            self._answered(message.message_id, message)
        elif not isinstance(message, m.Pong):
            self._listener.heard(self, message)
        if self.conversation.speaks_v2 and "heartbeat" not in self._timers:
            self._later("heartbeat", PING_AFTER, self._check_heartbeat)

    def _accept(self) -> None:
        self._cancel("accepted")
        if not self.is_accepted and self.conversation.version:
            self.is_accepted = True
            self._listener.accepted(self)

    def _check_heartbeat(self) -> None:
        """Ping or drop a silent Helen. The timer is moved only when it fires, so that reading costs nothing."""
        silence = self._clock.seconds() - self._last_read
        if silence >= PING_AFTER + DROP_AFTER:
            self.log.error("Helen has been silent for {silence:.0f} s and answered no ping: dropped", silence=silence)
            self.abort()
            return
        if silence >= PING_AFTER:
            self.send(m.Ping(self.next_id()))
        limit = PING_AFTER if silence < PING_AFTER else PING_AFTER + DROP_AFTER
        self._later("heartbeat", limit - silence, self._check_heartbeat)

    def await_answer(self, is_awaited: bool) -> None:
        """Start or stop the time in which Helen must answer; the ReportSender does so for acks."""
        if not is_awaited:
            self._awaiting = None
        elif self._awaiting is None:
            self._awaiting = self._clock.seconds()
            self._later("answer", SWITCH_PING_AFTER, self._check_answer)

    def _check_answer(self) -> None:
        """Ping or drop a Helen that owes an answer. Without another Helen the slower heartbeat is enough."""
        if self._awaiting is None or not self.conversation.speaks_v2 or not self._can_switch():
            if self._awaiting is not None:
                self._later("answer", SWITCH_PING_AFTER, self._check_answer)
            return
        silence = self._clock.seconds() - max(self._last_read, self._awaiting)
        if silence >= SWITCH_PING_AFTER + SWITCH_DROP_AFTER:
            self.log.error("Helen has answered nothing for {silence:.0f} s: going to another", silence=silence)
            self.abort()
            return
        if silence >= SWITCH_PING_AFTER:
            self.send(m.Ping(self.next_id()))
        limit = SWITCH_PING_AFTER if silence < SWITCH_PING_AFTER else SWITCH_PING_AFTER + SWITCH_DROP_AFTER
        self._later("answer", limit - silence, self._check_answer)

    # ---------------------------------------------------------------------------------------------- what we say

    def send(self, message: m.Message) -> None:
        """Send a message at the end of this reactor turn, in one write with others; drop it after the end."""
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

    def soon(self, call: Callable[[], object]) -> None:
        """Call it in the next turn of the reactor, whether or not the connection lives then."""
        self._clock.callLater(0, call)

    def ask(self, make: Callable[[int], m.Message], within: float | None = None) -> Deferred[Any]:
        """Send a request, made with the next id, and return its answer.

        With `within` seconds of the reactor's clock it fails with Unanswered if none comes in time, and at once while
        an older one is overdue. It fails with the reason of the loss if the connection is lost.
        """
        if not self.alive:
            return fail(ConnectionDone())
        if within is not None and self._overdue:  # each question takes up an id until it is answered, and there are 64
            return fail(Unanswered())
        message_id = self.next_id()
        answer: Deferred[Any] = Deferred()
        self._asked[message_id] = answer
        self.send(make(message_id))
        if within is not None:
            self._later(f"question {message_id}", within, lambda: self._give_up(message_id, within))
        return answer

    def _give_up(self, message_id: int, within: float) -> None:
        """End a question, unless an answer to another one has come since, or a blob is on its way."""
        left = self._answered_at + within - self._clock.seconds()
        if self.conversation.unfinished == "blob":
            left = max(left, 1.0)
        if left > 0:
            self._later(f"question {message_id}", left, lambda: self._give_up(message_id, within))
            return
        self._overdue.add(message_id)
        self._asked.pop(message_id).errback(Unanswered())

    def _answered(self, message_id: int, message: m.Message) -> None:
        self._answered_at = self._clock.seconds()
        self._overdue.discard(message_id)
        self._cancel(f"question {message_id}")
        if (waiting := self._asked.pop(message_id, None)) is not None:
            waiting.callback(message)

    def next_id(self) -> int:
        """Return a message id that was not used for a long time: they run from 1 to MAX_ID, and round again."""
        self._last_id = self._last_id % MAX_ID + 1
        return self._last_id

    def _flush(self) -> None:
        out, self._out, self._unsent = self._out, [], 0
        if out and self.alive:
            self.transport.write(b"".join(out))

    def pauseProducing(self) -> None:
        """Stop writing, because Helen reads more slowly than we write."""
        self.is_writable = False
        self._cancel("flush")

    def resumeProducing(self) -> None:
        """Write again, and tell the Listener."""
        self.is_writable = True
        if self.alive:
            self._flush()
            self._listener.writable(self)

    def stopProducing(self) -> None:
        """Do nothing, because connectionLost is called as well."""

    # ---------------------------------------------------------------------------------------------- the end

    def illegal(self, what: str) -> None:
        """Log how Helen broke the protocol, and hang up without another message."""
        self.violation = what
        version = self.conversation.version
        state = f"version {version}" if version else "before hello"  # its own state is "failed" by now
        self.log.error("illegal from helen ({state}): {what}", state=state, what=what)
        self._out.clear()
        self.close()

    def close(self) -> None:
        """Flush and close the connection; a peer that doesn't close its side is cut off after CLOSE_WITHIN."""
        if not self.alive:
            return
        self._flush()
        self._over()
        self._later("abort", CLOSE_WITHIN, self.transport.abortConnection)
        self.transport.unregisterProducer()
        self.transport.resumeProducing()  # reading may be paused, and the peer's goodbye must be heard
        self.transport.loseConnection()

    def abort(self) -> None:
        """Cut the connection at once, without a goodbye."""
        self._over()
        self.transport.abortConnection()

    def _over(self) -> None:
        self.alive = False
        self.conversation.hang_up()
        for name in list(self._timers):
            self._cancel(name)

    # ---------------------------------------------------------------------------------------------- timers

    def _later(self, name: str, seconds: float, call: Callable[[], Any]) -> None:
        if name not in self._timers and (self.alive or name in ("handshake", "abort")):
            self._timers[name] = self._clock.callLater(seconds, self._fire, name, call)

    def _fire(self, name: str, call: Callable[[], Any]) -> None:
        planned = self._timers.pop(name).getTime()
        if self._clock.seconds() - planned >= LATE_SECONDS:
            self._forgive_silence()
            if name == "handshake":
                self._later(name, HANDSHAKE_WITHIN, call)
                return
        call()

    def _forgive_silence(self) -> None:
        """Judge no silence in which this agent slept: a ping comes first, and Helen has its full time to answer it."""
        now = self._answered_at = self._clock.seconds()
        self._last_read = max(self._last_read, now - PING_AFTER)
        if self._awaiting is not None:
            self._awaiting = max(self._awaiting, now - SWITCH_PING_AFTER)

    def _cancel(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
