"""Writes bytes to a connection and learns whether the peer has read them all, though its protocol has no answers.

The writing side is closed when all is written. A peer that read to the end then closes its own side; one that died or
closed before that leaves bytes unread, for which the kernel resets the connection.
"""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

PORT = 2003  # Graphite's
_ADDRESS = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,255})(?::([0-9]{1,5}))?")


def address_of(text: str) -> tuple[str, int] | None:
    """Return host and port of `tcp://HOST[:PORT]`; None if it is no such text."""
    found = _ADDRESS.fullmatch(text)
    port = 0 if found is None else int(found[2] or PORT)
    return (found[1].strip("[]"), port) if found is not None and 0 < port < 65_536 else None


@implementer(IHalfCloseableProtocol)
class StreamSender(Protocol):
    """Writes its bytes. `ended` fires when the peer has read them, and fails if it has not."""

    def __init__(self, content: bytes) -> None:
        self.ended: Deferred[None] = Deferred()
        self._content = content
        self._is_written = False

    def connectionMade(self) -> None:
        """Write all of it, and close the writing side behind it."""
        transport: Any = self.transport
        transport.write(self._content)
        transport.loseWriteConnection()

    def dataReceived(self, data: bytes) -> None:
        """Pass over what a receiver says: it has nothing to say."""

    def writeConnectionLost(self) -> None:
        """Take note that all is written."""
        self._is_written = True

    def readConnectionLost(self) -> None:
        """Tell whether the peer closed behind all that was written."""
        if self._is_written:
            self._end(None)
        else:
            self._end(ConnectionLost("the receiver closed before all was written"))
        self.abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fail, unless the end was seen before."""
        self._end(reason.value)

    def abort(self) -> None:
        """Close at once."""
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def _end(self, error: BaseException | None) -> None:
        if not self.ended.called:
            self.ended.callback(None) if error is None else self.ended.errback(error)


async def converse(endpoint: Any, sender: StreamSender) -> None:
    """Connect and write. Raises the error of a connection that did not end well."""
    await endpoint.connect(Factory.forProtocol(lambda: sender))
    await sender.ended
