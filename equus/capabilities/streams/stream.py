"""Read and write a stream socket under one time limit for all steps of a call. Parses nothing.

A peer that sends one byte a second can't keep a call alive: the limit is for the whole call, not for each read.
"""

import contextlib
import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from equus.capabilities.address import Endpoint
from equus.capabilities.calls import CallFailed
from equus.capabilities.socket_path import socket_handle

RECEIVE_BYTES = 65_536
_UNREACHABLE = (
    errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ECONNRESET, errno.EPIPE,
    errno.ECONNABORTED, errno.EHOSTDOWN,
)  # fmt: skip


@contextlib.contextmanager
def faults(what: str, seconds: float) -> Iterator[None]:
    """Raise CallFailed with a code for Lua in place of a socket's exception. `seconds` is the time limit it names."""
    try:
        yield
    except ssl.SSLCertVerificationError as fault:
        raise CallFailed("tls", f"{what}: certificate not accepted: {fault.verify_message}") from None
    except ssl.SSLError as fault:
        raise CallFailed("tls", f"{what}: {_ssl_text(fault)}") from None
    except TimeoutError:
        raise CallFailed("timeout", f"{what} did not answer within {seconds:g} s") from None
    except ConnectionRefusedError:
        raise CallFailed("refused", f"{what} refused the connection") from None
    except OSError as fault:
        code = "unreachable" if fault.errno in _UNREACHABLE else "failed"
        raise CallFailed(code, f"{what}: {fault.strerror or fault}") from None


def _ssl_text(fault: ssl.SSLError) -> str:
    return (fault.reason or str(fault)).lower().replace("_", " ")


class Stream:
    """Owns one connection. `seconds` is its whole time limit, from the connect to the last byte."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started = time.monotonic()
        self.what = "the connection"
        self._socket: socket.socket | None = None

    def __enter__(self) -> "Stream":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close without waiting for the peer."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def renew(self, seconds: float) -> None:
        """Start a new time limit of so many seconds, for a further call on a kept connection."""
        self.seconds, self.started = seconds, time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds since the stream was made, or its time limit renewed."""
        return round(time.monotonic() - self.started, 6)

    def left(self) -> float:
        """Return the seconds that remain. Raises TimeoutError if there are none."""
        left = self.started + self.seconds - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def connect(self, candidates: list[Endpoint]) -> Endpoint:
        """Connect to the first endpoint that accepts; each but the last gets an even share of the time.

        Raises CallFailed of the last one if none accepts.
        """
        for number, endpoint in enumerate(candidates):
            try:
                self._connect(endpoint, len(candidates) - number)
                return endpoint
            except CallFailed:
                if number == len(candidates) - 1:
                    raise
        raise AssertionError("endpoints() never answers an empty list")

    def _connect(self, endpoint: Endpoint, share: int) -> None:
        self.what = endpoint.text
        with faults(self.what, self.seconds):
            self._open(endpoint.family, (endpoint.address, endpoint.port), self.left() / share)

    def connect_unix(self, path: str) -> None:
        """Connect to a socket of this host."""
        self.what = path
        with faults(path, self.seconds):
            handle = socket_handle(path)
            try:
                self._open(socket.AF_UNIX, f"/proc/self/fd/{handle}", self.left())
            finally:
                os.close(handle)

    def _open(self, family: socket.AddressFamily, address: Any, seconds: float) -> None:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect(address)
        except BaseException:
            connection.close()
            raise
        self._socket = connection

    def start_tls(self, settings: ssl.SSLContext, server_name: str) -> ssl.SSLSocket:
        """Do the TLS handshake; everything after it is encrypted."""
        with faults(self.what, self.seconds):
            wrapped = settings.wrap_socket(self._ready(), server_hostname=server_name, do_handshake_on_connect=False)
            self._socket = wrapped
            # One timeout cannot cover a handshake of several flights, so it is driven step by step.
            wrapped.settimeout(0)
            while True:
                try:
                    wrapped.do_handshake()
                    return wrapped
                except ssl.SSLWantReadError:
                    self._wait(wrapped, for_reading=True)
                except ssl.SSLWantWriteError:
                    self._wait(wrapped, for_reading=False)

    def _wait(self, connection: socket.socket, for_reading: bool) -> None:
        poll = select.poll()
        poll.register(connection, select.POLLIN if for_reading else select.POLLOUT)
        if not poll.poll(self.left() * 1000):
            raise TimeoutError

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        view = memoryview(data)
        with faults(self.what, self.seconds):
            while view:
                view = view[self._ready().send(view) :]

    def receive(self, limit: int = RECEIVE_BYTES) -> bytes:
        """Receive at most `limit` bytes; b"" at the end of the connection."""
        with faults(self.what, self.seconds):
            try:
                return self._ready().recv(min(limit, RECEIVE_BYTES))
            except (
                ssl.SSLEOFError
            ):  # closed without close_notify: like an end of plain TCP, the caller knows if something is missing
                return b""

    def _ready(self) -> socket.socket:
        assert self._socket is not None, "not connected"
        self._socket.settimeout(self.left())
        return self._socket
