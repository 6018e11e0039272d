"""Speak the lowest part of SSH with one client: its methods, its packets, and how it is held back and told the end."""

from __future__ import annotations

import struct

from twisted.conch.ssh import common, transport
from twisted.internet.interfaces import IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from equus.shell.paced_channel import PacedConnection

HANG_UP_SECONDS = 5.0  # that a client has to take what is left
MOST_BLOCKED = 4 * 1_048_576  # bytes that wait for the end of a change of keys
PACKET = 128  # bytes that a packet takes here beside its own


def _those(names: list[bytes], *parts: bytes) -> list[bytes]:
    return [name for name in names if any(part in name for part in parts)]


class Transport(transport.SSHServerTransport):
    """Serves one connection; its end is the end of the process.

    Only methods that are good today are offered, and no compression: a packet that is made larger by it has no bound.
    """

    ourVersionString = b"SSH-2.0-Equus"
    has_ended = False
    is_stuck = False  # the client does not read
    _blocked = 0  # bytes that wait for the end of a change of keys
    supportedCompressions = [b"none"]
    supportedCiphers = _those(transport.SSHServerTransport.supportedCiphers, b"-ctr")
    supportedMACs = _those(transport.SSHServerTransport.supportedMACs, b"hmac-sha2-")
    supportedKeyExchanges = _those(
        transport.SSHServerTransport.supportedKeyExchanges, b"mlkem768x25519-", b"curve25519-", b"ecdh-sha2-"
    )

    def connectionMade(self) -> None:
        """Begin, and read nothing of a client that does not read: its answers would wait here without a bound."""
        super().connectionMade()
        self.transport.registerProducer(ClientPace(self), True)

    def ssh_KEXINIT(self, packet: bytes) -> object:
        """Agree on methods; before a login once, since each change of keys takes the time of a processor."""
        if self.sessionID is not None and not hasattr(self, "avatar"):
            self.sendDisconnect(transport.DISCONNECT_PROTOCOL_ERROR, b"keys are changed after a login, not before it")
            return None
        agreed = super().ssh_KEXINIT(packet)
        self.pace()
        return agreed

    def ssh_NEWKEYS(self, packet: bytes) -> None:
        """End a change of keys, and send what has waited for it."""
        super().ssh_NEWKEYS(packet)
        self.pace()

    def pace(self) -> None:
        """Read of the programs, or nothing while the client does not read or changes keys: all would wait here."""
        if isinstance(self.service, PacedConnection):
            if self.is_stuck or self._keyExchangeState != self._KEY_EXCHANGE_NONE:
                self.service.hold()
            else:
                self.service.go_on()

    def ssh_SERVICE_REQUEST(self, packet: bytes) -> None:
        """Begin the login, once: another one would count its tries anew, or take the place of the user who is in."""
        if self.service is not None or not self.isEncrypted("in"):
            self.sendDisconnect(transport.DISCONNECT_PROTOCOL_ERROR, b"one login for each connection, and it is sealed")
        else:
            super().ssh_SERVICE_REQUEST(packet)

    def sendPacket(self, messageType: int, payload: bytes) -> None:
        """Send a packet. A client is cut if its change of keys does not end and too many bytes wait for that."""
        before = len(self._blockedByKeyExchange or ())
        super().sendPacket(messageType, payload)
        waiting = len(self._blockedByKeyExchange or ())
        if waiting > before:
            self._blocked += len(payload) + PACKET
        elif waiting == 0:
            self._blocked = 0
        if self._blocked > MOST_BLOCKED:
            self.transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        """Take bytes; throw them away once this side has ended."""
        if not self.has_ended:
            super().dataReceived(data)

    def dispatchMessage(self, messageNum: int, payload: bytes) -> None:
        """Handle a packet; throw it away if it came in one read with the one that has ended this side."""
        if not self.has_ended:
            super().dispatchMessage(messageNum, payload)

    def sendDisconnect(self, reason: int, desc: bytes) -> None:
        """Tell the client why, and end this side; one that does not read is cut.

        The other side is read to its end: a socket that is closed with unread bytes resets the connection, and the
        client would lose the reason.
        """
        if not self.has_ended:
            self._let_go()
            words = struct.pack(">L", reason) + common.NS(desc) + common.NS(b"")
            self.sendPacket(transport.MSG_DISCONNECT, words)
            self.has_ended = True
            service, self.service = self.service, None
            if service is not None:
                service.serviceStopped()  # all programs hear of it now: the client may take its time
            self.transport.loseWriteConnection()

    def ssh_DISCONNECT(self, packet: bytes) -> None:
        """Hang up: the client does."""
        self._let_go()
        self.has_ended = True
        super().ssh_DISCONNECT(packet)

    def _let_go(self) -> None:
        self.transport.unregisterProducer()  # one that waits would keep the connection open
        self.factory.clock.callLater(HANG_UP_SECONDS, self.transport.abortConnection)

    def connectionLost(self, reason: Failure) -> None:
        """End the process, once all programs have heard of it."""
        super().connectionLost(reason)
        self.factory.over()


@implementer(IPushProducer)
class ClientPace:
    """Reads nothing of a client while what is to be sent to it waits, nor of the programs that would add to it."""

    def __init__(self, server: Transport) -> None:
        self._server = server

    def pauseProducing(self) -> None:
        """Read nothing for now."""
        self._server.transport.pauseProducing()
        self._server.is_stuck = True
        self._server.pace()

    def resumeProducing(self) -> None:
        """Read again."""
        self._server.transport.resumeProducing()
        self._server.is_stuck = False
        self._server.pace()

    def stopProducing(self) -> None:
        """Do nothing: the end of the connection is told in another way."""
