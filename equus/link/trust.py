"""Verify Helen in the TLS handshake, show it the agent's certificate, and explain failures in plain words.

An agent trusts the CAs of its identity or, before it has one, the CA with the hash in the operator's token. Both ways
verify chain *and* name before a byte of ours is sent; TLS 1.2 is the minimum (Twisted's own). Sessions are never
resumed, so that a revoked certificate is looked at each time.
"""

from __future__ import annotations

import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL
from OpenSSL.crypto import X509
from service_identity import CertificateError, VerificationError
from service_identity.hazmat import DNS_ID, DNSPattern, IPAddress_ID, IPAddressPattern, verify_service_identity
from twisted.internet import error as net
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    TLSVersion,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from equus.identity.identity import Identity, Token, split_certificates
from equus.settings import Server
from groundwork.tls_records import CarefulConnection

# OpenSSL's X509_V_ERR_ numbers that have a sentence of their own here.
_NOT_YET_VALID, _EXPIRED = 9, 10
_NO_ISSUER = (2, 20, 21)
_SELF_SIGNED = (18, 19)
_WRONG_PURPOSE = 26


@implementer(IOpenSSLClientConnectionCreator)
class Trust:
    """Describes the TLS of one attempt.

    `trouble` says why the peer was not believed to be Helen, once that has happened.
    """

    def __init__(self, options: CertificateOptions, server: Server, token: Token | None = None) -> None:
        self._options = options
        self._server = server
        self._token = token
        self.trouble: str | None = None

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Return an OpenSSL connection that verifies the peer by the rules of this object."""
        connection = CarefulConnection(self._options.getContext())
        if _address(self._server.verify) is None:  # an address is no legal SNI
            connection.set_tlsext_host_name(self._server.verify.encode("idna"))
        connection.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, self._judge)
        return connection

    def _judge(self, _connection: SSL.Connection, certificate: X509, code: int, depth: int, ok: int) -> bool:
        """Return True if a certificate is good. OpenSSL asks about each, from root to leaf.

        OpenSSL would lose an exception, so none is raised.
        """
        try:
            return self._believes(certificate.to_cryptography(), code, depth, bool(ok))
        except Exception as error:  # whatever it is: a certificate that can't be judged is not believed
            self.trouble = self.trouble or f"the certificate can't be judged: {error}"
            return False

    def _believes(self, certificate: x509.Certificate, code: int, depth: int, ok: bool) -> bool:
        if not ok:
            token = self._token if code in _SELF_SIGNED else None
            if token is None or not token.fits(certificate.public_bytes(Encoding.DER)):
                self.trouble = self.trouble or self._why(code, certificate)
                return False
        if depth == 0:
            self.trouble = self.trouble or self._misnamed(certificate)
        return self.trouble is None

    def _why(self, code: int, certificate: x509.Certificate) -> str:
        theirs = f"the certificate of {self._server.address}"
        if code == _EXPIRED:
            return f"{theirs} expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M UTC}"
        if code == _NOT_YET_VALID:
            return (
                f"{theirs} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M UTC}: are both clocks right?"
            )
        if code == _WRONG_PURPOSE:
            return f"{theirs} is not made for a server"
        if code not in _SELF_SIGNED + _NO_ISSUER:
            return f"{theirs} is not valid (OpenSSL's reason {code})"
        if self._token is None:
            return f"{theirs} is not signed by a CA that this agent trusts: is this our Helen?"
        if code in _NO_ISSUER:
            return f"{self._server.address} does not show its CA, so the token can't be compared with it"
        return (
            f"the CA of {self._server.address} is not the one that the token names: "
            "wrong server, a token of another Helen, or an attacker in between"
        )

    def _misnamed(self, certificate: x509.Certificate) -> str | None:
        wanted = self._server.verify
        service = DNS_ID(wanted) if _address(wanted) is None else IPAddress_ID(wanted)
        try:
            verify_service_identity(_patterns(certificate), [service], [])
        except (VerificationError, CertificateError):
            return (
                f"the certificate of {self._server.address} is not for {wanted!r} but for {_names(certificate)}: "
                f"dial one of those names, or start Helen with --name {wanted}"
            )
        return None


def _patterns(certificate: x509.Certificate) -> list[DNSPattern | IPAddressPattern]:
    """Return the hosts of a certificate. service-identity's own reader fails for URNs, which our certificates have."""
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    hosts = [DNSPattern.from_bytes(name.encode()) for name in san.get_values_for_type(x509.DNSName)]
    addresses = san.get_values_for_type(x509.IPAddress)
    return [*hosts, *[IPAddressPattern(address) for address in addresses]]


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _names(certificate: x509.Certificate) -> str:
    patterns = _patterns(certificate)
    return ", ".join(_show(pattern) for pattern in patterns) or "no host"


