"""Perform the capability `tls`: describe a server's handshake and certificate, and tell if it verifies."""

import ssl
import time
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import NameOID

from equus.capabilities.address import Endpoint, endpoints, host_argument
from equus.capabilities.calls import CallFailed, Context, Fields, Perform
from equus.capabilities.streams.stream import Stream
from equus.capabilities.streams.tls_context import not_verifying, verifying

LONGEST_SECONDS = 60.0
# Bytes of a mail server's greeting or answer. A server that sends more before the handshake is none.
GREETING_BYTES = 8192
# Certificates of large sites name some hundred hosts.
MOST_NAMES = 500
CA_BYTES = 1_048_576
# Chains have two to four certificates; OpenSSL takes up to 100.
MOST_CHAIN = 10


def tls(args: list[Any], policy: Any, context: Context) -> dict[str, Any]:
    """Perform host.tls: return the handshake, the certificate, and the result of its verification."""
    fields = Fields("host.tls", args)
    host, port = host_argument("host.tls", fields.text("host")), fields.whole("port", None, 1, 65535)
    name, seconds = fields.text("server_name", host), fields.number("timeout", 10.0, 0.01, LONGEST_SECONDS)
    starttls = fields.choice("starttls", None, tuple(_UPGRADES))
    ca = fields.optional_text("ca", CA_BYTES)
    fields.done()
    settings = verifying(ca)
    candidates = endpoints("tls", host, port, policy, context, seconds)
    seconds = context.seconds_left(seconds)
    until = time.monotonic() + seconds
    verdict = ""
    try:
        return _inspect(candidates, settings, name, starttls, seconds) | {"verified": True, "verify_error": ""}
    except CallFailed as failed:
        if failed.code != "tls" or _NOT_ACCEPTED not in failed.text:
            raise
        verdict = failed.text.partition(_NOT_ACCEPTED)[2]
    # OpenSSL does not return a certificate that it has refused, so a second connection reads it without verification.
    left = max(0.01, until - time.monotonic())
    return _inspect(candidates, not_verifying(), name, starttls, left) | {"verified": False, "verify_error": verdict}


_NOT_ACCEPTED = "certificate not accepted: "


def _inspect(
    candidates: list[Endpoint], settings: ssl.SSLContext, name: str, starttls: str | None, seconds: float
) -> dict[str, Any]:
    with Stream(seconds) as stream:
        endpoint = stream.connect(candidates)
        connected = stream.elapsed()
        if starttls:
            _UPGRADES[starttls](stream)
        before = stream.elapsed()
        wrapped = stream.start_tls(settings, name)
        answer = {
            "address": endpoint.address,
            "version": wrapped.version() or "",
            "cipher": (wrapped.cipher() or ("",))[0],
            "connect_seconds": connected,
            "handshake_seconds": round(stream.elapsed() - before, 6),
        }
        return answer | _certificates(wrapped)


