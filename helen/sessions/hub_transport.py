"""Carries one agent's TLS connection on the hub: a socket, its TLS, and what the kernel has not taken yet.

It has the calls of Twisted's TLS transport that an AgentConnection makes, with the same meaning. A result costs one
`recv`, one `SSL_read`, one `SSL_write` and one `send`, and no turn of the reactor lies between them.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any, Protocol

from OpenSSL import SSL
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure

from groundwork.tls_records import PART, RecordBalance
from helen.sessions import openssl_calls as calls
from helen.sessions.openssl_calls import RECORD, SEALED
from helen.sessions.unsent_bytes import UNSENT_MUCH

APPLICATION_DATA = 23  # the type of a record that holds what a peer says; under TLS 1.3 of nearly all others as well
HEADER = 5  # bytes of a record: its type, a version, a length
HEAVY = RECORD  # bytes that came at once: a fifth of a millisecond; what an agent says beside a flood is less
RECORDS_AT_ONCE = 16  # that TLS is given at once after the handshake: each may be a change of keys, of 15 us
WRITES = 16  # records in one go, a quarter of a megabyte: the rest leaves when others have had their turn
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER for none: what is left is thrown away, and the peer hears a reset


class Place(Protocol):
    """Describes the part of the hub that a connection uses."""

    def watch(self, transport: HubTransport) -> None:
        """Wait for what the transport wants now: `is_reading`, `is_writing`."""

    def forget(self, transport: HubTransport) -> None:
        """Wait for nothing of it any more; called before its socket is closed."""

    def call_later(self, function: Any, *given: Any) -> None:
        """Call the function in the next turn of the reactor."""


class HubTransport:
    """Reads and writes one connection for its protocol, an AgentConnection.

    `has_spoken`: bytes have come; `is_trusted`: the handshake is done; `is_stranger`: nothing has come since then. Its
    first words may cost as much as a handshake. `is_heavy`: the last bytes that came were many, so that others come
    first. `served_at` is the hub's: the number of the turn that served it last. `unsent` counts the bytes that wait,
    plaintext and records. The protocol hears `connectionLost` once, in a turn of its own, whatever ends the connection.
    """

    __slots__ = (
        "__weakref__", "_balance", "_connection", "_cut_header", "_from_ssl", "_into_ssl", "_is_held_up", "_is_leaving",
        "_missing", "_place", "_plain", "_plain_size", "_producer", "_protocol", "_sealed", "_socket", "_ssl",
        "address", "descriptor", "disconnecting", "has_spoken", "host", "is_heavy", "is_open", "is_reading",
        "is_stranger", "is_trusted", "is_writing", "served_at",
    )  # fmt: skip

    log = Logger()
    is_in_turns = True  # the hub serves no more connections in a turn than there is time for

    def __init__(self, place: Place, connected: socket.socket, creator: Any, address: Any, host: Any) -> None:
        self.address, self.host = address, host
        self.descriptor = connected.fileno()
        self.is_open = self.is_heavy = self.is_stranger = True
        self.served_at = 0
        self.is_reading, self.is_writing = True, False
        self.has_spoken = self.is_trusted = self.disconnecting = False
        self._place, self._socket = place, connected
        self._connection = connection = creator.serverConnectionForTLS(self)
        connection.set_accept_state()
        self._ssl, self._into_ssl, self._from_ssl = connection._ssl, connection._into_ssl, connection._from_ssl
        self._protocol: Any = None
        self._producer: Any = None
        self._is_held_up = False  # the producer has been told to pause
        self._is_leaving = False  # TLS has ended: the socket is closed when all has left
        self._balance = RecordBalance()
        self._missing = 0  # bytes of a record that has come in part
        self._cut_header = b""  # of a record, where not even that is whole
        self._plain: deque[memoryview] = deque()
        self._plain_size = 0
        self._sealed = bytearray()  # records, or parts of one, that the kernel did not take

    def connect(self, protocol: Any) -> None:
        """Begin to serve a protocol."""
        self._protocol = protocol
        protocol.makeConnection(self)

    # ---------------------------------------------------------------------------------------------- reading

    def read(self) -> None:
        """Take what has come, and give it to the protocol; called when the socket has bytes or has ended."""
        if not self.is_reading or not self.is_open:
            if self.is_open:
                self._place.watch(self)  # it was paused since it is waited for: from now on it is not
            return
        try:
            size = self._socket.recv_into(calls.received)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size:
            self._end(ConnectionLost() if not self._is_leaving else ConnectionDone())
            return
        if self._is_leaving:
            return  # TLS has ended, and would keep what comes behind its end
        received = calls.received
        if self.is_trusted:
            self.is_heavy, self.is_stranger = size >= HEAVY, False
        is_one = (
            received[0] == APPLICATION_DATA and size == HEADER + (received[3] << 8 | received[4])
            and not self._missing and not self._cut_header
        )  # fmt: skip
        if is_one and self.is_trusted:
            self._take_one(size)
            return
        records = 1 if is_one else self._count(size)
        self._take(size, size if self.is_trusted and records <= RECORDS_AT_ONCE else PART)

    def _count(self, size: int) -> int:
        """Follow the records through a chunk, so that it is known whether it ends with the end of one.

        Returns how many there are, in whole or in part.
        """
        at, header = self._missing, self._cut_header
        records = 1 if at or header else 0
        while at < size:
            records += not header
            lacking = HEADER - len(header)
            header += calls.received[at : min(at + lacking, size)]  # what lies behind is of an older chunk
            if len(header) < HEADER:
                self._missing, self._cut_header = 0, bytes(header)
                return records
            at += lacking + (header[3] << 8 | header[4])
            header = b""
        self._missing, self._cut_header = at - size, b""
        return records

    def _take_one(self, size: int) -> None:
        """Decrypt what is known to be one whole record."""
        calls.bio_write(self._into_ssl, calls.received_at, size)
        got = calls.ssl_read(self._ssl, calls.plain_at, RECORD)
        if got > 0:
            self._protocol.recordReceived(calls.plain[:got].tobytes())
            return
        self._balance.fed(size)
        parts: list[bytes] = []
        error = self._answered(self._decrypt(parts))  # asks once more: an older error may be in the queue
        if parts:
            self._protocol.dataReceived(b"".join(parts))
        self._follow(error)

    def _take(self, size: int, most: int) -> None:
        """Give TLS what has come in parts, shake hands, decrypt; all data are one chunk for the protocol.

        In parts of `most` bytes, because TLS handles all records without data that it has before it gives anything
        back. Few records come in one part: each call of TLS lets other threads have the interpreter.
        """
        protocol, was_trusted = self._protocol, self.is_trusted
        parts: list[bytes] = []
        error = calls.WAITING[0]
        for at in range(0, size, most):
            part = min(most, size - at)
            calls.bio_write(self._into_ssl, calls.received_at + at, part)
            is_data = self.is_trusted  # the part that ends the handshake holds none, and need not
            if is_data or self._shake_hands():
                if is_data:
                    self._balance.fed(part)
                error = self._answered(self._decrypt(parts))
            if not self.is_open or self._is_leaving or error not in calls.WAITING:
                break
        if parts:
            protocol.dataReceived(b"".join(parts))
        self._follow(error)
        if not was_trusted and self._plain and self.is_open and self.is_trusted:
            self.write_on()

    def _decrypt(self, parts: list[bytes]) -> int:
        """Add all data that TLS has now; return OpenSSL's code for why there is no more."""
        calls.clear_errors()  # the end of what is there would be taken for an error that is in the queue
        heard = 0
        while (got := calls.ssl_read(self._ssl, calls.plain_at, RECORD)) > 0:
            parts.append(calls.plain[:got].tobytes())
            heard += got
        self._balance.heard(heard)
        return int(calls.ssl_get_error(self._ssl, got))

    def _answered(self, error: int) -> int:
        """Send what TLS says by itself while it waits; return the code, FAULT for a peer that makes it say much."""
        if error not in calls.WAITING:
            return error
        size = calls.bio_read(self._from_ssl, calls.sealed_at, SEALED)
        if size > 0:
            self._balance.answered(size)
            self._hand_over(size)
            if self._sealed:
                self._note_unsent()
        return calls.FAULT if self._balance.is_over else error

    def _follow(self, error: int) -> None:
        """Do what is to be done when TLS gives no more data, by OpenSSL's code."""
        if error in calls.WAITING:
            return
        calls.clear_errors()  # the queue is the thread's, and the next connection would take it for its own
        if not self.is_open or self._is_leaving:
            return
        if self._balance.is_over:
            self.abortConnection()  # an alert would wait for a peer that may not read
        elif error == calls.ENDED:
            self._say_end()
            self._leave()
        else:
            self._fail()

    def _shake_hands(self) -> bool:
        """Shake hands as far as it goes; return True once it is done and the protocol goes on."""
        self.has_spoken = True
        calls.clear_errors()  # the queue is the thread's: what another peer left there must not end this one
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            self._pass_on()
            return False
        except SSL.Error:
            self._fail()
            return False
        self.is_trusted = True
        self._pass_on()
        if self.is_open:
            self._protocol.handshakeCompleted()
        return self.is_open

    def _fail(self) -> None:
        """End after a fault of the peer's in TLS; an alert tells it which."""
        calls.clear_errors()
        self._pass_on()
        self._leave()

    # ---------------------------------------------------------------------------------------------- writing

    def write(self, data: bytes) -> None:
        """Encrypt and send; what the kernel doesn't take is kept, and the producer is paused once that is much."""
        if not self.is_open or self._is_leaving or (self.disconnecting and self._producer is None):
            return
        if len(data) <= RECORD and not self.is_writing and self.is_trusted:
            self._write_one(data)
        else:
            self._plain.append(memoryview(data))
            self._plain_size += len(data)
            if self.is_trusted and not self.is_writing:
                self._write_kept()
        if self._plain:
            self._note_unsent()

    def _write_one(self, data: bytes) -> None:
        """Send one record's worth when nothing waits: as `_write`, and for each answer to a result in fewer calls."""
        if calls.ssl_write(self._ssl, data, len(data)) <= 0:
            self._fail()
            return
        size, sent = calls.bio_read(self._from_ssl, calls.sealed_at, SEALED), 0
        if size <= 0:
            return
        if not self._sealed:
            try:
                sent = self._socket.send(calls.sealed[:size])
            except (BlockingIOError, InterruptedError):
                pass
            except OSError:
                self._end(ConnectionLost())
                return
        if sent < size:
            self._sealed += calls.sealed[sent:size]
        if size == SEALED:
            self._pass_on()
        elif self._sealed:
            self._note_unsent()

    def _write(self, data: bytes) -> bool:
        """Send one record's worth. Returns False if not all of it left."""
        if calls.ssl_write(self._ssl, data, len(data)) <= 0:
            self._fail()
            return False
        return self._pass_on()

    def _write_kept(self) -> None:
        """Send kept plaintext, some records of it at most."""
        for _ in range(WRITES):
            if not self._plain:
                break
            data = self._plain.popleft()
            if len(data) > RECORD:
                self._plain.appendleft(data[RECORD:])
                data = data[:RECORD]
            self._plain_size -= len(data)
            if not self._write(data.tobytes()):
                break

    def _hand_over(self, size: int) -> None:
        """Send so many bytes of `sealed`, or keep what the kernel does not take."""
        sent = 0 if self._sealed else self._send(calls.sealed[:size])
        if sent < size:
            self._sealed += calls.sealed[sent:size]

    def _pass_on(self) -> bool:
        """Send the records that TLS has made. Returns False if some of them, or of those before, are still here."""
        while (size := calls.bio_read(self._from_ssl, calls.sealed_at, SEALED)) > 0:
            self._hand_over(size)
            if size < SEALED:
                break
        if self._sealed:
            self._note_unsent()
            return False
        return self.is_open

    def _send(self, data: memoryview | bytearray) -> int:
        """Return how many bytes the kernel has taken; an error ends the connection."""
        if not self.is_open:
            return len(data)
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._end(ConnectionLost())
            return len(data)

    def _note_unsent(self) -> None:
        """Wait for room, except for plaintext that waits for the handshake; pause the producer if much waits."""
        if not self.is_open:
            return
        if not self.is_writing and (self._sealed or self.is_trusted):
            self.is_writing = True
            self._place.watch(self)
        if self._producer is not None and not self._is_held_up and self.unsent > UNSENT_MUCH:
            self._is_held_up = True
            self._producer.pauseProducing()

    def write_on(self) -> None:
        """Send what is kept; called when the kernel has room."""
        if self._sealed:
            del self._sealed[: self._send(self._sealed)]
        if self.is_open and not self._sealed and self.is_trusted:
            self._write_kept()
        if not self.is_open:
            return
        if self._sealed or (self._plain and self.is_trusted):
            self._note_unsent()
            return
        if self.is_writing:
            self.is_writing = False
            self._place.watch(self)
        if self._is_leaving:
            self._end(ConnectionDone())
        elif self._is_held_up and self._producer is not None:
            self._is_held_up = False
            self._producer.resumeProducing()
        elif self.disconnecting and self._producer is None:
            self._say_end()

    @property
    def unsent(self) -> int:
        """Return the bytes that wait here: what was written and is not encrypted yet, and records."""
        return self._plain_size + len(self._sealed)

    # ---------------------------------------------------------------------------------------------- the end

    def loseConnection(self) -> None:
        """Send what waits and the end of TLS, and close when the peer has answered that; Helen's deadline is short."""
        if self.disconnecting or not self.is_open:
            return
        if not self.is_trusted:
            self.abortConnection()
            return
        self.disconnecting = True
        if not self.unsent and self._producer is None:
            self._say_end()

    def abortConnection(self) -> None:
        """Close at once, and throw away what waits."""
        if self.is_open:
            self.disconnecting = True
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            except OSError:  # the peer was faster
                self.log.debug("no reset for {address}", address=self.address)
            self._end(ConnectionAborted())

    def _say_end(self) -> None:
        """Send the end of TLS; where the peer has sent its own, nothing is waited for."""
        calls.clear_errors()
        try:
            is_over = self._connection.shutdown()
        except SSL.Error:
            is_over = False
        self._pass_on()
        if is_over:
            self._leave()

    def _leave(self) -> None:
        """Close once all has left that is said already."""
        if not self.is_open:
            return
        self._is_leaving = self.disconnecting = True
        self._plain.clear()
        self._plain_size = 0
        if self._sealed:
            self._note_unsent()
        else:
            self._end(ConnectionDone())

    def _end(self, reason: Exception) -> None:
        """Close the socket, and tell the protocol in the next turn: it may be at work just now."""
        if not self.is_open:
            return
        self.is_open = self.is_reading = self.is_writing = False
        self._place.forget(self)
        self._socket.close()
        self._plain.clear()
        self._plain_size, self._sealed = 0, bytearray()
        self._producer = None
        protocol, self._protocol = self._protocol, None
        self._connection = self._ssl = self._into_ssl = self._from_ssl = None
        if protocol is not None:
            self._place.call_later(protocol.connectionLost, Failure(reason))

    # ---------------------------------------------------------------------------------------------- Twisted's calls

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Tell this push producer when much waits, and when all of it has left."""
        if not self.is_open:
            producer.stopProducing()
            return
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Tell the producer nothing more."""
        self._producer, self._is_held_up = None, False
        if self.disconnecting and not self._is_leaving and self.is_open and not self.unsent:
            self._say_end()

    def pauseProducing(self) -> None:
        """Read nothing more for now; what has come out of TLS has been given to the protocol.

        The set goes on to wait for bytes until some come: most pauses are over before, and cost no system call.
        """
        self.is_reading = False

    def resumeProducing(self) -> None:
        """Read again."""
        if not self.is_reading and self.is_open:
            self.is_reading = True
            self._place.watch(self)

    def getPeer(self) -> Any:
        """Return the peer's address, as Twisted gives it."""
        return self.address

    def getHost(self) -> Any:
        """Return our own address."""
        return self.host

    def getHandle(self) -> socket.socket:
        """Return the socket, whose options are set."""
        return self._socket

    def getPeerCertificate(self) -> Any:
        """Return the certificate that the peer has shown and proven, None for none; pyOpenSSL's kind."""
        return None if self._connection is None else self._connection.get_peer_certificate()
