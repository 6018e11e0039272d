"""Test the signature of a host key: by the agent's own key, for this purpose, under a certificate of a known CA."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from equus_protocol.host_key import fault, fingerprint, sign

LINE = "ssh-ed25519 AAAA host"
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def pem_of(key: Key) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def certificate(
    key: Key, issuer: ec.EllipticCurvePrivateKey, uri: str | None, name: str = "agent", by: str = "ca"
) -> bytes:
    """Return a certificate that ended long ago; without a URI it has no other names."""
    subject, signer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, by))
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(signer).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(BEGIN).not_valid_after(BEGIN + timedelta(days=1))
    if uri is not None:
        made = made.add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), False)
    return made.sign(issuer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


CA, OTHER, AGENT = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
CA_PEM = certificate(CA, CA, None, "ca")
OTHER_PEM = certificate(OTHER, OTHER, None, "ca")
GOOD = certificate(AGENT, CA, "urn:equus:agent:web-1")
SIGNED = sign(LINE, pem_of(AGENT))
STRANGE = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
UNSIGNED = "it is not signed with the key of its certificate"


@pytest.mark.parametrize(("name", "line", "signature", "shown", "ca", "why"), [
    ("web-1", LINE, SIGNED, GOOD, CA_PEM, None), ("web-1", LINE, SIGNED, GOOD, None, None),
    ("web-1", LINE, SIGNED, GOOD, OTHER_PEM + CA_PEM, None), ("web-1", LINE, SIGNED, GOOD, CA_PEM + OTHER_PEM, None),
    ("web-1", LINE, SIGNED, GOOD, OTHER_PEM, "its certificate is not signed by the CA of this Helen"),
    ("web-2", LINE, SIGNED, GOOD, CA_PEM, "its certificate is not that of web-2"),
    ("web-1", LINE + "x", SIGNED, GOOD, CA_PEM, UNSIGNED),
    ("web-1", LINE, sign(LINE, pem_of(OTHER)), GOOD, CA_PEM, UNSIGNED),
    ("web-1", LINE, "", GOOD, CA_PEM, UNSIGNED), ("web-1", LINE, "\u00e9", GOOD, CA_PEM, UNSIGNED),
    ("web-1", LINE, SIGNED, b"x", CA_PEM, UNSIGNED), ("web-1", LINE, SIGNED, GOOD, b"x", UNSIGNED),
    ("web-1", LINE, SIGNED, certificate(AGENT, CA, None), CA_PEM, UNSIGNED),
    ("web-1", LINE, SIGNED, certificate(AGENT, CA, "urn:other:web-1"), CA_PEM, "its certificate is not that of web-1"),
    ("web-1", LINE, SIGNED, certificate(STRANGE, CA, "urn:equus:agent:web-1"), CA_PEM,
     "its certificate has a key of another kind than Equus makes"),
])  # fmt: skip
def test_what_shows_a_host_key(
    name: str, line: str, signature: str, shown: bytes, ca: bytes | None, why: str | None
) -> None:
    """A host key is shown by a name, a key and a CA that fit; the end of the certificate does not matter."""
    assert fault(name, line, signature, shown, ca) == why


def test_a_signature_for_another_purpose() -> None:
    """A signature over the host key's line alone, without its purpose, is refused."""
    bare = base64.b64encode(AGENT.sign(LINE.encode(), ec.ECDSA(hashes.SHA256()))).decode()
    assert fault("web-1", LINE, bare, GOOD, CA_PEM) == UNSIGNED
    with pytest.raises(ValueError, match="the key of the certificate is of another kind than Equus makes"):
        sign(LINE, pem_of(STRANGE))


def test_a_fingerprint() -> None:
    """A fingerprint has the form of OpenSSH, without the padding of base64."""
    assert fingerprint(b"abc") == "SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0"
    assert base64.b64decode(fingerprint(b"abc")[7:] + "=") == hashlib.sha256(b"abc").digest()
