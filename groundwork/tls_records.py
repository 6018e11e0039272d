"""Bounds what a peer can have TLS do without saying anything: records that hold no data, and answers to them.

OpenSSL handles any number of changes of keys (KeyUpdate) within one `SSL_read`: 64 KiB of them took 30 ms, and each
that asks for one was answered with 27 bytes, kept without an end for a peer that does not read. So what comes is given
to TLS in parts, and a connection that is nearly all overhead ends. In TLS 1.2 one record of 16 KiB can ask for 4,096
new handshakes, and to refuse them took 38 ms: `refuse_renegotiation` has the first of them end the connection.
"""

from __future__ import annotations

from typing import Any

from OpenSSL import SSL

PART = 4_096  # bytes that TLS is given at once: at most 150 changes of keys, some 2 ms
OVERHEAD_MOST = 20_480  # bytes without data, more than a record of the greatest size before its end is here
WORTH = 32  # bytes of overhead that one byte of data pays for: a record of one byte is 30 at most
ANSWERS_MOST = 1_024  # bytes that TLS says by itself in the life of a connection: 37 changes of keys
TOO_MUCH = [("TLS", "records", "the peer sends records without data, one after the other")]


def refuse_renegotiation(context: SSL.Context) -> None:
    """Have a context's connections end with the first new handshake that a peer of TLS 1.2 asks for.

    OP_NO_RENEGOTIATION alone answers each of them with an alert, and goes on to read.
    """
    context.set_options(SSL.OP_NO_RENEGOTIATION)
    context.set_info_callback(_told)


def _told(connection: SSL.Connection, where: int, _: int) -> None:
    """End what is read, as the peer's own end would, when hands are shaken again; TLS 1.3 knows no such thing."""
    if where & SSL.SSL_CB_HANDSHAKE_START and connection.get_finished() is not None:
        connection.set_shutdown(connection.get_shutdown() | SSL.RECEIVED_SHUTDOWN)


class RecordBalance:
    """Counts for one connection; `is_over` once it should end. OpenSSL's own limits are of a row without data alone."""

    __slots__ = ("_answers", "_overhead")

    def __init__(self) -> None:
        self._answers = self._overhead = 0

    @property
    def is_over(self) -> bool:
        """Return True if the peer has sent, or asked for, more than any honest one does."""
        return self._overhead > OVERHEAD_MOST or self._answers > ANSWERS_MOST

    def fed(self, size: int) -> None:
        """Count bytes that TLS was given after the handshake."""
        self._overhead += size

    def heard(self, size: int) -> None:
        """Count bytes of data that came out of them."""
        self._overhead = max(0, self._overhead - WORTH * size)

    def answered(self, size: int) -> None:
        """Count bytes that TLS has to send though nothing was written."""
        self._answers += size


class CarefulConnection(SSL.Connection):
    """Holds the TLS of one connection for Twisted's transport, in memory; `recv` raises SSL.Error once it is over."""

    def __init__(self, context: SSL.Context) -> None:
        super().__init__(context, None)
        self._balance = RecordBalance()
        self._waiting = bytearray()
        self._is_shaken = False
        self._has_said = True  # what TLS has to send comes from a call of ours

    def bio_write(self, buf: Any) -> int:
        """Keep bytes of the peer's, which TLS is given in parts."""
        self._waiting += buf
        return len(buf)

    def bio_shutdown(self) -> None:
        """Give TLS the rest, if there is any: nothing more will come."""
        if self._waiting:
            super().bio_write(bytes(self._waiting))
            self._waiting.clear()
        super().bio_shutdown()

    def bio_read(self, bufsiz: int) -> bytes:
        """Return what TLS has to send. Raises SSL.WantReadError for nothing."""
        try:
            data = super().bio_read(bufsiz)
        except SSL.WantReadError:
            self._has_said = False
            raise
        if not self._has_said:
            self._balance.answered(len(data))
        self._has_said = self._has_said and len(data) == bufsiz
        return data

    def do_handshake(self) -> None:
        """Shake hands, as far as the bytes go that are here."""
        self._has_said = True
        while True:
            try:
                super().do_handshake()
            except SSL.WantReadError:
                if not self._feed():
                    raise
            else:
                self._is_shaken = True
                return

    def send(self, buf: Any, flags: int = 0) -> int:
        """Encrypt bytes; `bio_read` has the records."""
        self._has_said = True
        return super().send(buf, flags)

    def shutdown(self) -> bool:
        """Say the end of TLS."""
        self._has_said = True
        return super().shutdown()

    def recv(self, bufsiz: int, flags: int | None = None) -> bytes:
        """Return data. Raises SSL.WantReadError if there is none, SSL.Error for a peer that sends too little of it."""
        while not self._balance.is_over:
            try:
                data = super().recv(bufsiz, flags)
            except SSL.WantReadError:
                if self._balance.is_over or not self._feed():
                    break
            else:
                self._balance.heard(len(data))
                return data
        if self._balance.is_over:
            raise SSL.Error(TOO_MUCH)
        raise SSL.WantReadError

    def _feed(self) -> bool:
        """Give TLS the next part of what is here; False if there is nothing."""
        part = bytes(self._waiting[:PART])
        del self._waiting[:PART]
        if part:
            super().bio_write(part)
            if self._is_shaken:
                self._balance.fed(len(part))
        return bool(part)
