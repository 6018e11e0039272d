"""Answer `check_nrpe`: one question and one answer on each connection, with TLS and a certificate of the client.

A client has LIFE seconds for all of it. When MOST connections are open, the oldest one gives way: silent clients keep
nobody out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field
from cryptography import x509
from OpenSSL import SSL, crypto
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.ssl import Certificate, CertificateOptions, TLSVersion, trustRootFromCertificates
from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.nrpe.packets import BadPacket, Question, QuestionReader, answer
from equus.nrpe_settings import NrpeSettings
from groundwork.tls_records import refuse_renegotiation

MOST = 64  # connections at once
LIFE = 15.0  # seconds of one connection, its handshake included

Answerer = Callable[[Question], tuple[int, str]]


class NrpeError(Exception):
    """Says that the server can't start; the text is a sentence for the operator."""


class NrpeConnection(Protocol):
    """Serves one client. It is dropped without an answer for anything that is no question of NRPE."""

    factory: NrpeFactory
    transport: Any

    def __init__(self) -> None:
        self._reader = QuestionReader()
        self._timer: Any = None
        self._is_over = False

    def connectionMade(self) -> None:
        """Start the time that the client has."""
        self._timer = self.factory.reactor.callLater(LIFE, self.abort)
        self.factory.opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Read the question, answer it and close."""
        if self._is_over:
            return
        try:
            question = self._reader.feed(data)
        except BadPacket as fault:
            self.factory.refused(str(fault))
            self.abort()
            return
        if question is not None:
            self._is_over = True
            self.transport.write(answer(question.version, *self.factory.answerer(question)))
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the client."""
        if self._timer.active():
            self._timer.cancel()
        self.factory.closed(self)

    def abort(self) -> None:
        """Close at once, whatever is in buffers."""
        self._is_over = True
        self.transport.abortConnection()


@define(eq=False)
class NrpeFactory(Factory):
    """Makes connections, and keeps their number. `answerer` returns status and text for a question."""

    reactor: Any
    answerer: Answerer
    _open: dict[NrpeConnection, None] = field(factory=dict)  # the oldest first
    _has_told: bool = False
    log = Logger()

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return the protocol of a new client."""
        protocol = NrpeConnection()
        protocol.factory = self
        return protocol

    def opened(self, connection: NrpeConnection) -> None:
        """Count a client; the oldest one gives way if there are too many."""
        self._open[connection] = None
        if len(self._open) > MOST:
            next(iter(self._open)).abort()

    def closed(self, connection: NrpeConnection) -> None:
        """Forget a client."""
        self._open.pop(connection, None)

    def refused(self, why: str) -> None:
        """Log the first client that sends something else; more lines would be an attack on the log."""
        if not self._has_told:
            self._has_told = True
            self.log.warn("a client of --nrpe is dropped: {why}. Later ones are dropped without a line here.", why=why)


def listen(reactor: Any, settings: NrpeSettings, answerer: Answerer) -> Any:
    """Listen, and return the port, which `stopListening` closes. Blocks for the files. Raises NrpeError."""
    factory = NrpeFactory(reactor, answerer)
    where = f"--nrpe {settings.address}:{settings.port}"
    try:
        if settings.certificate is None:
            port = reactor.listenTCP(settings.port, factory, interface=settings.address)
        else:
            port = reactor.listenSSL(settings.port, factory, _options(settings), interface=settings.address)
    except OSError as error:
        raise NrpeError(f"{where}: {error.filename or 'it'} can't be used: {error.strerror}.") from error
    except CannotListenError as error:
        raise NrpeError(f"{where}: another program listens there, or it is no address of this host.") from error
    factory.log.info(
        "check_nrpe is answered at {address} port {port}", address=settings.address, port=port.getHost().port
    )
    return port


def _options(settings: NrpeSettings) -> CertificateOptions:
    """Return TLS settings by which clients need a certificate of `ca`. Raises NrpeError for files that are none."""
    assert settings.certificate and settings.key and settings.ca
    own = [crypto.X509.from_cryptography(each) for each in _certificates(settings.certificate)]
    authorities = [Certificate(crypto.X509.from_cryptography(each)) for each in _certificates(settings.ca)]
    try:
        key = crypto.load_privatekey(crypto.FILETYPE_PEM, settings.key.read_bytes(), lambda *_: b"")
        options = CertificateOptions(
            privateKey=key, certificate=own[0], extraCertChain=own[1:],
            trustRoot=trustRootFromCertificates(authorities), raiseMinimumTo=TLSVersion.TLSv1_2,
        )  # fmt: skip
        refuse_renegotiation(options.getContext())
        options.getContext().check_privatekey()
    except (crypto.Error, SSL.Error, ValueError) as error:
        raise NrpeError(
            f"--nrpe-key {settings.key} is no key in PEM, has a password, or does not belong to {settings.certificate}."
        ) from error
    return options


def _certificates(path: Path) -> list[Any]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except ValueError as error:
        raise NrpeError(f"{path} holds no certificates in PEM.") from error
