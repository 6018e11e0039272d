"""Keys of the check sets (interface)."""

from __future__ import annotations

from pathlib import Path

import attrs
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@attrs.frozen
class SigningKeys:
    """`private` for manifest.sign (empty with --signing-keys), `public` {key id: 32 raw bytes} for manifest.verify."""

    private: tuple[Ed25519PrivateKey, ...]
    public: dict[str, bytes]

    def pem(self) -> str: ...  # the public keys as PEM, for `signing_keys` of the enrolled blob


def load(state: Path, public_keys: Path | None = None) -> SigningKeys:
    """STATE/signing.key, made when missing; or the public keys of a file."""
