"""Is the client's side of TLS, for tests of Helen's: no host names are compared; Equus has its own
client, which does.
"""

from __future__ import annotations

from typing import Any

from cryptography import x509
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from zope.interface import implementer

from helen.keys.certificates import PrivateKey


@implementer(IOpenSSLClientConnectionCreator)
class ClientTLS:
    """Trusts `bundle`, and shows a certificate or none; `only` is the one version that it speaks."""

    def __init__(
        self,
        bundle: tuple[x509.Certificate, ...],
        certificate: x509.Certificate | None = None,
        key: PrivateKey | None = None,
        only: int | None = None,
    ) -> None:
        self._context = context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_verify_depth(0)  # the CA that signs Helen's certificate is itself in the bundle
        store = context.get_cert_store()
        assert store is not None
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
        for ca in bundle:
            store.add_cert(crypto.X509.from_cryptography(ca))
        if only is not None:
            context.set_cipher_list(b"DEFAULT@SECLEVEL=0")  # else the library hides versions below 1.2
            context.set_min_proto_version(only)
            context.set_max_proto_version(only)
        if certificate is not None and key is not None:
            context.use_certificate(certificate)
            context.use_privatekey(key)
            context.check_privatekey()
        context.set_verify(SSL.VERIFY_PEER)

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Return the TLS state of one connection; Twisted calls it for each."""
        return SSL.Connection(self._context, None)
