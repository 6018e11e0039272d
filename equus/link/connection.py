"""Run one connection to Helen, with Twisted on one side and equus_protocol's Conversation on the other.

It does the greeting, fairness, and every way in which a connection ends. silence.py judges a silent Helen, questions.py
brings answers to those who asked, and joined_writes.py keeps what is said. All other messages go to its `Listener`. An
illegal message is logged and ends the connection; an agent never sends `error`.
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

from equus.link.joined_writes import JoinedWrites
from equus.link.named_timers import NamedTimers
from equus.link.questions import Questions
from equus.link.silence import Silence
from equus.link.socket_options import acknowledge_at_once, enable_keepalive, raw_socket
from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import RemoteProtocolError

HANDSHAKE_WITHIN = 10.0  # seconds for TLS; docs/protocol.rst section 1
ACCEPTED_AFTER = 1.0  # seconds without an error: a Helen of version 1 does not answer hello
CLOSE_WITHIN = 2.0  # seconds that a peer has for its goodbye; half of the time that SIGTERM leaves us
MESSAGES_PER_TURN = 256  # then the rest of the reactor has its turn
MAX_ARGS = 64 * 1024 * 1024  # bytes of args of unanswered checks, all together


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

    log = Logger()

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
        self.helen, self.began = helen, clock.seconds()
        self._listener = listener
        self._clock = clock
        self._greet = greet
        self._is_secure = is_secure
        self.conversation = Conversation(Role.EQUUS)
        if trace is not None:
            self.conversation.trace_to(trace)
        self.alive = False  # greeted, and not over
        self.is_accepted = False
        self.error = ""  # the text of Helen's `error`
        self.violation = ""  # how Helen broke the protocol
        self._args: dict[int, int] = {}  # bytes of args by outstanding check
        self._raw: socket.socket | None = None
        self._timers = NamedTimers(clock, self._forgive_silence)
        self._out = JoinedWrites(self._later, self._timers.cancel, lambda data: self.transport.write(data))
        self._questions = Questions(
            clock, self._later, self._timers.cancel, lambda: self.conversation.unfinished == "blob"
        )
        self._silence = Silence(
            clock, self._later, lambda: self.conversation.speaks_v2 and can_switch(), self._ping, self.abort
        )

    def connectionMade(self) -> None:
        """Wait for the TLS handshake, or greet at once without TLS."""
        enable_keepalive(self.transport)
        self._raw = raw_socket(self.transport)
        if self._is_secure:
            self._timers.later("handshake", HANDSHAKE_WITHIN, self.abort, is_patient=True)
        else:
            self._begin()

    def handshakeCompleted(self) -> None:
        """Greet Helen, because only now the peer is known to be Helen."""
        self._begin()

    def _begin(self) -> None:
        self._timers.cancel("handshake")
        self.alive = True
        self.began = self._silence.last_read = self._clock.seconds()
        self.transport.registerProducer(self, True)
        self._greet(self)
        self._later("accepted", ACCEPTED_AFTER, self._accept)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes from Helen; after the end of the connection they are ignored."""
        self._silence.last_read = self._clock.seconds()
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
        self._questions.fail_all(reason)
        self._listener.lost(self, reason)

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
            self._questions.answered(message.message_id, message)
        elif not isinstance(message, m.Pong):
            self._listener.heard(self, message)
        if self.conversation.speaks_v2 and not self._silence.is_watched:
            self._silence.watch()

    def _accept(self) -> None:
        self._timers.cancel("accepted")
        if not self.is_accepted and self.conversation.version:
            self.is_accepted = True
            self._listener.accepted(self)

    def _ping(self) -> None:
        self.send(m.Ping(self._questions.next_id()))

    def await_answer(self, is_awaited: bool) -> None:
        """Start or stop the time in which Helen must answer; the ReportSender does so for acks."""
        self._silence.await_answer(is_awaited)

    def send(self, message: m.Message) -> None:
        """Send a message at the end of this reactor turn, in one write with others; drop it after the end."""
        if not self.alive:
            return
        data = self.conversation.send(message)
        if isinstance(message, m.Result):
            self._args.pop(message.message_id, None)
        if not self._out.add(data):
            self.log.error("Helen has not read {size} bytes of ours: dropped", size=self._out.size)
            self.abort()

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
        return self._questions.ask(make, self.send, within)

    @property
    def is_writable(self) -> bool:
        """Return False while Helen reads more slowly than this agent writes."""
        return self._out.is_writable

    def pauseProducing(self) -> None:
        """Stop writing, because Helen reads more slowly than we write."""
        self._out.pause()

    def resumeProducing(self) -> None:
        """Write again, and tell the Listener."""
        self._out.resume()
        if self.alive:
            self._out.flush()
            self._listener.writable(self)

    def stopProducing(self) -> None:
        """Do nothing, because connectionLost is called as well."""

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
        self._out.flush()
        self._over()
        self._timers.later("abort", CLOSE_WITHIN, self.transport.abortConnection)
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
        self._timers.cancel_all()

    def _later(self, name: str, seconds: float, call: Callable[[], Any]) -> None:
        """Set a timer of a connection that lives."""
        if self.alive:
            self._timers.later(name, seconds, call)

    def _forgive_silence(self) -> None:
        self._questions.forgive()
        self._silence.forgive()
