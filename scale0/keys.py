"""CURVE keys in files: the own pair, and a folder of those who may connect.

A key file is what ZeroMQ calls a certificate, in ZPL:

    metadata
        identity = "helen-1"
    curve
        public-key = "..."
        secret-key = "..."

The own pair's file must not be readable by others. In the folder of authorized keys each `NAME.key` holds a public key;
its owner may use the identity NAME and no other, or the one that `identity` names, or any if that is `*`. The folder is
read again every second: a key that was removed is refused with its next message.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import attrs

from scale0 import forms
from scale0.config import PUBLIC_KEY

ENDING = ".key"
MAX_KEYS = 100_000  # in one folder
ANY = "*"


class KeyFault(Exception):
    """A key file that cannot be used; the text says which and what to do."""


@attrs.frozen
class Pair:
    public: str
    secret: str = attrs.field(repr=False)


def _value(path: Path, section: str, name: str) -> str:
    try:
        tree, _ = forms.read(path.read_bytes(), "ZFL")
    except (OSError, forms.Unreadable) as e:
        raise KeyFault(f"{path}: {e}") from None
    for part in tree.get(section, []):
        if isinstance(part, dict) and part.get(name):
            value = part[name][0]
            return value if isinstance(value, str) else ""
    return ""


def _key(path: Path, name: str) -> str:
    try:
        return str(PUBLIC_KEY(_value(path, "curve", name)))
    except ValueError:
        raise KeyFault(f"{path}: no {name} of 40 characters under `curve`; make one with `scale0ctl keygen`") from None


def load_pair(path: Path) -> Pair:
    try:
        mode = path.stat().st_mode
    except OSError as e:
        raise KeyFault(f"{path}: {e.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFault(f"{path}: others can read it; `chmod 600 {path}`")
    return Pair(_key(path, "public-key"), _key(path, "secret-key"))


def text_of(pair: Pair, identity: str, with_secret: bool) -> str:
    """A key file's content."""
    secret = f'    secret-key = "{pair.secret}"\n' if with_secret else ""
    return f'metadata\n    identity = "{identity}"\ncurve\n    public-key = "{pair.public}"\n{secret}'


def write_pair(path: Path, pair: Pair, identity: str) -> Path:
    """The pair, for its owner alone, and beside it `NAME.pub.key`, for the folders of those who should know it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as file:
        file.write(text_of(pair, identity, with_secret=True))
    public = path.with_name(f"{identity}.pub{ENDING}")
    public.write_text(text_of(pair, identity, with_secret=False))
    return public


class AuthorizedKeys:
    """Who may connect, by key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, str] = {}
        self.faults: list[str] = []
        self.reload()

    def reload(self) -> None:
        """Read the folder; a faulty file is named in `faults` and authorizes nobody. Blocks: call it in a thread."""
        names, faults = {}, []
        for path in sorted(self.folder.glob(f"*{ENDING}"))[:MAX_KEYS]:
            try:
                name = _value(path, "metadata", "identity") or path.name.removesuffix(ENDING).removesuffix(".pub")
                names[_key(path, "public-key")] = name
            except KeyFault as e:
                faults.append(str(e))
        self.names, self.faults = names, faults

    def is_authorized(self, key: str) -> bool:
        return key in self.names

    def bound_to(self, key: str) -> str | None:
        """The only identity that this key may use; None if it may use any."""
        name = self.names.get(key, "")
        return None if name == ANY else name

    def key_of(self, name: str) -> str:
        """The public key of the file that names this identity; KeyFault if there is none."""
        for key, known in self.names.items():
            if known == name:
                return key
        raise KeyFault(f"{self.folder} holds no key of {name}: {name}{ENDING} has to be there")
