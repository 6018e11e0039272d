"""One agent's connection: a thin Twisted shim between the transport and a Conversation.

It owns what a socket needs and a conversation doesn't know: deadlines, heartbeats, a cap on what waits to be sent, and
one joined write a turn. What messages mean is decided behind `House`. There is no
callLater per connection: `sweep` is called for each of them, once a tick (helen/listening.py).
"""

from __future__ import annotations

import socket
from enum import Enum
from typing import Any
from typing import Protocol as TypingProtocol

from attrs import frozen
from cryptography import x509
from twisted.internet.interfaces import IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from equus_protocol import messages as m
from equus_protocol.conversation import Conversation, Role
from equus_protocol.errors import RemoteProtocolError
from helen.authority import Identity, NotEnrolled
from helen.certificates import BadRequest, checked_name
from helen.outgoing import unsent
from helen.tls import HANDSHAKE_SECONDS, peer_certificate

# Each with a test on both sides (tests/helen/test_connection.py); the reasons are in docs/protocol.rst, section 8.
HELLO_SECONDS = 10.0  # from the end of the handshake to the whole line, however busy its bytes
LINE_SECONDS = 30.0  # for one line
BLOB_SECONDS = 60.0  # for one blob, or at BLOB_FLOOR if that takes longer
BLOB_FLOOR = 16_384  # bytes per second
QUIET_SECONDS = 20.0  # without a byte: version 2 is pinged
DEAD_SECONDS = 10.0  # without a byte after that ping: dropped
CLOSE_SECONDS = 3.0  # that a peer has to take our last line and answer our end of TLS
OUTGOING_MOST = 4 * 1024 * 1024  # bytes that wait for an agent that doesn't read; then it is cut
OUTGOING_MUCH = 65_536  # bytes from which on great answers wait: what Twisted's own transports call full
REASSURE_SECONDS = 3.0  # a held agent is pinged so often: it hears that we live, and doesn't go to another Helen
DEAD_PEER_MS = 30_000  # TCP_USER_TIMEOUT: the only way to find a version 1 peer that vanished


@frozen
class Clocks:
    """One reading of both clocks: `wall` in unix seconds, `steady` for deadlines."""

    wall: float
    steady: float


class House(TypingProtocol):
    """What a connection needs of the rest of Helen. Nothing here blocks."""

    def clocks(self) -> Clocks: ...

    def identify(self, certificate: x509.Certificate | None, now: float) -> Identity: ...

    def gone(self, connection: AgentConnection) -> None: ...

    def arrived(self, connection: AgentConnection) -> None: ...

    def hello(self, connection: AgentConnection, hello: m.Hello) -> None: ...

    def lost(self, connection: AgentConnection) -> None: ...

    def heard(self, connection: AgentConnection, message: m.Message) -> None: ...

    def heard_from(self, connection: AgentConnection) -> None: ...

    def refused(self, connection: AgentConnection, slug: str) -> None: ...

    def failed(self, connection: AgentConnection, failure: Failure) -> None: ...

    def drained(self, connection: AgentConnection) -> None: ...

    def enrol(self, connection: AgentConnection, message: m.Enrol) -> None: ...

    def soon(self, connection: AgentConnection) -> None: ...

    def later(self, connection: AgentConnection) -> None: ...


class Hold(Enum):
    """Why nothing more is heard of a connection for now. Several may hold at once; each is let go by whoever set it."""

    ROSTER = "its name is being decided"
    ENROLMENT = "its certificate is being made"
    JOURNAL = "the journal has to catch up"
    REPORT = "its load report is being read"
    DRAIN = "it is about to be sent to another Helen"


