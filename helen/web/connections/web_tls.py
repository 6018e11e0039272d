"""Makes the TLS side of --web: a certificate of the operator's, which is read again when its files change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from groundwork.tls_records import CarefulConnection, refuse_renegotiation
from helen.files.state_dir import StateError

CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2: forward secrecy and AEAD only; those of 1.3 all have both
OPTIONS = SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE
HSTS = "max-age=31536000"  # a year, in which browsers ask this name over HTTPS alone

Files = tuple[Path, Path]  # certificate with those between it and its root, and key: PEM
Signature = tuple[tuple[int, int, int], ...]


@implementer(IOpenSSLServerConnectionCreator)
class WebTLS:
    """Holds the certificate that new connections get; live ones keep theirs."""

    log = Logger()

    def __init__(self, files: Files) -> None:
        """Read both files. Blocking. Raises StateError, a sentence, if they are no pair."""
        self._files = files
        self._seen, self._context = read(files)
        self._told = self._seen  # the state of the files whose fault the log has told already

    def serverConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Return the TLS state of one connection; Twisted calls it for each."""
        return CarefulConnection(self._context)

    async def look(self) -> None:
        """Read the files again if they have changed; a pair that can't be used is told once, and the old one stays."""
        try:
            fresh = await deferToThread(_changed, self._files, self._seen)
        except StateError as error:
            now = await deferToThread(_signature_or_none, self._files)
            if now != self._told:
                self._told = now
                self.log.error("{why}. The certificate of before stays in use", why=str(error))
            return
        if fresh is not None:
            self._seen, self._context = fresh
            self._told = self._seen
            self.log.info("--web-tls: new connections get the certificate of {path} as it is now", path=self._files[0])


class WebListener(TLSMemoryBIOFactory):
    """Puts TLS in front of a site."""

    noisy = False

    def __init__(self, creator: WebTLS, site: Any) -> None:
        super().__init__(cast(Any, creator), False, site)  # mypy does not read zope.interface

    def buildProtocol(self, addr: Any) -> Any:
        """Return None where the site does; Twisted's own would wrap it, and fail at the first byte."""
        inner = self.wrappedFactory.buildProtocol(addr)
        return None if inner is None else self.protocol(self, inner)


def read(files: Files) -> tuple[Signature, SSL.Context]:
    """Return the state of both files, and the context that they make. Blocking. Raises StateError with a sentence."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(OPTIONS)
    refuse_renegotiation(context)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_cipher_list(CIPHERS)
    try:
        seen = _signature(files)
        certificate, *between = x509.load_pem_x509_certificates(files[0].read_bytes())
        context.use_certificate(certificate)
        for each in between:
            context.add_extra_chain_cert(each)
        # mypy: of the many kinds of keys those that no certificate has are refused by check_privatekey
        context.use_privatekey(cast(Any, load_pem_private_key(files[1].read_bytes(), None)))
        context.check_privatekey()
    except OSError as error:
        raise StateError(f"--web-tls: {error.filename} can't be read: {error.strerror}") from error
    except (SSL.Error, ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: the key has a password
        said = f"--web-tls: {files[0]} and {files[1]} are no certificate and its key, as PEM, without a password"
        raise StateError(said) from error
    return seen, context


def _changed(files: Files, seen: Signature) -> tuple[Signature, SSL.Context] | None:
    return None if _signature_or_none(files) == seen else read(files)


def _signature(files: Files) -> Signature:
    found = []
    for path in files:
        with path.open("rb") as file:  # what can't be read is told as such: OpenSSL has no name for it
            file.read(1)
        stat = path.stat()
        found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _signature_or_none(files: Files) -> Signature:
    try:
        return _signature(files)
    except OSError:
        return ()
