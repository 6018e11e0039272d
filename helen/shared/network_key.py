"""The key of a network of Helens: one Ed25519 key that lies at each of them, and at nobody else's.

It signs what the Helens share, so that no broker and no other peer can put words into it; and a second key is derived
from it, with which is sealed what nobody but Helens may read.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from helen import signing
from helen.statedir import StateError

_PURPOSE = b"helen: what Helens share, sealed, 1"
_NONCE = 12  # bytes


class NotSealed(Exception):
    """It was not sealed with this key, or was changed since."""


class NetworkKey:
    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.private = private
        self.public = private.public_key().public_bytes_raw().hex()  # as `config_key` of brokers has it
        self._box = ChaCha20Poly1305(
            HKDF(hashes.SHA256(), 32, salt=None, info=_PURPOSE).derive(private.private_bytes_raw())
        )

    def seal(self, content: bytes, about: str) -> str:
        """For Helens only; `about` must be the same when it is opened."""
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._box.encrypt(nonce, content, about.encode())).decode()

    def unseal(self, text: str, about: str) -> bytes:
        """Raises NotSealed."""
        try:
            raw = base64.b64decode(text, validate=True)
            return self._box.decrypt(raw[:_NONCE], raw[_NONCE:], about.encode())
        except (ValueError, InvalidTag) as error:
            raise NotSealed(f"{about} was not sealed with the key of this network") from error


def load(path: Path) -> NetworkKey:
    """From a PEM file that nobody else can read. Blocks; raises StateError."""
    if not path.exists():
        raise StateError(
            f"--network-key {path}: no such file; `openssl genpkey -algorithm ed25519 -out {path}` makes one, and the"
            " same one has to lie at every Helen of the network"
        )
    return NetworkKey(signing.load_private(path))
