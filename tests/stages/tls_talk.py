"""Joins two ends of TLS in memory, for the handshake and for all that follows it."""

from __future__ import annotations

from typing import Any

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, IOPump, connect
from zope.interface import implementer

from helen.keys import certificates
from helen.keys.ca_files import Material


@implementer(IHandshakeListener)
class Side(Protocol):
    """Remembers what happens to one end."""

    def connectionMade(self) -> None:
        self.received, self.shaken, self.end = b"", False, None

    def handshakeCompleted(self) -> None:
        self.shaken = True

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        self.end = reason.value


@attrs.frozen
class Talk:
    """Holds both ends of one connection."""

    server: Side
    client: Side
    pump: IOPump
    clock: Clock

    def echo(self) -> bool:
        """Say whether bytes get through both ways."""
        for side, other in ((self.client, self.server), (self.server, self.client)):
            side.transport.write(b"ping")
            self.clock.advance(0)  # small writes leave together at the end of a turn
            self.pump.flush()
            if not other.received.endswith(b"ping"):
                return False
        return True


def end(creator: Any, is_client: bool, clock: Clock) -> tuple[Side, FakeTransport, Any]:
    factory = TLSMemoryBIOFactory(creator, is_client, Factory.forProtocol(Side), clock=clock)
    protocol = factory.buildProtocol(None)
    assert protocol is not None
    return protocol.wrappedProtocol, FakeTransport(protocol, not is_client), protocol


def talk(server: Any, client: Any) -> Talk:
    """Return a connection whose handshake is done."""
    clock = Clock()
    server_side, server_transport, server_protocol = end(server, False, clock)
    client_side, client_transport, client_protocol = end(client, True, clock)
    pump = connect(server_protocol, server_transport, client_protocol, client_transport)
    pump.flush()
    return Talk(server_side, client_side, pump, clock)


def leaf(material: Material, since: float, until: float, usage: Any = ExtendedKeyUsageOID.CLIENT_AUTH) -> Any:
    """Make a certificate that Helen's CA never signs: any time, any purpose."""
    key = ec.generate_private_key(ec.SECP256R1())
    made = certificates.agent_certificate(material.ca, material.ca_key, key.public_key(), "web-1", since)
    builder = x509.CertificateBuilder(made.issuer, made.subject, key.public_key(), 77)
    builder = builder.not_valid_before(certificates.moment(since)).not_valid_after(certificates.moment(until))
    for extension in made.extensions:
        is_usage = isinstance(extension.value, x509.ExtendedKeyUsage)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]) if is_usage else extension.value, False)
    return builder.sign(material.ca_key, hashes.SHA256()), key
