"""Keep the key by which people recognise this host in SSH: made once, kept in the state folder, never sent anywhere.

The agent signs its public half with the key of its certificate: equus_protocol/host_key.py.
"""

from __future__ import annotations

import base64
from pathlib import Path

from attrs import field, frozen
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equus_protocol.host_key import fingerprint
from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import is_there

FILE, PUBLIC_FILE = "ssh_host_key.pem", "ssh_host_key.pub"


@frozen
class HostKey:
    """Holds the private key as PEM, and the public one as `ssh-ed25519 AAAA...`."""

    pem: str = field(repr=False)
    line: str

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint as `ssh-keygen -l` shows it."""
        return fingerprint(base64.b64decode(self.line.split()[1]))


def load(state: Path) -> HostKey:
    """Return the host key of a state folder, made now if there is none. Blocking.

    Raises OSError if the file can't be read or written, ValueError if it holds no Ed25519 key or others can read it.
    """
    path = state / FILE
    try:
        pem = path.read_bytes()
    except FileNotFoundError:
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_durably(path, pem)
    if path.stat().st_mode & 0o077:
        raise ValueError(f"{path} can be read by others: remove it, and a new one is made for people to trust")
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} is no Ed25519 key: remove it, and a new one is made")
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    shown = state / PUBLIC_FILE  # for ssh-keygen -l
    if not is_there(shown) or shown.read_bytes() != public + b"\n":
        write_durably(shown, public + b"\n", PUBLIC)
    return HostKey(pem.decode(), public.decode())
