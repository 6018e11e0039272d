"""Tests helen.identity.tls over real TLS in memory: who gets through the handshake, and changes under
live connections.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from OpenSSL import SSL
from tls_client import ClientTLS
from tls_talk import end, leaf, talk
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.task import Clock
from zope.interface import implementer

from helen.identity.tls import ServerTLS, peer_certificate
from helen.keys import ca_files, certificates
from helen.keys.ca_files import Material

DAY = 86_400.0
# By hand: EQUUS_TLS_CONNECTIONS=1000 pytest tests/helen/identity/test_tls.py -k swap (docs/security.rst, case 28).
CONNECTIONS = int(os.environ.get("EQUUS_TLS_CONNECTIONS", "200"))


@implementer(IOpenSSLClientConnectionCreator)
@attrs.frozen
class Resuming:
    """Is a client that would go on where it was."""

    client: ClientTLS
    session: Any

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection = self.client.clientConnectionForTLS(tlsProtocol)
        connection.set_session(self.session)
        return connection


@implementer(IOpenSSLClientConnectionCreator)
@attrs.frozen
class Named:
    """Is a client that asks for a name (SNI)."""

    client: ClientTLS
    name: bytes

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        connection = self.client.clientConnectionForTLS(tlsProtocol)
        connection.set_tlsext_host_name(self.name)
        return connection


@pytest.fixture
def material(tmp_path: Path, now: float) -> Material:
    return ca_files.prepare(tmp_path / "ca", ["localhost"], now)


def agent(material: Material, now: float) -> tuple[x509.Certificate, Any]:
    key = ec.generate_private_key(ec.SECP256R1())
    return certificates.agent_certificate(material.ca, material.ca_key, key.public_key(), "web-1", now), key


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_an_agent_with_its_certificate(material: Material, now: float, version: int) -> None:
    """Helen speaks TLS 1.2 and 1.3, and sees the certificate that was shown."""
    certificate, key = agent(material, now)
    both = talk(ServerTLS(material), ClientTLS(material.bundle, certificate, key, only=version))
    assert both.echo()
    assert peer_certificate(both.server.transport) == certificate


@pytest.mark.adversary(19)
@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_an_agent_without_one(material: Material, version: int) -> None:
    """An agent without a certificate gets through, since enrolment starts so, and is nobody."""
    both = talk(ServerTLS(material), ClientTLS(material.bundle, only=version))
    assert both.echo()
    assert peer_certificate(both.server.transport) is None


@pytest.mark.adversary(22)
@pytest.mark.parametrize("version", [SSL.TLS1_VERSION, SSL.TLS1_1_VERSION])
def test_old_tls(material: Material, version: int) -> None:
    """An old version of TLS gets no handshake, even if the ciphers would allow it."""
    tls = ServerTLS(material)
    tls._context.set_cipher_list(b"ALL:@SECLEVEL=0")
    both = talk(tls, ClientTLS(material.bundle, only=version))
    assert isinstance(both.server.end, SSL.Error)
    assert not (both.server.shaken or both.client.shaken)


@pytest.mark.adversary(22)
def test_weak_ciphers(material: Material) -> None:
    """A cipher without forward secrecy or AEAD gets no handshake."""
    for cipher in (b"AES128-SHA", b"ECDHE-ECDSA-AES128-SHA", b"ECDHE-ECDSA-AES128-SHA256", b"eNULL@SECLEVEL=0"):
        client = ClientTLS(material.bundle, only=SSL.TLS1_2_VERSION)
        client._context.set_cipher_list(cipher)
        assert isinstance(talk(ServerTLS(material), client).server.end, SSL.Error), cipher


REFUSED = {
    "expired an hour ago": (-2 * DAY, -3_600.0, ExtendedKeyUsageOID.CLIENT_AUTH, "expired"),
    "valid from tomorrow": (DAY, 2 * DAY, ExtendedKeyUsageOID.CLIENT_AUTH, "not-yet-valid"),
    "a server's": (-DAY, DAY, ExtendedKeyUsageOID.SERVER_AUTH, "wrong-purpose"),
}


@pytest.mark.adversary(20)
@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
@pytest.mark.parametrize("title", REFUSED)
def test_a_certificate_of_ours_that_is_not_good(material: Material, now: float, title: str, version: int) -> None:
    """A bad certificate of our CA gets an alert, no word of the protocol, and a count of its own."""
    since, until, usage, reason = REFUSED[title]
    shown = leaf(material, now + since, now + until, usage)
    tls = ServerTLS(material)
    both = talk(tls, ClientTLS(material.bundle, *shown, only=version))
    assert isinstance(both.server.end, SSL.Error)
    assert (both.server.shaken, both.echo()) == (False, False)
    assert tls.refusals == {reason: 1}


@pytest.mark.adversary(20)
@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_a_foreign_ca(material: Material, tmp_path: Path, now: float, version: int) -> None:
    """The right name under another CA, or signed by itself, is refused with an alert."""
    other = ca_files.prepare(tmp_path / "other", ["localhost"], now)
    selfmade_key = ec.generate_private_key(ec.SECP256R1())
    selfmade = (certificates.new_ca(selfmade_key, now), selfmade_key)
    tls = ServerTLS(material)
    for shown in (agent(other, now), selfmade):
        both = talk(tls, ClientTLS(material.bundle, *shown, only=version))
        assert isinstance(both.server.end, SSL.Error)
        assert not both.echo()
    assert tls.refusals == {"foreign-ca": 2}


@pytest.mark.adversary(20)
def test_a_twin_of_the_ca(material: Material, now: float) -> None:
    """A CA that calls itself as ours does, with another key, opens nothing."""
    twin_key = ec.generate_private_key(ec.SECP256R1())
    twin = certificates.new_ca(twin_key, now)
    builder = x509.CertificateBuilder(material.ca.subject, material.ca.subject, twin_key.public_key(), 9)
    builder = builder.not_valid_before(twin.not_valid_before_utc).not_valid_after(twin.not_valid_after_utc)
    for extension in twin.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    forged = attrs.evolve(material, ca=builder.sign(twin_key, hashes.SHA256()), ca_key=twin_key)
    tls = ServerTLS(material)
    assert not talk(tls, ClientTLS(material.bundle, *agent(forged, now))).echo()
    assert tls.refusals == {"foreign-ca": 1}


def test_the_client_sees_the_ca(material: Material) -> None:
    """Helen sends its CA along: who joins by token compares its hash before it sends anything."""
    client = ClientTLS(material.bundle)
    client._context.set_verify(SSL.VERIFY_NONE)
    both = talk(ServerTLS(material), client)
    connection = both.client.transport.getHandle()
    chain = connection.get_peer_cert_chain(as_cryptography=True)
    assert chain == [material.server, material.ca]


def test_a_client_of_another_ca(material: Material, tmp_path: Path, now: float) -> None:
    """An agent that trusts another CA turns away from Helen."""
    other = ca_files.prepare(tmp_path / "other", ["localhost"], now)
    both = talk(ServerTLS(material), ClientTLS(other.bundle))
    assert isinstance(both.client.end, SSL.Error)
    assert not both.client.shaken


@pytest.mark.adversary(22)
@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_no_session_is_resumed(material: Material, now: float, version: int) -> None:
    """A second connection with the first one's session is a whole handshake: revocation can't be slept through."""
    tls, client = ServerTLS(material), ClientTLS(material.bundle, *agent(material, now), only=version)
    first = talk(tls, client)
    assert first.echo()
    second = talk(tls, Resuming(client, first.client.transport.getHandle().get_session()))
    assert second.echo()
    reused = SSL._lib.SSL_session_reused(second.client.transport.getHandle()._ssl)  # type: ignore[attr-defined]
    assert reused == 0


@pytest.mark.adversary(22)
@pytest.mark.parametrize("name", [None, "localhost", "no.such.host", "x" * 255, "127.0.0.1"])
def test_whatever_name_is_asked_for(material: Material, now: float, name: str | None) -> None:
    """SNI chooses nothing here: there is one certificate, whose name is the agent's to judge."""
    client = ClientTLS(material.bundle, *agent(material, now))
    both = talk(ServerTLS(material), client if name is None else Named(client, name.encode()))
    assert both.echo()
    assert peer_certificate(both.client.transport) == material.server


