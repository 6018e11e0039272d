"""Reads private signing keys."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from helen.cli.base.failures import Failed
from helen.files.state_dir import StateError
from helen.keys import signing_keys


def read_key(path: Path) -> Ed25519PrivateKey:
    """Return a private signing key; raises Failed if the file is none.

    Callers read keys before anything is sent, so that no set is staged for a key that can't be used.
    """
    try:
        return signing_keys.load_private(path)
    except StateError as error:
        raise Failed(str(error)) from error
