"""Joins one agent's connection and its Conversation: a thin Twisted shim between the transport and a Conversation.

It owns what a socket needs and a conversation doesn't know: deadlines, heartbeats, a cap on what waits to be sent, and
one joined write a turn. Its `ConnectionOwner` decides what messages mean. There is no callLater per connection:
`sweep` is called for each of them, once a tick (helen/sessions/listener.py).
"""

from __future__ import annotations

from collections.abc import Sized
from enum import Enum
from typing import Any
from typing import Protocol as TypingProtocol

from cryptography import x509
from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from equus_protocol import messages as m
from equus_protocol.cheap_values import cheap_value
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import RemoteProtocolError
from helen.identity.tls import peer_certificate
from helen.keys.certificates import BadRequest, checked_name
from helen.quotas.budget import Budget
from helen.sessions.deadlines import (
    DEAD_SECONDS,
    HELLO_SECONDS,
    LASTS,
    QUIET_SECONDS,
    REASSURE_SECONDS,
    PartialInput,
    Phase,
)
from helen.sessions.fair_turns import BUSY_SECONDS, SLICE_SECONDS
from helen.sessions.flood_meter import FloodMeter
from helen.sessions.socket_options import tune_socket
from helen.sessions.unsent_bytes import UNSENT_MOST, OutgoingBytes
from helen.storage.enrolled_keys import Identity, NotEnrolled

_RESULTS = frozenset({m.Report, m.Result})  # all that most agents say: nothing but the quotas counts them
# Their number is bounded by the credit that they use or give.
_OF_TUNNELS = frozenset({m.Bytes, m.Window, m.Close})
GREAT_PART = 65_536  # bytes of one result: beyond it the owner is asked if the rest may come now
FAST_PART = 16_384  # bytes of such a result that came at once: the next ones wait for their turn among the busy
LITTLE = 1_024  # bytes that came at once, and are handled though the turn is over, where the transport counts turns
CHEAP_MESSAGES = 16  # beside results, in one turn: an agent that works as it should sends one or two


@cheap_value
class Clocks:
    """Holds one reading of both clocks: `wall` in unix seconds, `steady` in monotonic seconds for deadlines."""

    wall: float
    steady: float


class ConnectionOwner(TypingProtocol):
    """Receives what happens on connections. Nothing here blocks; helen/sessions/session_service.py implements it."""

    def clocks(self) -> Clocks:
        """Return the time of now, by both clocks."""

    def steady(self) -> float:
        """Return the time of now in monotonic seconds: for each read of bytes, where `clocks` would cost too much."""

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity:
        """Return the identity behind a certificate. `now`: unix seconds. Raises NotEnrolled if there is none."""

    def arrived(self, connection: AgentConnection) -> None:
        """Take note of a new connection; nothing has been read of it."""

    def hello(self, connection: AgentConnection, hello: m.Hello) -> None:
        """Decide whether to admit a peer that has said hello: `admit` or `refuse`, now or later."""

    def enrol(self, connection: AgentConnection, message: m.Enrol) -> None:
        """Answer a request for a certificate, of a peer that is not admitted."""

    def overspent(self, connection: AgentConnection) -> bool:
        """Refuse an agent that has sent too many messages beside results; return False if it may go on."""

    def heard_from(self, connection: AgentConnection) -> None:
        """Take note that bytes have come: the peer is alive."""

    def heard_part(self, connection: AgentConnection) -> None:
        """Take note that at least GREAT_PART bytes of a result have come, and it is not whole: hold it, or read on."""

    def heard(self, connection: AgentConnection, message: m.Message) -> None:
        """Handle a message of an admitted agent; `hello`, `ping` and `pong` never get here."""

    def report(self, connection: AgentConnection, report: m.Report) -> None:
        """Do what `heard` does with a report: for each of them, where one more call would be felt."""

    def result(self, connection: AgentConnection, result: m.Result) -> None:
        """Do what `heard` does with a result, in the same way."""

    @property
    def contested(self) -> Sized:
        """Return the names that two connections have, of which one has to answer: while there are none, it is empty."""

    def drained(self, connection: AgentConnection) -> None:
        """Take note that the transport has room again."""

    def refused(self, connection: AgentConnection, slug: str) -> None:
        """Take note that the peer was sent this error."""

    def failed(self, connection: AgentConnection, failure: Failure) -> None:
        """Take note that a fault of Helen's ends this connection."""

    def lost(self, connection: AgentConnection) -> None:
        """Take note that the agent of this connection has gone."""

    def gone(self, connection: AgentConnection) -> None:
        """Forget the connection; called once, after `lost`."""

    def has_time(self) -> bool:
        """Return False if others have to have their turn before more is handled."""

    def soon(self, connection: AgentConnection) -> None:
        """Call `flush` in the next turn of the reactor."""

    def later(self, connection: AgentConnection) -> None:
        """Call `listen` in the next turn of the reactor."""


