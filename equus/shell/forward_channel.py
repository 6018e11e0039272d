"""Carry one forwarded connection (`ssh -L`, `-W`) from this host to where the client says, if the policy forwards.

Neither side is read while the other takes nothing, so a slow one costs this process two windows at most. The bytes
count against the idle time, and the log has each destination.
"""

from __future__ import annotations

import struct
from typing import Any

from twisted.conch.ssh.forwarding import unpackOpen_direct_tcpip
from twisted.internet import reactor
from twisted.internet.endpoints import HostnameEndpoint, connectProtocol
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from equus.shell.paced_channel import PacedChannel

MOST_NOTE = 300  # characters


class ForwardChannel(PacedChannel):
    """Serves the client's side of a connection. `avatar` is server.User."""

    name = b"direct-tcpip"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._early: list[bytes] | None = []  # what came before the connection, one window at most; None after it
        self._target: Target | None = None
        self._has_ended = False  # the client will send no more

    def channelOpen(self, specificData: bytes) -> None:
        """Connect, or close the channel at once if its destination can't be read."""
        try:
            (host, port), _ = unpackOpen_direct_tcpip(specificData)
            there = HostnameEndpoint(reactor, host, port)
        except (ValueError, struct.error) as error:
            self.avatar.note(f"asks for a destination that can't be read: {error}"[:MOST_NOTE])
            self.loseConnection()
            return
        self.avatar.note(f"connects to {host[:255]!r} port {port}")
        self.choke()
        self.avatar.connecting += 1
        connectProtocol(there, Target(self)).addBoth(self._tried)

    def _tried(self, found: Any) -> None:
        self.avatar.connecting -= 1
        if isinstance(found, Failure):
            self.loseConnection()

    def connected(self, target: Target) -> None:
        """Join both sides; an end that came meanwhile ends the connection too."""
        self._target, early, self._early = target, self._early or [], None
        if self.localClosed or self.remoteClosed:
            target.transport.loseConnection()
            return
        target.transport.registerProducer(target, True)
        for data in early:
            target.transport.write(data)
        self.unchoke()
        if self._has_ended:
            target.end_input()

    def dataReceived(self, data: bytes) -> None:
        """Give the destination bytes of the client."""
        self.avatar.touched()
        if self._target is not None:
            self._target.transport.write(data)
        elif self._early is not None:
            self._early.append(data)

    def eofReceived(self) -> None:
        """End the direction to the destination, now or once it is there; the other one goes on."""
        self._has_ended = True
        if self._target is not None:
            self._target.end_input()

    def output(self, data: bytes) -> None:
        """Send the client bytes of the destination."""
        self.avatar.touched()
        if not self.localClosed:
            self.write(data)

    def stopWriting(self) -> None:
        """Read nothing of the destination: the client does not read."""
        if self._target is not None:
            self._target.transport.pauseProducing()

    def startWriting(self) -> None:
        """Read of the destination again."""
        if self._target is not None:
            self._target.transport.resumeProducing()

    def closed(self) -> None:
        """End the connection: the channel has gone."""
        if self._target is not None:
            self._target.let_go()


@implementer(IPushProducer)
class Target(Protocol):
    """Holds the connection to the destination.

    As a producer it is the client's bytes, which wait while it takes none.
    """

    transport: Any

    def __init__(self, channel: ForwardChannel) -> None:
        self._channel = channel
        self._is_over = False

    def connectionMade(self) -> None:
        """Tell the channel."""
        self._channel.connected(self)

    def dataReceived(self, data: bytes) -> None:
        """Pass bytes on."""
        self._channel.output(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Close the channel once the client has what is left."""
        self._is_over = True
        self._channel.unchoke()
        self._channel.loseConnection()

    def end_input(self) -> None:
        """Send no more, once all has left."""
        if not self._is_over:
            self.transport.unregisterProducer()
            self.transport.loseWriteConnection()

    def let_go(self) -> None:
        """Hang up; a producer that is paused would keep the connection open."""
        if not self._is_over:
            self.transport.unregisterProducer()
            self.transport.resumeProducing()
            self.transport.loseConnection()

    def pauseProducing(self) -> None:
        """Take no more bytes of the client."""
        self._channel.choke()

    def resumeProducing(self) -> None:
        """Take bytes again."""
        self._channel.unchoke()

    def stopProducing(self) -> None:
        """Do nothing: the end of the connection is told in another way."""
