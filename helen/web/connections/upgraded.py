"""Turns the connection of an HTTP request into a stream of bytes, after the answer `101 Switching Protocols`.

Twisted has no public call for that; what is done here to its channel is what its own websockets do. The request stays
open until its connection ends, so it is counted, limited and cut as every other answer without an end.
"""

from __future__ import annotations

from typing import Any

from equus_protocol.tunnel_streams import Pace, Tunnel
from helen.web.problems import Problem
from helen.web.request import ApiRequest

PROTOCOL = "equus-tunnel"
END_SECONDS = 10.0  # that a client has to take what is left when its tunnel has ended


def demand_upgrade(request: ApiRequest) -> None:
    """Raise Problem 426 unless the client asks for this protocol."""
    wanted = (request.getHeader(b"upgrade") or b"").decode("latin-1").lower()
    if wanted != PROTOCOL or request.clientproto != b"HTTP/1.1":
        headers = {"upgrade": PROTOCOL, "connection": "upgrade"}
        raise Problem(426, "upgrade required", f"send `Upgrade: {PROTOCOL}`: `helen tunnel` does so", headers)


class UpgradedClient:
    """Joins the client's side of a tunnel to the stream: a `Stream` of equus_protocol.tunnel_streams."""

    def __init__(self, request: ApiRequest, stream: Tunnel, reactor: Any) -> None:
        self._request, self._stream, self._reactor = request, stream, reactor
        self._channel: Any = request.channel
        self._transport: Any = self._channel.transport

    def begin(self) -> None:
        """Answer with 101, and join the client with the tunnel."""
        request, channel = self._request, self._channel
        request.setResponseCode(101)
        head = f"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {PROTOCOL}\r\n\r\n"
        self._transport.write(head.encode())
        request.registerProducer(Pace(self._stream), True)
        early, channel._dataBuffer = b"".join(channel._dataBuffer), []
        channel.dataReceived = self._stream.read
        self._stream.attach(self)
        if early:
            self._stream.read(early)

    def write(self, data: bytes) -> None:
        """Send bytes of the tunnel to the client."""
        self._transport.write(data)

    def pauseProducing(self) -> None:
        """Read nothing of the client for now."""
        self._transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Read of the client again."""
        self._transport.resumeProducing()

    def loseConnection(self) -> None:
        """Hang up once the client has what is left; one that does not take it is cut."""
        self._transport.resumeProducing()
        self._channel.loseConnection()
        cut = self._reactor.callLater(END_SECONDS, self._request.cut)
        self._request.notifyFinish().addBoth(lambda _: cut.active() and cut.cancel())