class Hold(Enum):
    """Holds a reason to read nothing more of a connection for now. Several may hold at once; each is released by
    itself.
    """

    ROSTER = "its name is being decided"
    ENROLMENT = "its certificate is being made"
    JOURNAL = "the journal has to catch up"
    REPORT = "its load report is being read"
    DRAIN = "it is about to be sent to another Helen"


@implementer(IHandshakeListener, IPushProducer)
class AgentConnection(Protocol):
    """Reads and writes one agent's messages, and keeps its deadlines.

    `identity` is None for a stranger; `name` is empty until the identity is known.
    """

    log = Logger()
    transport: Any  # Twisted's own, or TLS over it

    def __init__(self, owner: ConnectionOwner, encrypted: bool = True) -> None:
        self.owner = owner
        self.encrypted = encrypted
        self.conversation = Conversation(Role.HELEN)
        self.identity: Identity | None = None
        self.certificate: x509.Certificate | None = None
        self.name = ""
        self.address = ""
        self.equus_version = ""
        self.phase = Phase.HANDSHAKE
        self.admitted = False  # stays True when it closes
        self.closing = False  # CLOSING or ENDED: nothing more is read or said
        self.holds: set[Hold] = set()
        self.budget: Budget | None = None  # of its agent, once it is admitted
        self.pinged_at: float | None = None
        self._next_id = 0
        self._outgoing = OutgoingBytes()
        self._in_turn = False  # `listen` is at work, and writes what was said when it is done
        self._reading_paused = False
        self._deadline: float | None = None  # monotonic seconds, of the phase
        self._read_at = 0.0
        self._held_since = 0.0
        self._reassured_at = 0.0
        self._part = PartialInput()
        self._cheap = 0  # messages of this turn that are no results
        self._little = 0  # bytes that are handled at once in any case
        self._flood = FloodMeter()
        self._busy_until = 0.0  # monotonic seconds

    @property
    def version(self) -> int:
        """Return the version of the protocol that is spoken."""
        return self.conversation.version

    @property
    def is_busy(self) -> bool:
        """Return whether it has flooded within the last BUSY_SECONDS: then others come first."""
        return self._read_at < self._busy_until

    @property
    def has_spoken(self) -> bool:
        """Return True if any byte has come, of TLS or of the protocol."""
        return bool(getattr(self.transport, "has_spoken", False) or self.conversation.unread or self.name or self.holds)

    @property
    def held(self) -> bool:
        """Return whether reading is paused; then silence means nothing, and deadlines do not run."""
        return bool(self.holds) or self._reading_paused

    def _enter(self, phase: Phase, now: float) -> None:
        self.phase = phase
        self.closing = phase is Phase.CLOSING or phase is Phase.ENDED
        lasts = LASTS.get(phase)
        self._deadline = None if lasts is None else now + lasts

    # ---------------------------------------------------------------------------------------------- Twisted calls

    def connectionMade(self) -> None:
        """Begin to wait for the handshake, or for hello where there is no TLS."""
        now = self.owner.clocks().steady
        peer = self.transport.getPeer()
        self.address = getattr(peer, "host", "unix")
        self._read_at = now
        self._enter(Phase.HANDSHAKE, now)
        self._little = LITTLE if getattr(self.transport, "is_in_turns", False) else 0
        tune_socket(self.transport)
        self.transport.registerProducer(self, True)
        self.owner.arrived(self)
        if not self.encrypted:
            self._enter(Phase.HELLO, now)

    def handshakeCompleted(self) -> None:
        """Look up the identity behind the peer's certificate, if it has one."""
        clocks = self.owner.clocks()
        self._enter(Phase.HELLO, clocks.steady)
        try:
            self.certificate = peer_certificate(self.transport)
        except ValueError as error:  # OpenSSL took it, cryptography doesn't
            self.refuse("not-enrolled", f"its certificate can't be read: {error}")
            return
        if self.certificate is not None:
            self._identify(clocks.wall)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes, and handle one turn's worth of messages."""
        if self.closing:
            return
        owner = self.owner
        self._read_at = owner.steady()
        self._part.bytes += len(data)
        owner.heard_from(self)
        self.conversation.feed(data)
        if self._part.bytes >= GREAT_PART and self.conversation.unfinished_kind in _RESULTS:
            if len(data) >= FAST_PART:
                self._busy_until = self._read_at + BUSY_SECONDS
            owner.heard_part(self)
        # The first as in `is_busy`. Of a little all is handled in less time than another turn takes to come.
        if self._read_at >= self._busy_until and (len(data) <= self._little or owner.has_time()):
            self.listen()
        else:
            self._pause()
            owner.later(self)

    def recordReceived(self, data: bytes) -> None:
        """Take one record that a transport has time for: a result of known words at once, all else as any bytes.

        Nearly every record is such a result. Nothing is unread before it nor behind it, so that there are no limits of
        a turn to be kept, no part to be watched, and nothing for which reading could be paused.
        """
        owner, now = self.owner, self.owner.steady()
        message = None
        if (
            self.admitted and not self.closing and not self.holds and not self._reading_paused
            and now >= self._busy_until and not owner.contested
        ):  # fmt: skip
            message = self.conversation.usual.take(data)
        if message is None:
            self.dataReceived(data)
            return
        self._read_at = now
        self._in_turn = True
        try:
            if type(message) is m.Report:
                owner.report(self, message)
            else:
                owner.result(self, message)  # type: ignore[arg-type]
        except Exception:
            self._fail()
        finally:
            self._in_turn = False
            if self._outgoing.parts:
                self.flush()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the owner that the agent and its connection have gone."""
        self._end()
        self.owner.lost(self)
        self.owner.gone(self)

    def pauseProducing(self) -> None:
        """Count from here on: the transport holds more than it likes."""
        self._outgoing.transport_full = True

    def resumeProducing(self) -> None:
        """Tell the owner that there is room again."""
        self._outgoing.transport_drained()
        if not self.closing:
            self.owner.drained(self)

    def stopProducing(self) -> None:
        """Write without a pause what is left."""
        self._outgoing.transport_full = False

    # ---------------------------------------------------------------------------------------------- listening

    def listen(self) -> None:
        """Handle the messages that have come, for one slice at most; the rest is for the next turn."""
        if self.holds or self.closing:
            return
        self._in_turn = True
        try:
            self._listen()
        except RemoteProtocolError as error:
            self.refuse(error.slug, error.detail)
        except Exception:
            self._fail()
        finally:
            self._in_turn = False
            if self._outgoing.parts:
                self.flush()

    def _fail(self) -> None:
        """End this connection after a fault of Helen's that is being handled; the others go on."""
        self.owner.failed(self, Failure())
        self.refuse("internal", "a fault of Helen's; its log has it")

    def _listen(self) -> None:
        """Handle a turn's messages. Results go to the owner at once: a call for each of them would be felt."""
        self._cheap, part, report, result = 0, self._part, self.owner.report, self.owner.result
        is_cut, taken, steady = False, 0, self.owner.steady
        until = steady() + SLICE_SECONDS
        for message in self.conversation.turn():
            part.part = None
            taken += 1
            kind = type(message)
            if kind is m.Report and self.admitted:
                report(self, message)  # type: ignore[arg-type]
            elif kind is m.Result and self.admitted:
                result(self, message)  # type: ignore[arg-type]
            else:
                self._handle(message)
            if self.closing or self.holds:
                return
            if self._cheap >= CHEAP_MESSAGES or steady() >= until:
                is_cut = self.conversation.unread > 0  # else it has taken its time, and has said no more
                break
        if is_cut or self.conversation.more:
            if self._flood.is_flood(taken, part.bytes, until):
                self._busy_until = until + BUSY_SECONDS
            self._pause()
            self.owner.later(self)
        else:
            unfinished = self.conversation.unfinished
            if unfinished is None:
                part.part, part.bytes = None, 0
            else:
                part.note(unfinished, self._read_at)
            if self._reading_paused:
                self._go_on_reading()

    def _handle(self, message: m.Message) -> None:
        if self.admitted:
            kind = type(message)
            if kind in _OF_TUNNELS:
                self.owner.heard(self, message)
            elif not self._is_overspent():
                if kind is m.Ping:
                    self.send(m.Pong(message.message_id))  # type: ignore[union-attr]
                elif kind is not m.Pong:
                    self.owner.heard(self, message)
        elif isinstance(message, m.Hello):
            self._hello(message)
        elif isinstance(message, m.Enrol):
            self.owner.enrol(self, message)

    def _is_overspent(self) -> bool:
        """Count a message that is no result; such a one ends the turn of an agent that sends many of them."""
        self._cheap += 1
        budget = self.budget
        if budget is None:
            return False
        budget.messages.left -= 1
        return budget.messages.left < 0 and self.owner.overspent(self)

    def _hello(self, hello: m.Hello) -> None:
        """Leave the decision to the owner, which may come later; until then nothing more is heard."""
        self.equus_version = hello.equus_version
        clocks = self.owner.clocks()
        if self.encrypted and not self._identify(clocks.wall):
            return
        if not self.encrypted and not self._take_plain_name(hello.equus_version):
            return
        self._enter(Phase.DECISION, clocks.steady)
        self.hold(Hold.ROSTER)
        self.owner.hello(self, hello)

    def _identify(self, wall: float) -> bool:
        """Look the certificate up, at the handshake and again at hello: it may have been revoked between the two."""
        try:
            self.identity = self.owner.identify(self.certificate, wall)
        except NotEnrolled as refused:
            self.refuse("not-enrolled", str(refused))
            return False
        self.name = self.identity.name
        return True

    def _take_plain_name(self, equus_version: str) -> bool:
        """Believe the name that is given: there is no identity without TLS. Equus says `equus/1.0;name=web-1`."""
        name = equus_version.partition(";name=")[2] or f"plain-{self.address.replace(':', '-')}"
        try:
            self.name = checked_name(name)
        except BadRequest as error:
            self.refuse("not-enrolled", str(error))
            return False
        return True

    def hold(self, why: Hold) -> None:
        """Pause reading until `go_on` is called for the same reason."""
        if not self.holds:
            self._held_since = self._reassured_at = self.owner.clocks().steady
        self.holds.add(why)
        self._pause()

    def go_on(self, why: Hold) -> None:
        """Remove one reason to pause; resume reading when none is left."""
        if self._release(why) and not self.closing:
            self.listen()

    def _release(self, why: Hold) -> bool:
        """Remove a hold; True if none is left. The time in which nothing was read moves the peer's deadlines."""
        if why not in self.holds:
            return False
        self.holds.remove(why)
        if self.holds:
            return False
        now = self.owner.clocks().steady
        paused = now - self._held_since
        self._read_at = now
        self._part.shift(paused)
        if self.phase is Phase.HELLO and self._deadline is not None:
            self._deadline += paused
        return True

    def _pause(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self._reassured_at = max(self._reassured_at, self._read_at)
        self.transport.pauseProducing()

    def _go_on_reading(self) -> None:
        """Read again. The time in which nothing was read is not the peer's: it may have waited for its slice."""
        if self._reading_paused and not self.holds:
            now = self.owner.steady()
            self._part.shift(now - self._read_at)
            self._read_at = now
            self._reading_paused = False
            self.transport.resumeProducing()

    # ---------------------------------------------------------------------------------------------- admission and end

    def admit(self) -> None:
        """Handle the agent's messages from now on. It may be closing already, if it had to wait for a decision."""
        self.admitted = True
        if not self.closing:
            self._enter(Phase.ADMITTED, self.owner.clocks().steady)
        self._release(Hold.ROSTER)
        self.owner.later(self)

    def ping(self) -> None:
        """Ask whether the peer is alive; any byte is an answer."""
        self.pinged_at = self.owner.clocks().steady
        self.send(m.Ping(self.next_id()))

    def refuse(self, slug: str, why: str = "") -> None:
        """Send an error as the last line, and close once it has left. `why` is for Helen's own log."""
        if self.closing:
            return
        self._tell("{name} at {address}: error {slug}: {why}", slug=slug, why=why)
        self.owner.refused(self, slug)
        self._outgoing.add(self.conversation.send(m.Error(slug)))
        self._close()

    def drop(self, why: str) -> None:
        """End the connection at once, without a last line. An empty `why` is counted elsewhere, and not logged."""
        if why and not self.closing:
            self._tell("{name} at {address}: dropped: {why}", why=why)
        self._end()
        self.holds.clear()
        self.transport.unregisterProducer()
        self.transport.abortConnection()

    def _tell(self, text: str, **fields: str) -> None:
        """Log a line about this connection, if it is no stranger's or if strangers have not caused many lately."""
        lines = None if self.name else getattr(self.factory, "stranger_lines", None)
        more = "" if lines is None else lines.take(self.owner.clocks().steady)
        if more is not None:
            name = self.name or "a stranger"
            self.log.info(text + "{more}", name=name, address=self.address, more=more, **fields)

    def _end(self) -> None:
        self._enter(Phase.ENDED, 0.0)
        self.conversation.hang_up()
        self._outgoing.clear()

    def _close(self) -> None:
        self._in_turn = False
        self.flush()
        if self.closing:  # it was too much for the peer already
            return
        self._enter(Phase.CLOSING, self.owner.clocks().steady)
        self.holds.clear()
        # A registered producer would keep loseConnection waiting for it to stop.
        self.transport.unregisterProducer()
        self.transport.resumeProducing()
        self.transport.loseConnection()

    # ---------------------------------------------------------------------------------------------- speaking

    def next_id(self) -> int:
        """Return a message id of Helen's that isn't outstanding."""
        while True:
            self._next_id = self._next_id % 2147483647 + 1
            conversation = self.conversation
            if self._next_id not in conversation.outstanding and self._next_id not in conversation.tunnels.open:
                return self._next_id

    def send(self, message: m.Message) -> None:
        """Send a message, in one write with all else that is said in this turn."""
        if self.closing:
            return
        self._outgoing.add(self.conversation.send(message))
        if not self._in_turn:
            self.owner.soon(self)

    def check(self, name: str, args: bytes) -> int:
        """Send a check and return its message id: as `next_id` and `send`, in fewer calls.

        Raises LocalProtocolError if that is illegal now, because 64 are outstanding for instance.
        """
        message_id = self.next_id()
        if not self.closing:
            self._outgoing.add(self.conversation.check(name, message_id, args))
            if not self._in_turn:
                self.owner.soon(self)
        return message_id

    def acknowledge(self, spool: str, sequence: int) -> None:
        """Say that all of a spool up to this sequence is durable: as `send`, and for each result in fewer calls."""
        if not self.closing:
            data = self.conversation.ack(spool, sequence)
            outgoing = self._outgoing  # as its `add` does it
            outgoing.parts.append(data)
            outgoing.size += len(data)
            if not self._in_turn:
                self.owner.soon(self)

    def flush(self) -> None:
        """Write what has been said since the last time, as one."""
        if not self.closing and not self._outgoing.flush(self.transport):
            self.drop(f"it doesn't read: more than {UNSENT_MOST} bytes wait for it")

    @property
    def congested(self) -> bool:
        """Return whether great answers should rather wait, since too many bytes are unsent."""
        return self._outgoing.is_congested

    # ---------------------------------------------------------------------------------------------- time

    def sweep(self, now: float, wall: float) -> None:
        """End the connection if a deadline is over. `now`: monotonic seconds, `wall`: unix seconds."""
        if self._deadline is not None and now >= self._deadline and (self.closing or not self.holds):
            self._too_late()
        elif self.closing:
            return
        elif self.identity is not None and self.identity.not_after <= wall:
            self.refuse("not-enrolled", "its certificate has expired while it was connected")
        elif self.holds or self._reading_paused:
            self._reassure(now)
        elif self._part.is_due(now):
            if (fault := self._part.fault(now)) is not None:
                self.refuse("idle-timeout", fault)
        elif self.admitted and self.version == 2 and now - self._read_at >= QUIET_SECONDS:
            self._check_silence(now)

    def _too_late(self) -> None:
        if self.phase is Phase.HELLO:
            self.refuse("hello-timeout", f"no hello within {HELLO_SECONDS:g} s of the handshake")
        else:
            self.drop(f"{self.phase.value} took too long")

    def _reassure(self, now: float) -> None:
        """Ping a held agent: its own pings are not read, and without ours it would drop the connection."""
        if self.admitted and self.version == 2 and now - self._reassured_at >= REASSURE_SECONDS:
            self._reassured_at = now
            self.ping()
            self.flush()

    def _check_silence(self, now: float) -> None:
        if self.pinged_at is None or self.pinged_at < self._read_at:
            self.ping()
            self.flush()
        elif now - self.pinged_at >= DEAD_SECONDS:
            self.drop(f"silent for {now - self._read_at:.0f} s")
