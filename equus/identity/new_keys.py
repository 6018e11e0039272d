"""Make the agent's keys, which never leave its host, and requests for certificates of them."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from equus.identity.identity import AGENT_URI

_PEM = serialization.Encoding.PEM


def make_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key of the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM (PKCS #8), not encrypted."""
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def signing_request(name: str, key: ec.EllipticCurvePrivateKey) -> str:
    """Return a request (PEM) for a certificate. Helen uses only its public key, and decides on the rest itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    san = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(AGENT_URI + name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(san, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(_PEM).decode()