@implementer(IHandshakeListener, IPushProducer)
class AgentConnection(Protocol):
    """`identity` is None for a stranger; `name` is empty until the identity is known."""

    log = Logger()

    def __init__(self, house: House, encrypted: bool = True) -> None:
        self.house = house
        self.encrypted = encrypted
        self.conversation = Conversation(Role.HELEN)
        self.identity: Identity | None = None
        self.certificate: x509.Certificate | None = None
        self.name = ""
        self.address = ""
        self.equus_version = ""
        self.admitted = False
        self.closing = False
        self.holds: set[Hold] = set()
        self.pinged_at: float | None = None
        self._next_id = 0
        self._out: list[bytes] = []
        self._in_turn = False
        self._out_bytes = 0
        self._congested = False
        self._paused = False
        self._unsent = 0  # bytes written since the transport was empty; an upper bound
        self._deadline = 0.0  # steady seconds, of what `_awaiting` names
        self._awaiting = "handshake"
        self._read_at = 0.0
        self._held_since = 0.0
        self._reassured_at = 0.0
        self._part_since: float | None = None
        self._part_bytes = 0
        self._part: str | None = None

    @property
    def version(self) -> int:
        return self.conversation.version

    @property
    def held(self) -> bool:
        """Whether we are deaf to it; then its silence means nothing."""
        return bool(self.holds)

    # ---------------------------------------------------------------------------------------------- Twisted calls

    def connectionMade(self) -> None:
        now = self.house.clocks().steady
        peer = self.transport.getPeer()
        self.address = getattr(peer, "host", "unix")
        self._read_at = now
        self._deadline = now + HANDSHAKE_SECONDS
        self._tune_socket()
        self.transport.registerProducer(self, True)
        self.house.arrived(self)
        if not self.encrypted:
            self._await_hello(now)

    def handshakeCompleted(self) -> None:
        clocks = self.house.clocks()
        self._await_hello(clocks.steady)
        try:
            self.certificate = peer_certificate(self.transport)
        except ValueError as error:  # OpenSSL took it, cryptography doesn't
            self.refuse("not-enrolled", f"its certificate can't be read: {error}")
            return
        if self.certificate is not None:
            self._identify(clocks.wall)

    def dataReceived(self, data: bytes) -> None:
        if self.closing:
            return
        self._read_at = self.house.clocks().steady
        self._part_bytes += len(data)
        self.house.heard_from(self)
        self.conversation.feed(data)
        self.listen()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closing = True
        self.conversation.hang_up()
        self._out, self._out_bytes = [], 0
        self.house.lost(self)
        self.house.gone(self)

    def pauseProducing(self) -> None:
        """The transport holds more than it likes: from here on we count."""
        self._congested = True

    def resumeProducing(self) -> None:
        self._congested = False
        self._unsent = 0
        if not self.closing:
            self.house.drained(self)

    def stopProducing(self) -> None:
        self._congested = False

    # ---------------------------------------------------------------------------------------------- listening

    def listen(self) -> None:
        """Take what has been fed, at most one turn's worth; the rest is for the next turn."""
        if self.holds or self.closing:
            return
        self._in_turn = True
        try:
            self._listen()
        except RemoteProtocolError as error:
            self.refuse(error.slug, error.detail)
        except Exception:  # a fault of ours ends this connection, never the others'
            self.house.failed(self, Failure())
            self.refuse("internal", "a fault of Helen's; her log has it")
        finally:
            self._in_turn = False
            self.flush()

    def _listen(self) -> None:
        for message in self.conversation.turn():
            self._part = None
            self._heard(message)
            if self.closing or self.holds:
                return
        if self.conversation.more:
            self._pause()
            self.house.later(self)
        else:
            self._note_part()
            self._go_on_reading()

    def _heard(self, message: m.Message) -> None:
        if self.admitted:
            if type(message) is m.Ping:
                self.send(m.Pong(message.message_id))
            elif type(message) is not m.Pong:
                self.house.heard(self, message)
        elif isinstance(message, m.Hello):
            self._hello(message)
        elif isinstance(message, m.Enrol):
            self.house.enrol(self, message)

    def _hello(self, hello: m.Hello) -> None:
        """The roster decides, perhaps later; until then nothing more is heard."""
        self.equus_version = hello.equus_version
        if self.encrypted and not self._identify(self.house.clocks().wall):
            return
        if not self.encrypted and not self._take_plain_name(hello.equus_version):
            return
        self._deadline = 0.0
        self._awaiting = ""
        self.hold(Hold.ROSTER)
        self.house.hello(self, hello)

    def _identify(self, wall: float) -> bool:
        """Look the certificate up, at the handshake and again at hello: it may have been revoked between the two."""
        try:
            self.identity = self.house.identify(self.certificate, wall)
        except NotEnrolled as refused:
            self.refuse("not-enrolled", str(refused))
            return False
        self.name = self.identity.name
        return True

    def _take_plain_name(self, equus_version: str) -> bool:
        """Without TLS nobody is who they say; an agent of ours says `equus/1.0;name=web-1`."""
        name = equus_version.partition(";name=")[2] or f"plain-{self.address.replace(':', '-')}"
        try:
            self.name = checked_name(name)
        except BadRequest as error:
            self.refuse("not-enrolled", str(error))
            return False
        return True

    def hold(self, why: Hold) -> None:
        """Hear nothing more until `go_on` of the same reason."""
        if not self.holds:
            self._held_since = self._reassured_at = self.house.clocks().steady
        self.holds.add(why)
        self._pause()

    def go_on(self, why: Hold) -> None:
        """This reason holds it no longer; perhaps others do."""
        if self._let_go(why) and not self.closing:
            self.listen()

    def _let_go(self, why: Hold) -> bool:
        """Whether nothing holds it any more. The time in which we were deaf isn't the peer's: deadlines move by it."""
        if why not in self.holds:
            return False
        self.holds.remove(why)
        if self.holds:
            return False
        now = self.house.clocks().steady
        deaf = now - self._held_since
        self._read_at = now
        if self._part_since is not None:
            self._part_since += deaf
        if self._awaiting == "hello":
            self._deadline += deaf
        return True

    def _pause(self) -> None:
        self._paused = True
        self.transport.pauseProducing()

    def _go_on_reading(self) -> None:
        if self._paused and not self.holds:
            self._paused = False
            self.transport.resumeProducing()

    # ---------------------------------------------------------------------------------------------- the roster's word

    def admit(self) -> None:
        self.admitted = True
        self._let_go(Hold.ROSTER)
        self.house.later(self)

    def ping(self) -> None:
        """Ask whether somebody is there; any byte is an answer."""
        self.pinged_at = self.house.clocks().steady
        self.send(m.Ping(self.next_id()))

    def refuse(self, slug: str, why: str = "") -> None:
        """Helen's last word; the connection closes once it has left."""
        if self.closing:
            return
        self.log.info(
            "{name} at {address}: error {slug}: {why}", name=self.name or "a stranger", address=self.address,
            slug=slug, why=why,
        )  # fmt: skip
        self.house.refused(self, slug)
        self._say(self.conversation.send(m.Error(slug)))
        self._close()

    def drop(self, why: str) -> None:
        """End it at once; there is nobody to talk to."""
        if not self.closing:
            self.log.info("{name} at {address}: dropped: {why}", name=self.name, address=self.address, why=why)
        self.closing = True
        self.holds.clear()
        self.conversation.hang_up()
        self._out, self._out_bytes = [], 0
        self.transport.unregisterProducer()
        self.transport.abortConnection()

    def _close(self) -> None:
        self._in_turn = False
        self.flush()
        if self.closing:  # it was too much for the peer already
            return
        self.closing = True
        self.holds.clear()
        self._deadline = self.house.clocks().steady + CLOSE_SECONDS
        self._awaiting = "the end"
        # A registered producer would keep loseConnection waiting for it to stop.
        self.transport.unregisterProducer()
        self.transport.resumeProducing()
        self.transport.loseConnection()

    # ---------------------------------------------------------------------------------------------- speaking

    def next_id(self) -> int:
        """A message id of ours that isn't outstanding."""
        while True:
            self._next_id = self._next_id % 2147483647 + 1
            if self._next_id not in self.conversation.outstanding:
                return self._next_id

    def send(self, message: m.Message) -> None:
        """Say something, together with all else that is said in this turn."""
        if self.closing:
            return
        self._say(self.conversation.send(message))
        if not self._in_turn:
            self.house.soon(self)

    def _say(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)

    def flush(self) -> None:
        """Write what has been said since the last time, as one."""
        if not self._out or self.closing:
            return
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out, self._out_bytes = [], 0
        self._unsent += len(data)
        if self._unsent > OUTGOING_MOST and self._congested:
            self._unsent = unsent(self.transport, self._unsent - len(data)) + len(data)
            if self._unsent > OUTGOING_MOST:
                self.drop(f"it doesn't read: more than {OUTGOING_MOST} bytes wait for it")
                return
        self.transport.write(data)  # says pauseProducing at once if that is more than the kernel takes
        if not self._congested:
            self._unsent = 0

    @property
    def congested(self) -> bool:
        """Whether great answers should rather wait."""
        return self._congested or self._out_bytes >= OUTGOING_MUCH

    # ---------------------------------------------------------------------------------------------- time

    def _await_hello(self, now: float) -> None:
        self._deadline = now + HELLO_SECONDS
        self._awaiting = "hello"

    def _note_part(self) -> None:
        """Begin the deadline of a line or a blob that has come in part."""
        part = self.conversation.unfinished
        if part is None or part != self._part:
            self._part = part
            self._part_since = self._read_at
            self._part_bytes = 0

    def sweep(self, now: float, wall: float) -> None:
        """Whatever is too late is ended here."""
        if self._deadline and now >= self._deadline and (self.closing or not self.holds):
            self._too_late()
        elif self.closing:
            return
        elif self.identity is not None and self.identity.not_after <= wall:
            self.refuse("not-enrolled", "its certificate has expired while it was connected")
        elif self.holds:
            self._reassure(now)
        elif self._part is not None and self._part_since is not None and now - self._part_since >= LINE_SECONDS:
            self._judge_part(now - self._part_since)
        elif self.admitted and self.version == 2 and now - self._read_at >= QUIET_SECONDS:
            self._judge_silence(now)

    def _too_late(self) -> None:
        if self._awaiting == "hello":
            self.refuse("hello-timeout", f"no hello within {HELLO_SECONDS:g} s of the handshake")
        else:
            self.drop(f"{self._awaiting} took too long")

    def _judge_part(self, lasting: float) -> None:
        if self._part == "line":
            self.refuse("idle-timeout", f"a line that takes more than {LINE_SECONDS:g} s")
        elif lasting >= BLOB_SECONDS and self._part_bytes < lasting * BLOB_FLOOR:
            self.refuse("idle-timeout", f"a blob that takes more than {BLOB_SECONDS:g} s at {BLOB_FLOOR} B/s")

    def _reassure(self, now: float) -> None:
        """Its own pings are not read while it is held; ours tell it that there is no need to drop the link."""
        if self.admitted and self.version == 2 and now - self._reassured_at >= REASSURE_SECONDS:
            self._reassured_at = now
            self.ping()
            self.flush()

    def _judge_silence(self, now: float) -> None:
        if self.pinged_at is None or self.pinged_at < self._read_at:
            self.ping()
            self.flush()
        elif now - self.pinged_at >= DEAD_SECONDS:
            self.drop(f"silent for {now - self._read_at:.0f} s")

    def _tune_socket(self) -> None:
        """Small lines leave at once, and the kernel tells us of peers that vanished."""
        raw: Any = self.transport
        while hasattr(raw, "transport"):
            raw = raw.transport
        handle = raw.getHandle() if hasattr(raw, "getHandle") else None
        if not isinstance(handle, socket.socket) or handle.family not in (socket.AF_INET, socket.AF_INET6):
            return
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_MS)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, int(QUIET_SECONDS))
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