@pytest.mark.adversary(22)
def test_no_renegotiation(material: Material, now: float) -> None:
    """A peer stays who it was in the first handshake (TLS 1.2; in 1.3 there is no such thing)."""
    both = talk(ServerTLS(material), ClientTLS(material.bundle, *agent(material, now), only=SSL.TLS1_2_VERSION))
    assert both.echo()
    connection = both.client.transport.getHandle()
    connection.renegotiate()
    with contextlib.suppress(SSL.WantReadError):
        connection.do_handshake()
    both.client.transport._flushSendBIO()
    both.pump.flush()
    assert (type(both.client.end), type(both.server.end)) == (ConnectionLost, ConnectionDone)  # cut, without an alert


@pytest.mark.adversary(28)
def test_two_cas_at_once(material: Material, tmp_path: Path, now: float) -> None:
    """Agents of each get in, and Helen names both in its question."""
    other = ca_files.prepare(tmp_path / "other", ["localhost"], now)
    tls = ServerTLS(attrs.evolve(material, trusted=(other.ca,)))
    for shown in (agent(material, now), agent(other, now)):
        both = talk(tls, ClientTLS(material.bundle, *shown))
        assert both.echo()
        assert peer_certificate(both.server.transport) == shown[0]
    wanted = both.client.transport.getHandle().get_client_ca_list()
    assert [name.CN for name in wanted] == [ca.subject.rfc4514_string()[3:] for ca in (material.ca, other.ca)]


