"""Reads and writes CURVE keys in files: the own pair, and the folder of keys that may connect.

A key file is what ZeroMQ calls a certificate, in ZPL:

    metadata
        identity = "helen-1"
        role = "helen"
        offers = "equus.web-*"
    curve
        public-key = "..."
        secret-key = "..."

The own pair's file must not be readable by others. In the folder of authorized keys each `NAME.key` holds a public key;
its owner may use the identity NAME and no other, or the one that `identity` names, or any if that is `*`. `role`, which
may be repeated, says what it may do that is Helen's (groundwork/authority.py has the roles): without one it is a plain
peer. `offers`, patterns of services, narrows what it may offer. The folder is read again every second: a key that was
removed is refused with its next message, and a change of its roles counts from then on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import attrs

from groundwork.authority import ROLES
from scale0.config import syntax
from scale0.config.values import PUBLIC_KEY

ENDING = ".key"
MAX_KEYS = 100_000  # in one folder
ANY = "*"
PLAIN = "peer"  # the role of a key whose file names none


class KeyFault(Exception):
    """Reports a key file that cannot be used; the text says which and what to do."""


@attrs.frozen
class Pair:
    """Holds a CURVE key pair in Z85 text."""

    public: str
    secret: str = attrs.field(repr=False)


@attrs.frozen
class KeyEntry:
    """Describes a key of the folder: its identity, its roles, and the services that it may offer (empty: any)."""

    identity: str
    roles: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()


def _values(path: Path, section: str, name: str) -> list[str]:
    try:
        tree, _ = syntax.read(path.read_bytes(), "ZFL")
    except (OSError, syntax.Unreadable) as e:
        raise KeyFault(f"{path}: {e}") from None
    for part in tree.get(section, []):
        if isinstance(part, dict) and part.get(name):
            return [value if isinstance(value, str) else "" for value in part[name]]
    return []


def _value(path: Path, section: str, name: str) -> str:
    return next(iter(_values(path, section, name)), "")


def _entry(path: Path) -> KeyEntry:
    """Return what a file of the folder says of its key. Raises KeyFault for a role that there is not."""
    roles = tuple(_values(path, "metadata", "role"))
    unknown = [role for role in roles if role not in ROLES and role != PLAIN]
    if unknown:
        raise KeyFault(f"{path}: there is no role {unknown[0]!r}; the roles are {', '.join((PLAIN, *ROLES))}")
    named = tuple(role for role in roles if role != PLAIN)
    return KeyEntry(_identity(path), named, tuple(_values(path, "metadata", "offers")))


def stated_identity(path: Path) -> str:
    """Return the identity that a key file names, empty if it names none. Blocks. Raises KeyFault if it is no key file.

    `scale0ctl keygen` writes it into both files of a pair, so that the owner of a key knows its own name.
    """
    return _value(path, "metadata", "identity")


def _identity(path: Path) -> str:
    """Return the identity that a key of the folder is for."""
    return stated_identity(path) or path.name.removesuffix(ENDING).removesuffix(".pub")


def _key(path: Path, name: str) -> str:
    try:
        return str(PUBLIC_KEY(_value(path, "curve", name)))
    except ValueError:
        raise KeyFault(f"{path}: no {name} of 40 characters under `curve`; make one with `scale0ctl keygen`") from None


def load_pair(path: Path) -> Pair:
    """Return the pair of a key file. Raises KeyFault if it cannot be read, holds no pair, or others can read it."""
    try:
        mode = path.stat().st_mode
    except OSError as e:
        raise KeyFault(f"{path}: {e.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFault(f"{path}: others can read it; `chmod 600 {path}`")
    return Pair(_key(path, "public-key"), _key(path, "secret-key"))


def text_of(pair: Pair, identity: str, with_secret: bool, roles: Sequence[str] = ()) -> str:
    """Return the content of a key file."""
    secret = f'    secret-key = "{pair.secret}"\n' if with_secret else ""
    said = "".join(f'    role = "{role}"\n' for role in roles)
    return f'metadata\n    identity = "{identity}"\n{said}curve\n    public-key = "{pair.public}"\n{secret}'


def write_pair(path: Path, pair: Pair, identity: str, roles: Sequence[str] = ()) -> Path:
    """Write the pair, readable for its owner alone, and beside it `NAME.pub.key` for the folders of its peers.

    Returns the path of the public file, which says the `roles`. An existing pair is never overwritten.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        file.write(text_of(pair, identity, with_secret=True))
    public = path.with_name(f"{identity}.pub{ENDING}")
    public.write_text(text_of(pair, identity, with_secret=False, roles=roles))
    return public


class AuthorizedKeys:
    """Maps the public keys of a folder to the identities that they may use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, str] = {}
        self._entries: dict[str, KeyEntry] = {}
        self._files: dict[str, Path] = {}  # the file of each identity
        self.faults: list[str] = []
        self.reload()

    def reload(self) -> None:
        """Read the folder; a faulty file is named in `faults` and authorizes no key. Blocks: call it in a thread."""
        entries: dict[str, KeyEntry] = {}
        files: dict[str, Path] = {}
        faults: list[str] = []
        for path in sorted(self.folder.glob(f"*{ENDING}"))[:MAX_KEYS]:
            try:
                entry = _entry(path)
                entries[_key(path, "public-key")] = entry
                files.setdefault(entry.identity, path)
            except KeyFault as e:
                faults.append(str(e))
        self._entries, self.faults, self._files = entries, faults, files
        self.names = {key: entry.identity for key, entry in entries.items()}

    def is_authorized(self, key: str) -> bool:
        """Return True if the folder holds this public key."""
        return key in self.names

    def bound_to(self, key: str) -> str | None:
        """Return the only identity that this key may use; None if it may use any."""
        name = self.names.get(key, "")
        return None if name == ANY else name

    def entry_of(self, key: str) -> KeyEntry | None:
        """Return what the folder says of a key; None if it does not hold it."""
        return self._entries.get(key)

    def read_key_of(self, name: str) -> str:
        """Read the public key of an identity from its file as that is now. Blocks for one or two small files.

        Raises KeyFault if there is none, or the file is faulty.
        """
        usual = [self.folder / f"{name}{ending}" for ending in (ENDING, f".pub{ENDING}")]
        for path in sorted({*usual, self._files.get(name, usual[0])}):
            if path.parent == self.folder and path.exists() and _identity(path) == name:
                return _key(path, "public-key")
        raise self._missing(name)

    def key_of(self, name: str) -> str:
        """Return the public key of the file that names this identity. Raises KeyFault if there is none."""
        for key, known in self.names.items():
            if known == name:
                return key
        raise self._missing(name)

    def _missing(self, name: str) -> KeyFault:
        return KeyFault(f"{self.folder} holds no key of {name}: {name}{ENDING} has to be there")
