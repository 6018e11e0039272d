"""Loads the keys that check sets are signed with: Helen's own, or public ones with private halves on another machine.

equus_protocol/manifest.py signs and verifies. Every function blocks on files: call them at start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equus_protocol.manifest import MAX_SIGNATURES, key_id
from groundwork.atomic_write import write_durably
from groundwork.presence import is_there
from helen.files.state_dir import StateError, read_private

FILE_SIZE = 65_536  # bytes of a file of public keys: MAX_SIGNATURES of them have 2 KiB, the rest is for comments
PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class SigningKeyUnusable(StateError):
    """Says that a key file can't be used; the text says which and why."""


@attrs.frozen
class SigningKeys:
    """Holds the keys of check sets: agents pin the `public` ones, the `private` ones sign.

    With --signing-keys there are no private ones: a changed folder is staged, and `helen push --key FILE` signs it.
    """

    private: tuple[Ed25519PrivateKey, ...] = attrs.field(repr=False)
    public: Mapping[str, Ed25519PublicKey]

    def pem(self) -> str:
        """Return the public keys, one after the other: `signing_keys` of the enrolled blob."""
        return "".join(public_pem(key) for key in self.public.values())


def load(state: Path, public_keys: Path | None = None, name: str = "signing.key") -> SigningKeys:
    """Load the public keys of a file, or else the key STATE/NAME, which is made if it is missing.

    Raises SigningKeyUnusable or KeyExposed.
    """
    if public_keys is not None:
        return SigningKeys((), load_public(public_keys))
    path = state / name
    if not is_there(path):
        make_private(path)
    private = load_private(path)
    public = private.public_key()
    return SigningKeys((private,), {key_id(public): public})


def make_private(path: Path) -> Ed25519PrivateKey:
    """Make a new key in a file of mode 0600. Raises SigningKeyUnusable if there is a file: agents may trust its key."""
    if is_there(path):
        raise SigningKeyUnusable(f"{path} is there already: agents trust it, move it away only for good.")
    key = Ed25519PrivateKey.generate()
    replace_private(path, key)
    return key


def replace_private(path: Path, key: Ed25519PrivateKey) -> None:
    """Write a key into a file of mode 0600, in place of one that is there."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_durably(path, pem)


def load_private(path: Path) -> Ed25519PrivateKey:
    """Load a private key, also for `helen push --key FILE`.

    Raises SigningKeyUnusable if the file can't be read or holds something else, and KeyExposed, with the chmod to run,
    if other users can read it.
    """
    try:
        content = read_private(path)
    except OSError as error:
        raise SigningKeyUnusable(f"{path} cannot be read: {error.strerror}.") from error
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SigningKeyUnusable(f"{path} is no unencrypted private key in PEM form that can be read.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyUnusable(f"{path} is no Ed25519 key: make one with `openssl genpkey -algorithm ed25519`.")
    return key


def load_public(path: Path) -> dict[str, Ed25519PublicKey]:
    """Return every public key of a PEM file by its id, in the file's order.

    Raises SigningKeyUnusable if the file can't be read, has none or too many, or has a private key: Helen must not
    hold it.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_SIZE + 1)
    except OSError as error:
        raise SigningKeyUnusable(f"--signing-keys: {path} cannot be read: {error.strerror}.") from error
    blocks = list(PEM_BLOCK.finditer(content))
    if any(b"PRIVATE" in block[1] for block in blocks):
        raise SigningKeyUnusable(f"--signing-keys: {path} holds a private key; give Helen the public halves only.")
    if len(content) > FILE_SIZE or not 1 <= len(blocks) <= MAX_SIGNATURES:
        raise SigningKeyUnusable(f"--signing-keys: {path} must hold 1 to {MAX_SIGNATURES} public keys in PEM form.")
    keys = [_public(block[0], path) for block in blocks]
    return {key_id(key): key for key in keys}


def public_pem(key: Ed25519PublicKey) -> str:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def _public(block: bytes, path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(block)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SigningKeyUnusable(f"--signing-keys: {path} holds something that is no public key.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise SigningKeyUnusable(f"--signing-keys: {path} holds a key that is no Ed25519 key.")
    return key