def ca_of_an_organisation(now: float) -> tuple[x509.Certificate, Material, Any]:
    """Return a root, and the subordinate CA that signs agents as a Material of its own."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = signed_ca("Root", "Root", root_key, root_key, 1, now)
    subordinate = signed_ca("Agents", "Root", key, root_key, 0, now)
    return root, Material(subordinate, key, subordinate, key), agent(Material(subordinate, key, root, key), now)


def signed_ca(name: str, issuer: str, key: Any, signer: Any, below: int, now: float) -> x509.Certificate:
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (issuer, name)]
    template = certificates.new_ca(key, now)
    builder = x509.CertificateBuilder(*names, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(template.not_valid_before_utc).not_valid_after(template.not_valid_after_utc)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=below), critical=True)
    for kind in (x509.KeyUsage, x509.SubjectKeyIdentifier):
        extension = template.extensions.get_extension_for_class(kind)
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(signer, hashes.SHA256())


def test_the_ca_that_signs_is_the_one_to_trust(material: Material, now: float) -> None:
    """A subordinate CA in the bundle is enough; its root alone would let in whatever that root ever signs."""
    root, subordinate, (certificate, key) = ca_of_an_organisation(now)
    client = ClientTLS(material.bundle, certificate, key)
    client._context.add_extra_chain_cert(subordinate.ca)
    assert talk(ServerTLS(attrs.evolve(material, trusted=(subordinate.ca,))), client).echo()
    tls = ServerTLS(attrs.evolve(material, trusted=(root,)))
    assert not talk(tls, client).echo()
    assert tls.refusals == {"chain-too-long": 1}


@pytest.mark.adversary(28)
def test_swap_under_live_connections(material: Material, tmp_path: Path, now: float) -> None:
    """All connections stay when certificate and CAs change; the next one sees the new certificate."""
    tls = ServerTLS(material)
    certificate, key = agent(material, now)
    live = [talk(tls, ClientTLS(material.bundle, certificate, key)) for _ in range(CONNECTIONS)]
    other = ca_files.prepare(tmp_path / "other", ["localhost"], now)
    tls.swap(other)
    assert all(both.echo() for both in live)
    assert {peer_certificate(both.server.transport) for both in live} == {certificate}
    assert not talk(tls, ClientTLS(other.bundle, certificate, key)).echo()
    fresh = talk(tls, ClientTLS(other.bundle, *agent(other, now)))
    assert fresh.echo()
    assert peer_certificate(fresh.client.transport) == other.server


@pytest.mark.parametrize("data", [b"hello 1 kit\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" + bytes(600)])
def test_what_is_no_tls(material: Material, data: bytes) -> None:
    """The connection ends with an alert at most; nothing is said in the clear."""
    side, transport, protocol = end(ServerTLS(material), False, Clock())
    protocol.makeConnection(transport)
    protocol.dataReceived(data)
    sent = transport.getOutBuffer() or b""
    assert isinstance(side.end, SSL.Error) or transport.disconnecting or transport.aborting
    assert len(sent) <= 7 and b"error" not in sent
