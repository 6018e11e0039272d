"""Writes the sums of a release's files, and signs them with an Ed25519 key that its public half verifies."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"


def write_sums(folder: Path) -> Path:
    """Write SHA256SUMS over all other files of a folder, as `sha256sum --check` reads it; return its path."""
    files = sorted(path for path in folder.iterdir() if path.name not in (SUMS, SIGNATURE))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))
    return folder / SUMS


def sign_sums(sums: Path, key_file: Path) -> Path:
    """Write the signature beside the sums; return its path.

    Raises ValueError if the file holds no Ed25519 key in PEM without a password.
    """
    try:
        key = load_pem_private_key(key_file.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key_file}: {error}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{key_file} is no Ed25519 key. Make one: openssl genpkey -algorithm ed25519 -out {key_file}")
    signature = sums.with_name(SIGNATURE)
    signature.write_bytes(key.sign(sums.read_bytes()))
    return signature
