"""Makes Helen's side of TLS: its certificate, the CAs that it trusts, and how both change under live connections.

TLS 1.2 and newer. A client certificate is asked for and not demanded, since enrolment comes without one; one that is
shown must be of the bundle and in its time, or the handshake ends in an alert. One that is out of its time passes if
`is_excused` says so; its holder has to prove the key, and its CA has to be in its time, all the same. This checks
chains; the agent's name, and whether it was revoked, are checked by helen/identity/authority.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from cryptography import x509
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.logger import Logger
from zope.interface import implementer

from groundwork.tls_records import CarefulConnection, refuse_renegotiation
from helen.keys.ca_files import Material

HANDSHAKE_SECONDS = 10.0  # Twisted has no deadline of its own; Icinga's figure since 2.8.2. The connection keeps it
OUT_OF_TIME = (9, 10)  # errors of WHY_REFUSED that the grace may excuse
CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: forward secrecy and AEAD only; those of 1.3 all have both
CHAIN_DEPTH = 0  # the CA that signs agents is itself in the bundle: nothing stands between, as in EnrolledKeys.identify
OPTIONS = (
    SSL.OP_NO_TICKET  # a ticket would carry an identity past its revocation
    | SSL.OP_NO_COMPRESSION
    | SSL.OP_CIPHER_SERVER_PREFERENCE
)
WHY_REFUSED = {
    9: "not-yet-valid",  # X509_V_ERR_CERT_NOT_YET_VALID, and so on: x509_vfy.h
    10: "expired",
    18: "foreign-ca",  # signed by itself
    19: "foreign-ca",  # by a root that isn't ours
    20: "foreign-ca",  # by an unknown issuer
    21: "foreign-ca",
    7: "foreign-ca",  # by a key other than that of the CA that it names
    26: "wrong-purpose",  # a server's
    22: "chain-too-long",
}


@implementer(IOpenSSLServerConnectionCreator)
class ServerTLS:
    """Makes the TLS connections of a listener: for `TLSMemoryBIOFactory(server_tls, False, factory)`.

    `is_excused` gets a client certificate that is out of its time, and returns True if it is admitted all the same.
    """

    log = Logger()

    def __init__(
        self, material: Material, is_excused: Callable[[x509.Certificate], bool] = lambda certificate: False
    ) -> None:
        self.refusals: Counter[str] = Counter()  # handshakes that a client certificate ended, by WHY_REFUSED
        self._is_excused = is_excused
        self.swap(material)

    def swap(self, material: Material) -> None:
        """Use another certificate and bundle from the next connection on; live connections keep theirs."""
        context = _context(material.bundle)
        context.set_options(OPTIONS)
        refuse_renegotiation(context)  # a peer may not change its identity
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # an idle agent holds 17 KiB less; most of them idle
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_cipher_list(CIPHERS)
        context.use_certificate(material.server)
        context.use_privatekey(material.server_key)
        context.check_privatekey()
        # An agent that joins knows the CA's hash, and has nothing else of it. Without this the library would find the
        # CA among those it trusts, by verifying Helen's own certificate at every handshake.
        context.add_extra_chain_cert(material.ca)
        for ca in material.bundle:
            context.add_client_ca(ca)
        context.set_verify(SSL.VERIFY_PEER, self._verified)
        self._context = context

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Return the TLS state of one connection; Twisted calls it for each."""
        return CarefulConnection(self._context)

    def _verified(self, connection: SSL.Connection, shown: crypto.X509, error: int, depth: int, good: int) -> bool:
        """Return the library's own verdict, unless the grace excuses the certificate; count a refusal."""
        if good or (error in OUT_OF_TIME and depth == 0 and self._excuses(shown)):
            return True
        self.refusals[WHY_REFUSED.get(error, "other")] += 1
        return False

    def _excuses(self, shown: crypto.X509) -> bool:
        """Ask about one certificate. An exception would be lost in the library, so none is raised."""
        try:
            return self._is_excused(shown.to_cryptography())
        except Exception:  # a certificate that can't be judged is not excused
            self.log.failure("a certificate that is out of its time")
            return False


def peer_certificate(transport: Any) -> x509.Certificate | None:
    """Return the certificate that the client has shown and proven, None for none; from `handshakeCompleted` on."""
    shown = transport.getPeerCertificate()
    return None if shown is None else shown.to_cryptography()


def _context(bundle: tuple[x509.Certificate, ...]) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_verify_depth(CHAIN_DEPTH)
    store = context.get_cert_store()
    assert store is not None
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)  # a CA that is trusted by setting need not be a root
    for ca in bundle:
        store.add_cert(crypto.X509.from_cryptography(ca))
    return context
