"""Signs and seals what the Helens of a network share, with one Ed25519 key that each of them holds and no other peer.

Because of the signature no broker can change a document; a second key, derived from the first, seals what only Helens
may read.
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

from groundwork.presence import is_there
from helen.files.state_dir import StateError
from helen.keys import signing_keys

_PURPOSE = b"helen: what Helens share, sealed, 1"
_NONCE = 12  # bytes


class NotSealed(Exception):
    """Tells that a text was not sealed with this key, or was changed since."""


class NetworkKey:
    """Holds the private key; `public` is its public half in hex."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self.private = private
        self.public = private.public_key().public_bytes_raw().hex()  # as `config_key` of brokers has it
        self._box = ChaCha20Poly1305(
            HKDF(hashes.SHA256(), 32, salt=None, info=_PURPOSE).derive(private.private_bytes_raw())
        )

    def seal(self, content: bytes, about: str) -> str:
        """Return `content` encrypted for the Helens of this network; `about` must be the same when it is opened."""
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._box.encrypt(nonce, content, about.encode())).decode()

    def unseal(self, text: str, about: str) -> bytes:
        """Return the content of a sealed text. Raises NotSealed if it is of another key, or about something else."""
        try:
            raw = base64.b64decode(text, validate=True)
            return self._box.decrypt(raw[:_NONCE], raw[_NONCE:], about.encode())
        except (ValueError, InvalidTag) as error:
            raise NotSealed(f"{about} was not sealed with the key of this network") from error


def load(path: Path) -> NetworkKey:
    """Return the key of a PEM file that only its owner can read. Blocks. Raises StateError if there is no such file."""
    if not is_there(path):
        raise StateError(
            f"--network-key {path}: no such file; `openssl genpkey -algorithm ed25519 -out {path}` makes one, and the"
            " same one has to lie at every Helen of the network"
        )
    return NetworkKey(signing_keys.load_private(path))
