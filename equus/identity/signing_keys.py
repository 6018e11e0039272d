"""Read the keys that sign the agent's code, and check the root that comes with them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equus.identity.identity import IdentityError
from equus_protocol import roots
from equus_protocol.manifest import ManifestRefused, key_id

_PUBLIC_KEYS = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----\n?", re.DOTALL)


def checked_root(envelope: bytes, keys: Mapping[str, Ed25519PublicKey]) -> bytes:
    """Return a first root again. Raises IdentityError unless it is signed by its own keys, and they are `keys`."""
    try:
        root = roots.read(envelope)
        if root.keys.keys() != keys.keys() or not roots.is_self_signed(envelope, root):
            raise IdentityError("the root does not belong to the signing keys that came with it.")
    except ManifestRefused as refused:
        raise IdentityError(f"the root can't be used: {refused}.") from refused
    return envelope


def read_signing_keys(pem: bytes) -> dict[str, Ed25519PublicKey]:
    """Return Ed25519 public keys by id, of a PEM text. Raises IdentityError if one of them can't be read."""
    keys = {}
    for block in _PUBLIC_KEYS.findall(pem):
        try:
            key = serialization.load_pem_public_key(block)
        except ValueError as error:
            raise IdentityError(f"a signing key can't be read: {error}.") from error
        if not isinstance(key, Ed25519PublicKey):
            raise IdentityError("a signing key is not an Ed25519 key.")
        keys[key_id(key)] = key
    return keys
