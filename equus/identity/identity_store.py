"""Keep the agent's identity on disk: its certificate and key, the CAs that it trusts, the keys that sign its code.

Files with keys are readable by their owner alone, or the agent refuses to start.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equus.identity.identity import Identity, IdentityError
from equus.identity.signing_keys import checked_root, read_signing_keys
from equus_protocol import roots
from equus_protocol.manifest import ManifestRefused
from equus_protocol.roots import Root
from groundwork.atomic_write import PUBLIC, write_durably
from groundwork.presence import is_there

SIGNING_KEYS = "signing-keys.pem"
ROOT = "root.json"
MAX_PEM = 262_144  # bytes of any PEM file that is read: some hundred certificates


def read_identity(certificate: Path, key: Path, ca: Path) -> Identity:
    """Return the identity in three files. Raises IdentityError, also if other users can read the key."""
    mode = _stat_mode(key)
    if mode & 0o077:
        raise IdentityError(
            f"{key} can be read by others (mode {mode & 0o777:04o}). Run `chmod 600 {key}`, "
            "and if others use this machine, replace the certificate."
        )
    return Identity.of(_read(certificate), _read(key), _read(ca), f"{certificate}, {key}, {ca}")


def _stat_mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}.") from error


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PEM + 1)
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}.") from error
    if len(content) > MAX_PEM:
        raise IdentityError(f"{path} has more than {MAX_PEM} bytes: that is not one of the agent's PEM files.")
    return content


def _is_there(path: Path) -> bool:
    """Return True if there is a file. Raises IdentityError if that can't be told: it may be the agent's only key."""
    try:
        return is_there(path)
    except OSError as error:
        raise IdentityError(
            f"cannot look at {path}: {error.strerror}. Mend the disk, or chown the state folder to Equus's user."
        ) from error


class IdentityStore:
    """Keeps agent.pem, agent.key and ca.pem in the state folder.

    Two files can't be renamed in one step: the new pair is written beside the old, then the key is renamed, then the
    certificate. A start after a crash in between finds a key that fits `agent.pem.next`, and finishes the work.
    """

    def __init__(self, state: Path) -> None:
        self.certificate, self.key, self.ca = state / "agent.pem", state / "agent.key", state / "ca.pem"
        self._next = state / "agent.pem.next"
        self._signing_keys = state / SIGNING_KEYS
        self._root = state / ROOT

    def load(self) -> Identity | None:
        """Return the identity in the state folder, or None if there is none. Raises IdentityError if it is damaged."""
        if not _is_there(self.key):
            return None
        try:
            return read_identity(self.certificate, self.key, self.ca)
        except IdentityError:
            if not _is_there(self._next):
                raise
            identity = read_identity(self._next, self.key, self.ca)  # raises again if it doesn't fit either
            self._next.replace(self.certificate)
            return identity

    def save(self, identity: Identity) -> None:
        """Replace the identity durably. Blocking: several syncs."""
        write_durably(self.ca, identity.ca, PUBLIC)
        write_durably(self._next, identity.certificate, PUBLIC)
        write_durably(self.key, identity.key)
        self._next.replace(self.certificate)

    def signing_keys(self) -> dict[str, Ed25519PublicKey]:
        """Return the signing keys that were pinned first, by id; none before they were pinned."""
        return read_signing_keys(_read(self._signing_keys)) if _is_there(self._signing_keys) else {}

    def root(self) -> Root:
        """Return the root that says which keys sign code: the newest one, or one made of the pinned keys.

        An operator who removes signing-keys.pem wants to begin anew, so a root that is left is then ignored. Raises
        IdentityError if a file is damaged.
        """
        keys = self.signing_keys()
        if not keys or not _is_there(self._root):
            return Root(keys)
        try:
            return roots.read(_read(self._root))
        except ManifestRefused as refused:
            raise IdentityError(f"{self._root} can't be used: {refused}. Restore it, or remove both it and "
                                f"{self._signing_keys} to pin anew.") from refused  # fmt: skip

    def keep_root(self, envelope: bytes) -> None:
        """Store a root that has been verified. Blocking."""
        write_durably(self._root, envelope, PUBLIC)

    def pin(self, pem: bytes, root: bytes = b"") -> None:
        """Trust these signing keys, and the root that came with them if there is one. Blocking."""
        self._root.unlink(missing_ok=True)
        if root:
            self.keep_root(root)
        write_durably(self._signing_keys, pem, PUBLIC)

    def pin_beside(self, certificate: Path) -> None:
        """Pin the signing keys beside a certificate, where `helen certificate` puts them, unless some are pinned.

        Raises IdentityError if they can't be read.
        """
        beside = certificate.with_name(SIGNING_KEYS)
        if _is_there(beside) and not _is_there(self._signing_keys):
            pem = _read(beside)
            if not read_signing_keys(pem):
                raise IdentityError(f"{beside} holds no public key (BEGIN PUBLIC KEY).")
            root = certificate.with_name(ROOT)
            self.pin(pem, checked_root(_read(root), read_signing_keys(pem)) if _is_there(root) else b"")
