"""Ways from a client or a node to a broker: a socket, or none at all inside the broker's own process.

link.open(received, renewed)   received(text) for each text; renewed() when the far side may have forgotten us
link.send(text) -> bool        False: not now
link.close()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from scale0.reader import CurveClient, Kind, Network, Sent, Socket, SocketError
from scale0.zap import Origin, is_local

Received = Callable[[bytes], None]
Renewed = Callable[[], None]


class Link(Protocol):
    def open(self, received: Received, renewed: Renewed) -> None: ...
    def send(self, text: bytes) -> bool: ...
    def close(self) -> None: ...


def leaves_machine(endpoint: str) -> bool:
    """Whether what is sent there can be read on its way: such an endpoint takes CURVE, without exception."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    return endpoint.startswith("tcp://") and not is_local(host)


class SocketLink:
    """A DEALER to one broker. A new handshake is a new connection, on which the broker knows nobody."""

    def __init__(self, reactor: Any, endpoint: str, security: CurveClient | None = None) -> None:
        self._reactor, self._endpoint, self._security = reactor, endpoint, security
        self._socket: Socket | None = None

    def open(self, received: Received, renewed: Renewed) -> None:
        """SocketError if the endpoint is none, or leads beyond this machine without CURVE."""
        if self._security is None and leaves_machine(self._endpoint):
            raise SocketError(f"{self._endpoint}: beyond this machine only with CURVE; give keys")

        def message(frames: list[bytes], origin: Origin) -> None:
            if len(frames) == 2 and frames[0] == b"":
                received(frames[1])

        def changed(event: str, endpoint: str) -> None:
            if event == "handshake":
                renewed()

        socket = Network.of(self._reactor).socket(Kind.DEALER, message, security=self._security)
        try:
            socket.watch(changed)
            socket.connect(self._endpoint)
        except BaseException:
            socket.close()
            raise
        self._socket = socket

    def send(self, text: bytes) -> bool:
        return self._socket is not None and self._socket.send([b"", text], hold=True) is Sent.OK

    def close(self) -> None:
        """What was sent has a moment to get out."""
        if self._socket is not None:
            self._socket.close(linger_ms=200)
            self._socket = None


class LocalLink:
    """The same inside the broker's process. Texts change hands in a later turn of the reactor, as over a socket."""

    def __init__(self, reactor: Any, forward: Callable[[LocalLink, bytes], None]) -> None:
        self._reactor, self._forward = reactor, forward
        self._received: Received | None = None

    def open(self, received: Received, renewed: Renewed) -> None:
        self._received = received
        self._reactor.callLater(0, renewed)

    def send(self, text: bytes) -> bool:
        self._reactor.callLater(0, self._forward, self, text)
        return True

    def deliver(self, text: bytes) -> bool:
        """From the broker."""
        if self._received is None:
            return False
        self._reactor.callLater(0, self._arrived, text)
        return True

    def _arrived(self, text: bytes) -> None:
        if self._received is not None:
            self._received(text)

    def close(self) -> None:
        self._received = None
