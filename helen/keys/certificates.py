"""Makes and reads certificates: of Helen's CA, of its server, of its agents.

Pure: no files, no clock (`now` is unix seconds), no record of what was signed. The only thing taken from a signing
request is its public key; name, usages and life are decided here.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = 86_400.0
CA_LIFE = 3_650 * DAY
SERVER_LIFE = 90 * DAY
AGENT_LIFE = 7 * DAY
RENEWAL_SHARE = 2 / 3  # of a life, after which its renewal is due
BACKDATED = DAY  # so that a clock that is behind does not turn a fresh certificate away

AGENT_URI = "urn:equus:agent:"
AGENT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
REQUEST_SIZE = 16_384  # bytes of a PEM request; one with RSA 8192 has 3 KiB
RSA_SIZES = range(2_048, 8_193)  # more bits would make each signature check a burden

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey
CURVES = (ec.SECP256R1, ec.SECP384R1)
UNREADABLE = (
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    x509.InvalidVersion,  # no ValueError: a version that its bytes claim and X.509 doesn't have
    ValueError,
)


class BadRequest(Exception):
    """Says that a name, a key or a request can't be certified; the text is a sentence for its sender."""


def checked_name(name: str) -> str:
    """Return the name itself. Raises BadRequest if it is no name for an agent."""
    if not AGENT_NAME.fullmatch(name) or ".." in name:
        raise BadRequest(
            f"{name[:80]!r} is no name for an agent: 1 to 63 of a-z 0-9 . _ -, a letter or digit first, never two dots"
        )
    return name


def name_in(certificate: x509.Certificate) -> str:
    """Return the agent's name in a certificate: its only SAN. Raises BadRequest if there is another one, or none."""
    try:
        names = list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except UNREADABLE as error:
        raise BadRequest("the certificate has no readable alternative name") from error
    match names:
        case [x509.UniformResourceIdentifier(value=uri)] if uri.startswith(AGENT_URI):
            return checked_name(uri.removeprefix(AGENT_URI))
    raise BadRequest(f"the certificate is not for exactly one {AGENT_URI}NAME")


def checked_key(key: object) -> PublicKey:
    """Return the public key itself. Raises BadRequest unless it is of a kind and strength that Helen certifies."""
    match key:
        case ed25519.Ed25519PublicKey():
            return key
        case ec.EllipticCurvePublicKey() if isinstance(key.curve, CURVES):
            return key
        case rsa.RSAPublicKey() if key.key_size in RSA_SIZES:
            return key
    raise BadRequest("the key must be P-256, P-384, Ed25519, or RSA of 2048 to 8192 bits")


def key_of_request(pem: str) -> PublicKey:
    """Return the public key of a PKCS #10 request in PEM form.

    Raises BadRequest if the request can't be read, is not signed with that key, or has a key of another kind.
    """
    if len(pem) > REQUEST_SIZE:
        raise BadRequest(f"the signing request is longer than {REQUEST_SIZE} bytes")
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        key = checked_key(request.public_key())
        signed = request.is_signature_valid
    except (*UNREADABLE, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise BadRequest("the signing request is no PEM certificate request that can be read") from error
    if not signed:
        raise BadRequest("the signing request is not signed with its own key")
    return key


def key_hash(key: object) -> str:
    """Return the hash by which a key is known: sha256 of its SubjectPublicKeyInfo, hexadecimal."""
    spki = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(spki).hexdigest()


def key_hash_in(certificate: x509.Certificate) -> str:
    """Return the hash of a certificate's key, of whatever kind. Raises BadRequest if the key can't be read."""
    try:
        return key_hash(certificate.public_key())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadRequest("the key of the certificate cannot be read") from error


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the sha256 of the DER form, hexadecimal: every token begins with that of the CA."""
    return hashlib.sha256(der(certificate)).hexdigest()


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def pem(*certificates: x509.Certificate) -> str:
    """Return certificates in PEM form, one after the other."""
    return "".join(c.public_bytes(serialization.Encoding.PEM).decode() for c in certificates)


def moment(seconds: float) -> datetime:
    """Return unix seconds as a datetime without fractions: certificates have none."""
    return datetime.fromtimestamp(int(seconds), UTC)


def since(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def until(certificate: x509.Certificate) -> float:
    return certificate.not_valid_after_utc.timestamp()


def renew_after(issued_at: float, not_after: float) -> int:
    """Return when a certificate is to be renewed, in unix seconds. BACKDATED is no part of its life."""
    return int(issued_at + (not_after - issued_at) * RENEWAL_SHARE)


def server_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Return each host once: addresses as addresses, all else as DNS names. Raises BadRequest if one is neither."""
    return [_server_name(host) for host in dict.fromkeys(map(_plain, hosts))]


def _plain(host: str) -> str:
    return host.strip("[]").partition("%")[0].rstrip(".").lower()  # neither brackets nor zone nor root dot


def _server_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not HOST_NAME.fullmatch(host):
            raise BadRequest(f"{host[:80]!r} is neither a host name (ASCII; xn-- for others) nor an address") from None
        return x509.DNSName(host)


def new_ca(key: PrivateKey, now: float) -> x509.Certificate:
    """Make a self-signed CA that is valid from `now`, unix seconds.

    Its name is made from its key, so that no two CAs have the same, and renewal keeps it.
    """
    public = key.public_key()
    name = _common_name(f"Helen CA {key_hash(public)[:16]}")
    builder = _builder(name, name, public, now, now + CA_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs=True), critical=True)
    return builder.sign(key, _digest_for(key))


def server_certificate(
    ca: x509.Certificate, ca_key: PrivateKey, public: PublicKey, hosts: Iterable[str], now: float
) -> x509.Certificate:
    """Make Helen's server certificate, for all names by which agents reach it, valid from `now`, unix seconds.

    Raises BadRequest if a host is neither a name nor an address.
    """
    names = server_names(hosts)
    builder = _leaf(ca, _common_name("Helen"), public, now, SERVER_LIFE, ExtendedKeyUsageOID.SERVER_AUTH)
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(ca_key, _digest_for(ca_key))


def agent_certificate(
    ca: x509.Certificate, ca_key: PrivateKey, public: PublicKey, name: str, now: float
) -> x509.Certificate:
    """Make the certificate of one agent, valid from `now`, unix seconds: for a TLS client of that name, and only that.

    Raises BadRequest if the name is none for an agent.
    """
    san = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(AGENT_URI + checked_name(name))])
    builder = _leaf(ca, _common_name(name), public, now, AGENT_LIFE, ExtendedKeyUsageOID.CLIENT_AUTH)
    return builder.add_extension(san, critical=False).sign(ca_key, _digest_for(ca_key))


def is_client(certificate: x509.Certificate) -> bool:
    """Return True if a certificate has the usage of TLS clients."""
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except UNREADABLE:
        return False
    return ExtendedKeyUsageOID.CLIENT_AUTH in usages


def is_ca(certificate: x509.Certificate) -> bool:
    """Return True if a certificate is one of a CA, which signs others."""
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except UNREADABLE:
        return False


def is_issued_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Return True if the CA's key signed a certificate."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _leaf(
    ca: x509.Certificate, subject: x509.Name, public: PublicKey, now: float, life: float, usage: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    builder = _builder(subject, ca.subject, public, now, min(now + life, until(ca)))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.public_key())  # type: ignore[arg-type]
    return builder.add_extension(issuer, critical=False)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: PublicKey, now: float, not_after: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment(now - BACKDATED))
        .not_valid_after(moment(not_after))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _digest_for(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()  # Ed25519 has its own


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
