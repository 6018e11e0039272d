"""Helen's side of TLS: what she shows, whom she believes, and how both change under live connections.

TLS 1.2 and newer. A client certificate is asked for and not demanded, since enrolment comes without one; one that is
shown must be of the bundle and in its time, or the handshake ends in an alert. Who its holder is, and whether it was
revoked, is helen.authority's: this knows chains, not names.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from cryptography import x509
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator
from zope.interface import implementer

from helen.ca_folder import Material
from helen.certificates import PrivateKey

HANDSHAKE_SECONDS = 10.0  # Twisted has no deadline of its own; Icinga's figure since 2.8.2. The connection keeps it
CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: forward secrecy and AEAD only; those of 1.3 all have both
CHAIN_DEPTH = 0  # the CA that signs agents is itself in the bundle: nothing stands between, as in KnownKeys.identify
OPTIONS = (
    SSL.OP_NO_TICKET  # a ticket would carry an identity past its revocation
    | SSL.OP_NO_RENEGOTIATION  # a peer may not change who it is
    | SSL.OP_NO_COMPRESSION
    | SSL.OP_CIPHER_SERVER_PREFERENCE
)
WHY_REFUSED = {
    9: "not-yet-valid",  # X509_V_ERR_CERT_NOT_YET_VALID, and so on: x509_vfy.h
    10: "expired",
    18: "foreign-ca",  # signed by itself
    19: "foreign-ca",  # by a root that isn't ours
    20: "foreign-ca",  # by nobody we know
    21: "foreign-ca",
    7: "foreign-ca",  # by a key other than that of the CA whose name it gives
    26: "wrong-purpose",  # a server's
    22: "chain-too-long",
}


@implementer(IOpenSSLServerConnectionCreator)
class ServerTLS:
    """Give it to `TLSMemoryBIOFactory(server_tls, False, factory)` or `reactor.listenSSL`."""

    def __init__(self, material: Material) -> None:
        self.refusals: Counter[str] = Counter()  # handshakes that a client certificate ended, by WHY_REFUSED
        self.swap(material)

    def swap(self, material: Material) -> None:
        """From the next connection on. Those that live keep what they were made with, and stay."""
        context = _context(SSL.TLS_SERVER_METHOD, material.bundle)
        context.set_options(OPTIONS)
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # an idle agent holds 17 KiB less; most of them idle
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_cipher_list(CIPHERS)
        _show(context, material.server, material.server_key)
        # An agent that joins knows the CA's hash, and has nothing else of it. Left to itself the library would find the
        # CA among those it trusts, by verifying our own certificate at every handshake.
        context.add_extra_chain_cert(material.ca)
        for ca in material.bundle:
            context.add_client_ca(ca)
        context.set_verify(SSL.VERIFY_PEER, self._judge)
        self._context = context

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """What Twisted asks for, once for each connection."""
        return SSL.Connection(self._context, None)

    def _judge(self, connection: SSL.Connection, shown: crypto.X509, error: int, depth: int, good: int) -> bool:
        """Counts; the verdict is the library's."""
        if not good:
            self.refusals[WHY_REFUSED.get(error, "other")] += 1
        return bool(good)


@implementer(IOpenSSLClientConnectionCreator)
class ClientTLS:
    """The other side, for tests and probes: it trusts `bundle` and shows a certificate or none.

    It does not compare host names; Equus has its own side, which does.
    """

    def __init__(
        self,
        bundle: tuple[x509.Certificate, ...],
        certificate: x509.Certificate | None = None,
        key: PrivateKey | None = None,
        only: int | None = None,
    ) -> None:
        self._context = _context(SSL.TLS_CLIENT_METHOD, bundle)
        if only is not None:
            self._context.set_cipher_list(b"DEFAULT@SECLEVEL=0")  # else the library hides versions below 1.2
            self._context.set_min_proto_version(only)
            self._context.set_max_proto_version(only)
        if certificate is not None and key is not None:
            _show(self._context, certificate, key)
        self._context.set_verify(SSL.VERIFY_PEER)

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """What Twisted asks for, once for each connection."""
        return SSL.Connection(self._context, None)


def peer_certificate(transport: Any) -> x509.Certificate | None:
    """What the client has shown and proven, None for nothing; right from `handshakeCompleted` on, not before."""
    shown = transport.getPeerCertificate()
    return None if shown is None else shown.to_cryptography()


def _context(method: int, bundle: tuple[x509.Certificate, ...]) -> SSL.Context:
    context = SSL.Context(method)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_verify_depth(CHAIN_DEPTH)
    store = context.get_cert_store()
    assert store is not None
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # a CA that we were told to trust need not be a root
    for ca in bundle:
        store.add_cert(crypto.X509.from_cryptography(ca))
    return context


def _show(context: SSL.Context, certificate: x509.Certificate, key: PrivateKey) -> None:
    context.use_certificate(certificate)
    context.use_privatekey(key)
    context.check_privatekey()
