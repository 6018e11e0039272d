"""Sign an SSH host key with the key of an agent's certificate, and judge such a signature, at the other end.

So a program in between, or a Helen without the key of the CA, can't show a host key of its own as that of an agent.
"""

from __future__ import annotations

import base64
import hashlib

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PURPOSE = b"equus-host-key\0"  # so that this signature counts for nothing else
_URI = "urn:equus:agent:"


def fingerprint(blob: bytes) -> str:
    """Return the SHA-256 of a public key's bytes as OpenSSH writes it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def sign(line: str, agent_key: bytes) -> str:
    """Return the signature (base64) of a host key's line by the agent's private key, PEM."""
    key = serialization.load_pem_private_key(agent_key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key of the certificate is of another kind than Equus makes")
    return base64.b64encode(key.sign(_PURPOSE + line.encode(), ec.ECDSA(hashes.SHA256()))).decode()


def fault(name: str, line: str, signature: str, certificate: bytes, ca: bytes | None) -> str | None:
    """Return why a host key is not shown to be that of the agent `name`, None if it is.

    `certificate` and `ca` are PEM; without `ca` the certificate's signer is not judged. Its life is not judged either:
    the key was signed while the certificate was good.
    """
    try:
        shown = x509.load_pem_x509_certificate(certificate)
        names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        if _URI + name not in names.get_values_for_type(x509.UniformResourceIdentifier):
            return f"its certificate is not that of {name}"
        if ca is not None and not any(_has_issued(each, shown) for each in x509.load_pem_x509_certificates(ca)):
            return "its certificate is not signed by the CA of this Helen"
        key = shown.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return "its certificate has a key of another kind than Equus makes"
        key.verify(base64.b64decode(signature), _PURPOSE + line.encode(), ec.ECDSA(hashes.SHA256()))
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return "it is not signed with the key of its certificate"
    return None


def _has_issued(ca: x509.Certificate, shown: x509.Certificate) -> bool:
    try:
        shown.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
