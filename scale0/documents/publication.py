"""Reads, writes, compares and signs publications: documents and configurations on their way by PUB. Pure.

    topic `config/NETWORK/SCOPE` | version, 8 bytes big-endian | JSON, XML or ZFL | document | signature
    topic                        | version                     (a keepalive, each second)

The scope is a broker's identity, for its whole configuration, or `all`, for the part that the brokers of a network
share (schema.SHARED), or `doc/NAME` for a document of the network. A signature is Ed25519 over everything before it;
CURVE proves only the last hop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import attrs
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from scale0.config.config import digest

ALL = "all"
NO_DOCUMENT = b""
Verdict = Literal["news", "known", "old", "conflict"]


class NotAPublication(Exception):
    """Reports frames that are neither a document nor a keepalive."""


@attrs.frozen
class Publication:
    """Holds one version of a document, or the keepalive that tells of that version."""

    network: str
    scope: str
    version: int
    syntax: str = ""  # JSON, XML or ZFL; empty for a keepalive
    document: bytes = NO_DOCUMENT
    signature: bytes = b""

    @property
    def is_keepalive(self) -> bool:
        """Return True if there is only a version here, and no document."""
        return not self.syntax

    @property
    def topic(self) -> bytes:
        """Return the topic that subscribers name."""
        return f"config/{self.network}/{self.scope}".encode()

    def frames(self) -> list[bytes]:
        """Return the frames to publish."""
        start = [self.topic, self.version.to_bytes(8, "big")]
        return start if self.is_keepalive else [*start, self.syntax.encode("ascii"), self.document, self.signature]

    def keepalive(self) -> list[bytes]:
        """Return the frames of the keepalive for this version."""
        return self.frames()[:2]

    def signed(self, key: Ed25519PrivateKey) -> Publication:
        """Return the same publication with a signature by this key."""
        return attrs.evolve(self, signature=key.sign(self._payload()))

    def is_signed_by(self, keys: Iterable[str]) -> bool:
        """Return True if the signature is by one of these public keys, given in hex."""
        for key in keys:
            try:
                Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(self.signature, self._payload())
            except InvalidSignature:
                continue
            return True
        return False

    def _payload(self) -> bytes:
        topic = self.scope.encode() if self.scope.startswith("doc/") else self.topic  # there the key is the network
        return b"\0".join([topic, self.syntax.encode("ascii"), self.version.to_bytes(8, "big") + self.document])


def parse(frames: Sequence[bytes]) -> Publication:
    """Return the publication in these frames. Raises NotAPublication if they are none."""
    if len(frames) not in (2, 4, 5) or len(frames[1]) != 8:
        raise NotAPublication("a topic and a version of eight bytes; then a syntax, a document and a signature")
    try:
        prefix, network, scope = frames[0].decode("utf-8").split("/", 2)
        syntax = frames[2].decode("ascii") if len(frames) > 2 else ""
    except ValueError:
        raise NotAPublication("the topic is config/NETWORK/SCOPE") from None
    if prefix != "config" or syntax not in ("", "JSON", "XML", "ZFL"):
        raise NotAPublication("a syntax is JSON, XML or ZFL")
    if not syntax and len(frames) > 2:
        raise NotAPublication("a document without its syntax")
    version = int.from_bytes(frames[1], "big")
    return Publication(network, scope, version, syntax, *frames[3:5])


class SeenPublications:
    """Remembers the newest publication of each scope that was accepted."""

    def __init__(self) -> None:
        self.newest: dict[str, Publication] = {}

    def judge(self, new: Publication) -> Verdict:
        """Compare a publication with the one that is held for its scope.

        A version stands for one document: a second document of the same version is a lie or a fault (`conflict`), and
        the first is kept.
        """
        held = self.newest.get(new.scope)
        if held is None or new.version > held.version:
            return "news"
        if new.version < held.version:
            return "old"
        return "known" if new.is_keepalive or digest(new.document) == digest(held.document) else "conflict"

    def take(self, new: Publication) -> None:
        """Hold this publication as the newest of its scope."""
        self.newest[new.scope] = new

    def version(self) -> int:
        """Return the highest version that was accepted, 0 if there is none."""
        return max((p.version for p in self.newest.values()), default=0)
