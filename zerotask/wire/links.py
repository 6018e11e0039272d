"""Connects a client or a node to a broker: by a socket, or directly inside the broker's own process.

link.open(received, renewed)   received(text) for each text; renewed() on each new connection: the broker knows no name
link.send(text) -> bool        False: it cannot be sent now
link.close()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.logger import Logger

from scale0.config.keys import KeyFault
from scale0.wire.endpoints import leaves_machine
from scale0.wire.reader import CurveClient, Kind, Network, Sent, Socket, SocketError
from scale0.wire.zap import Origin

KEYS_AGAIN = 2.0  # seconds after which keys are read again while there is no connection

Received = Callable[[bytes], None]
Renewed = Callable[[], None]


class Link(Protocol):
    """Carries texts between a client or a node and a broker. `trouble` says why there is no connection, else empty."""

    @property
    def trouble(self) -> str: ...
    def open(self, received: Received, renewed: Renewed) -> None: ...
    def send(self, text: bytes) -> bool: ...
    def close(self) -> None: ...


class SocketLink:
    """Connects to a broker with a DEALER socket. A new handshake is a new connection, to which no name belongs.

    `security` may be a function that reads the keys from their files, and raises KeyFault if it can't: it is called
    again whenever there is no connection. `trouble` says why there is none, and is empty while there is one.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        endpoint: str,
        security: CurveClient | Callable[[], CurveClient | None] | None = None,
    ) -> None:
        self.trouble = f"{endpoint}: there is no connection yet"
        self._reactor, self._endpoint = reactor, endpoint
        self._read_keys = security if callable(security) else lambda: security
        self._security: CurveClient | None = None  # of the socket
        self._callbacks: tuple[Received, Renewed] = lambda text: None, lambda: None
        self._socket: Socket | None = None
        self._later: Any = None
        self._is_refused: bool  # of the socket, as it is opened

    def open(self, received: Received, renewed: Renewed) -> None:
        """Connect; ZeroMQ reconnects by itself.

        Raises SocketError if the endpoint is malformed, or leads beyond this machine without CURVE, and KeyFault if
        there are no keys.
        """
        self._callbacks = received, renewed
        self._open(self._read_keys())

    def _open(self, security: CurveClient | None) -> None:
        if security is None and leaves_machine(self._endpoint):
            raise SocketError(
                f"{self._endpoint}: beyond this machine only with CURVE; give your key pair and the broker's public key"
            )
        received, renewed = self._callbacks

        def message(frames: list[bytes], origin: Origin) -> None:
            if len(frames) == 2 and frames[0] == b"":
                received(frames[1])

        def changed(event: str, endpoint: str) -> None:
            if event == "handshake":
                self.trouble, self._is_refused = "", False
                renewed()
            elif event in ("refused", "disconnected", "retried"):
                self._lost(event == "refused")

        socket = Network.of(self._reactor).socket(Kind.DEALER, message, security=security)
        try:
            socket.watch(changed)
            socket.connect(self._endpoint)
        except BaseException:
            socket.close()
            raise
        self._socket, self._security, self._is_refused = socket, security, False

    def _lost(self, is_refused: bool) -> None:
        self._is_refused = self._is_refused or is_refused
        why = "is refused: keys do not match" if self._is_refused else "cannot be made, or was lost"
        self.trouble = f"{self._endpoint}: the connection {why}"
        self._look_again()

    def _look_again(self) -> None:
        if self._later is None:
            self._later = self._reactor.callLater(KEYS_AGAIN, self._look_at_keys)

    def _look_at_keys(self) -> None:
        """Open another socket if there is no connection and the keys have changed, or were refused.

        ZeroMQ itself does not try again after a refusal, although the broker may have been given our key since.
        """
        self._later = None
        if not self.trouble:
            return
        try:
            security = self._read_keys()
            if self._socket is None or self._is_refused or security != self._security:
                self._hang_up(0)
                self._open(security)
        except (KeyFault, SocketError) as error:
            self._hang_up(0)
            if self.trouble != str(error):
                self._log.error("{fault}", fault=str(error))
            self.trouble = str(error)
            self._look_again()

    def _hang_up(self, linger_ms: int) -> None:
        if self._socket is not None:
            self._socket.close(linger_ms)
            self._socket = None

    def send(self, text: bytes) -> bool:
        """Send a text; return False if the link is closed, or the peer reads too slowly."""
        return self._socket is not None and self._socket.send([b"", text], hold=True) is Sent.OK

    def close(self) -> None:
        """Close the socket; texts that were sent have 0.2 s to leave."""
        self._hang_up(200)
        if self._later is not None:
            self._later.cancel()
            self._later = None


class LocalLink:
    """Connects to a broker in the same process. Texts arrive in a later turn of the reactor, as over a socket."""

    def __init__(
        self, reactor: Any, forward: Callable[[LocalLink, bytes], None], is_running: Callable[[], bool] = lambda: True
    ) -> None:
        self._reactor, self._forward, self._is_running = reactor, forward, is_running
        self._received: Received | None = None

    def open(self, received: Received, renewed: Renewed) -> None:
        """Connect; there is one connection until `close`."""
        self._received = received
        self._reactor.callLater(0, renewed)

    def send(self, text: bytes) -> bool:
        """Give a text to the broker; returns True."""
        self._reactor.callLater(0, self._forward, self, text)
        return True

    @property
    def trouble(self) -> str:
        """Say that the broker does not run; empty while it does."""
        return "" if self._is_running() else "the broker in this process does not run"

    def deliver(self, text: bytes) -> bool:
        """Give a text of the broker to the receiver; return False if the link is closed."""
        if self._received is None:
            return False
        self._reactor.callLater(0, self._arrived, text)
        return True

    def _arrived(self, text: bytes) -> None:
        if self._received is not None:
            self._received(text)

    def close(self) -> None:
        self._received = None