def _certificates(wrapped: ssl.SSLSocket) -> dict[str, Any]:
    """Return {"certificate", "chain"}: the server's certificate, and the list from it to its authority.

    It is the chain that verification found. Without verification it is what the server sends, as far as each
    certificate is the issuer of the one before; a server may send others that no client needs.
    """
    leaf = describe(wrapped.getpeercert(binary_form=True) or b"")
    is_verified = wrapped.context.verify_mode != ssl.CERT_NONE
    sent = [one for der in _chain_of(wrapped, is_verified) if (one := _readable(der)) is not None]
    if is_verified and sent:
        return {"certificate": leaf, "chain": sent[:MOST_CHAIN]}
    chain = [leaf]
    while len(chain) < MOST_CHAIN and not chain[-1]["self_signed"]:
        issuers = [one for one in sent if one["subject"] == chain[-1]["issuer"] and one not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return {"certificate": leaf, "chain": chain}


def _readable(der: bytes) -> dict[str, Any] | None:
    try:
        return describe(der)
    except CallFailed:  # an authority's certificate may have what OpenSSL takes and no other reader
        return None


def _chain_of(wrapped: ssl.SSLSocket, is_verified: bool) -> list[bytes]:
    """Return the chain as DER. Python has public functions for it since version 3.13, and private ones before."""
    name = "get_verified_chain" if is_verified else "get_unverified_chain"
    public = getattr(wrapped, name, None)
    if public is not None:
        return list(public())
    private = getattr(wrapped._sslobj, name, None)  # type: ignore[attr-defined]
    return [one.public_bytes(_DER) for one in (private() if private else None) or ()]


_DER = 2  # _ssl.ENCODING_DER


def _line(stream: Stream, last: bytes = b"\n") -> bytes:
    data = b""
    while not data.endswith(last):
        piece = stream.receive(1)
        data += piece
        if not piece or len(data) > GREETING_BYTES:
            raise CallFailed("protocol", f"{stream.what} gave no greeting of the protocol")
    return data


def _expect(stream: Stream, opening: bytes) -> None:
    _must_begin(stream, _line(stream), opening)


def _must_begin(stream: Stream, line: bytes, opening: bytes) -> None:
    if not line.startswith(opening):
        text = line.decode("utf-8", "replace").strip()[:100]
        raise CallFailed("protocol", f'{stream.what} answered "{text}" where "{opening.decode()}" was due')


def _smtp_reply(stream: Stream, code: bytes) -> None:
    for _ in range(100):  # an EHLO answer has a line for each extension: some dozen
        line = _line(stream)
        if line[:3] != code:
            text = line.decode("utf-8", "replace").strip()[:100]
            raise CallFailed("protocol", f'{stream.what} answered "{text}" where {code.decode()} was due')
        if line[3:4] != b"-":
            return
    raise CallFailed("protocol", f"{stream.what} sends an endless answer")


def _smtp(stream: Stream) -> None:
    _smtp_reply(stream, b"220")
    stream.send(b"EHLO monitoring.invalid\r\n")
    _smtp_reply(stream, b"250")
    stream.send(b"STARTTLS\r\n")
    _smtp_reply(stream, b"220")


def _imap(stream: Stream) -> None:
    _expect(stream, b"* OK")
    stream.send(b"a1 STARTTLS\r\n")
    for _ in range(100):  # a server may tell its capabilities, or anything else, before it answers
        line = _line(stream)
        if not line.startswith(b"* "):
            return _must_begin(stream, line, b"a1 OK")
    raise CallFailed("protocol", f"{stream.what} sends an endless answer")


def _pop3(stream: Stream) -> None:
    _expect(stream, b"+OK")
    stream.send(b"STLS\r\n")
    _expect(stream, b"+OK")


def _postgresql(stream: Stream) -> None:
    stream.send(bytes.fromhex("0000000804d2162f"))  # SSLRequest: length 8, code 80877103
    if stream.receive(1) != b"S":
        raise CallFailed("protocol", f"{stream.what} does not offer TLS")


_UPGRADES = {"smtp": _smtp, "imap": _imap, "pop3": _pop3, "postgresql": _postgresql}


def describe(der: bytes) -> dict[str, Any]:
    """Return {"subject", "issuer", "names", "not_after_at", ...}. Raises CallFailed if the certificate is malformed."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        return _described(certificate)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as fault:
        raise CallFailed("protocol", f"the certificate cannot be read: {fault}") from None


def _described(certificate: x509.Certificate) -> dict[str, Any]:
    not_after = certificate.not_valid_after_utc.timestamp()
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return {
        "subject": certificate.subject.rfc4514_string(),
        "issuer": certificate.issuer.rfc4514_string(),
        "common_name": str(common[0].value) if common else "",
        "names": _names(certificate),
        "serial": f"{certificate.serial_number:x}",
        "not_before_at": certificate.not_valid_before_utc.timestamp(),
        "not_after_at": not_after,
        "days_left": round((not_after - time.time()) / 86400, 3),
        "key": _key(certificate),
        "signature": _signature(certificate),
        "fingerprint": certificate.fingerprint(hashes.SHA256()).hex(),
        "self_signed": certificate.subject == certificate.issuer,
    }


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    hosts = names.get_values_for_type(x509.DNSName)
    return [*hosts, *map(str, names.get_values_for_type(x509.IPAddress))][:MOST_NAMES]


def _signature(certificate: x509.Certificate) -> str:
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return ""
    return algorithm.name if algorithm else ""


def _key(certificate: x509.Certificate) -> str:
    try:
        key = certificate.public_key()
    except UnsupportedAlgorithm:
        return "unknown"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    if isinstance(key, dsa.DSAPublicKey):
        return f"DSA {key.key_size}"
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "Ed25519"
    return "Ed448" if isinstance(key, ed448.Ed448PublicKey) else "unknown"


CALLS: dict[str, Perform] = {"tls": tls}