def _show(pattern: DNSPattern | IPAddressPattern) -> str:
    return str(pattern.pattern) if isinstance(pattern, IPAddressPattern) else pattern.pattern.decode("ascii", "replace")


def by_identity(server: Server, identity: Identity) -> Trust:
    """Return a Trust that shows the identity's certificate. It believes the server's own CA or else the identity's."""
    ca = server.ca.encode() if server.ca else identity.ca
    roots = trustRootFromCertificates([Certificate.loadPEM(pem) for pem in split_certificates(ca)])
    ours = PrivateCertificate.loadPEM(identity.key + b"\n" + identity.certificate)
    options = CertificateOptions(
        privateKey=ours.privateKey.original,
        certificate=ours.original,
        trustRoot=roots,
        raiseMinimumTo=TLSVersion.TLSv1_2,
    )
    return Trust(options, server)


def by_token(server: Server, token: Token) -> Trust:
    """Return a Trust that shows no certificate and believes only the CA with the token's hash."""
    return Trust(CertificateOptions(raiseMinimumTo=TLSVersion.TLSv1_2), server, token)


# ---------------------------------------------------------------------------------------------------- in plain words

_ALERTS: tuple[tuple[str, str], ...] = (
    ("alert certificate required", "Helen wants a certificate: enrol with --join TOKEN, or give --certificate"),
    ("alert unknown ca", "Helen does not know the CA of our certificate: it belongs to another Helen"),
    (
        "alert certificate expired",
        "Helen refused our certificate as expired, and renews it no more: enrol again with"
        " --join TOKEN (`helen renewals` shows the grace that Helen gives)",
    ),
    ("alert certificate revoked", "Helen has revoked our certificate: ask its operator, then enrol again"),
    ("alert bad certificate", "Helen refused our certificate: enrol again with --join TOKEN"),
    ("alert certificate unknown", "Helen refused our certificate: enrol again with --join TOKEN"),
    ("alert access denied", "Helen refused our certificate: enrol again with --join TOKEN"),
    ("alert decrypt error", "Helen could not check our certificate: it belongs to another Helen's CA of the same name"),
    ("alert protocol version", "the other side speaks no TLS version that we accept (1.2 or newer)"),
    ("unsupported protocol", "the other side speaks no TLS version that we accept (1.2 or newer)"),
    ("wrong version number", "what answers there speaks no TLS: is it Helen's port for agents?"),
    ("http request", "what answers there speaks HTTP: is it Helen's port for agents?"),
    ("packet length too long", "what answers there speaks no TLS: is it Helen's port for agents?"),
)
_NETWORK: tuple[tuple[type[BaseException], str], ...] = (
    (net.ConnectionRefusedError, "nothing listens there (connection refused): is Helen running, is the port right?"),
    (net.DNSLookupError, "no address is known for this name: is it spelt right?"),
    (net.TCPTimedOutError, "no answer: is a firewall in between?"),
    (net.TimeoutError, "no answer in time: is a firewall in between?"),
    (net.NoRouteError, "no route to this host"),
    (net.ConnectionDone, "the other side closed the connection"),
    (net.ConnectionLost, "the connection broke off: is Helen running, and is that its port for agents?"),
)


def explain(failure: Failure, trouble: str | None = None) -> str:
    """Return one sentence for the log: why there was no connection, or why it ended. `trouble` is that of a Trust."""
    if trouble is not None:
        return trouble
    text = alert_text(failure.value)
    if text is not None:
        return text
    for kind, sentence in _NETWORK:
        if failure.check(kind):
            return sentence
    return failure.getErrorMessage() or failure.type.__name__


def alert_text(value: BaseException) -> str | None:
    """Return a sentence for an error of OpenSSL, or None for other exceptions."""
    if not isinstance(value, SSL.Error):
        return None
    queue = value.args[0] if value.args and isinstance(value.args[0], list) else []
    reasons = "; ".join(str(reason) for *_, reason in queue)
    return next((text for part, text in _ALERTS if part in reasons), f"TLS failed: {reasons or 'broken off'}")
