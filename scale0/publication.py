"""Configurations on their way by PUB: what a message says, whether it is news, who signed it. Pure.

    topic `config/NETWORK/SCOPE` | version, 8 bytes big-endian | JSON, XML or ZFL | document | signature
    topic                        | version                     (a keepalive, each second)

The scope is a broker's identity, for a whole [ BROKER CONFIG ], or `all`, for what the brokers of a network share
(config.SHARED). A signature is Ed25519 over all that stands before it; CURVE proves only the last hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from scale0.config import digest

ALL = "all"
NO_DOCUMENT = b""
Verdict = Literal["news", "known", "old", "conflict"]


class NotAPublication(Exception):
    """Frames that are neither a document nor a keepalive."""


@attrs.frozen
class Publication:
    network: str
    scope: str
    version: int
    form: str = ""
    document: bytes = NO_DOCUMENT
    signature: bytes = b""

    @property
    def is_keepalive(self) -> bool:
        return not self.form

    @property
    def topic(self) -> bytes:
        return f"config/{self.network}/{self.scope}".encode()

    def frames(self) -> list[bytes]:
        start = [self.topic, self.version.to_bytes(8, "big")]
        return start if self.is_keepalive else [*start, self.form.encode("ascii"), self.document, self.signature]

    def keepalive(self) -> list[bytes]:
        return self.frames()[:2]

    def signed(self, key: Ed25519PrivateKey) -> Publication:
        return attrs.evolve(self, signature=key.sign(self._payload()))

    def is_signed_by(self, keys: Iterable[str]) -> bool:
        """By one of these public keys, in hex."""
        for key in keys:
            try:
                Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(self.signature, self._payload())
            except InvalidSignature:
                continue
            return True
        return False

    def _payload(self) -> bytes:
        topic = self.scope.encode() if self.scope.startswith("doc/") else self.topic  # there the key is the network
        return b"\0".join([topic, self.form.encode("ascii"), self.version.to_bytes(8, "big") + self.document])


def parse(frames: Sequence[bytes]) -> Publication:
    if len(frames) not in (2, 4, 5) or len(frames[1]) != 8:
        raise NotAPublication("a topic and a version of eight bytes; then a form, a document and a signature")
    try:
        word, network, scope = frames[0].decode("utf-8").split("/", 2)
        form = frames[2].decode("ascii") if len(frames) > 2 else ""
    except ValueError:
        raise NotAPublication("the topic is config/NETWORK/SCOPE") from None
    if word != "config" or form not in ("", "JSON", "XML", "ZFL"):
        raise NotAPublication("a form is JSON, XML or ZFL")
    if not form and len(frames) > 2:
        raise NotAPublication("a document without its form")
    version = int.from_bytes(frames[1], "big")
    return Publication(network, scope, version, form, *frames[3:5])


class Seen:
    """The newest publication of each scope that was taken."""

    def __init__(self) -> None:
        self.newest: dict[str, Publication] = {}

    def judge(self, new: Publication) -> Verdict:
        """A version is one document: another one of the same version is a lie or a fault, and the first is kept."""
        held = self.newest.get(new.scope)
        if held is None or new.version > held.version:
            return "news"
        if new.version < held.version:
            return "old"
        return "known" if new.is_keepalive or digest(new.document) == digest(held.document) else "conflict"

    def take(self, new: Publication) -> None:
        self.newest[new.scope] = new

    def version(self) -> int:
        return max((p.version for p in self.newest.values()), default=0)
