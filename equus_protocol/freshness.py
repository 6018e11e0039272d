"""Build and verify the freshness statement, by which Helen's online key says daily that a manifest is the newest.

It names a manifest by its version and hash, and nothing else, so no file can be brought in with it. An agent that has
the online key (equus_protocol/roots.py) notices within a day that newer manifests are kept from it; `expires` of the
manifest alone would leave that open for a month. The module is pure. docs/protocol.rst section 6 is the specification.
"""

from __future__ import annotations

import json

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equus_protocol import manifest
from equus_protocol.manifest import ManifestDocument, ManifestRefused, is_signed, key_id, open_envelope, read_object

TYPE = "equus-freshness"
LIFE = 86_400.0  # seconds for which a statement counts. The reader's own figure, whatever the document claims
SKEW = 86_400.0  # seconds that the writer's clock may be ahead: else a date far ahead would never grow old


@frozen
class Freshness:
    """Hold a statement that has been read. Times are unix seconds."""

    version: int
    digest: str
    created: float

    @property
    def expires(self) -> float:
        return self.created + LIFE


def build(document: ManifestDocument, now: float) -> bytes:
    """Return the bytes of a statement, to be signed with the online key; `now` is unix time in seconds."""
    statement = {"type": TYPE, "version": document.version, "digest": document.digest, "created": now}
    return json.dumps(statement, separators=(",", ":"), sort_keys=True).encode()


def sign(statement: bytes, online: Ed25519PrivateKey) -> bytes:
    """Return the envelope of a statement that `build` has made."""
    return manifest.sign(statement, [online], TYPE)


def verify(
    envelope: bytes | None, online: Ed25519PublicKey, document: ManifestDocument, now: float, newest: float = 0.0,
    seen: Freshness | None = None, typed: bool = False,
) -> Freshness:  # fmt: skip
    """Verify that a statement says of this manifest, less than LIFE ago, that it is the newest.

    `now` is unix time in seconds, and so is `newest`: an older statement is refused. `seen` is the newest statement
    that the agent has seen: an older one is refused if it is about another manifest. About the same one it is that of
    another Helen of the network. `typed`: only a typed signature counts. Raises ManifestRefused, always
    `frozen`: any fault leaves no statement that counts.
    """
    if envelope is None:
        raise ManifestRefused("frozen", f"no statement says that manifest {document.version} is still the newest")
    try:
        fresh = _open(envelope, online, TYPE if typed else None)
    except ManifestRefused as refused:
        raise ManifestRefused("frozen", f"the freshness statement can't be used: {refused}") from refused
    if (fresh.version, fresh.digest) != (document.version, document.digest):
        raise ManifestRefused("frozen", f"the freshness statement is about another manifest ({fresh.version})")
    if seen is not None and seen.digest != fresh.digest:
        newest = max(newest, seen.created)
    if fresh.created < newest:
        raise ManifestRefused("frozen", "Helen's word that this set is the newest is older than the word that is held")
    if fresh.expires <= now:
        age = (now - fresh.created) / 3_600
        raise ManifestRefused(
            "frozen",
            f"manifest {document.version} was last confirmed {age:.0f} h ago: a newer one may be withheld",
        )
    if fresh.created > now + SKEW:
        raise ManifestRefused("frozen", "the freshness statement is of tomorrow: is this machine's clock right?")
    return fresh


def _open(envelope: bytes, online: Ed25519PublicKey, kind: str | None) -> Freshness:
    if not is_signed(envelope, {key_id(online): online}, 1, kind):
        raise ManifestRefused("bad-signature", "it is not signed by Helen's online key")
    signed, _ = open_envelope(envelope)
    document = read_object(signed)
    if document.get("type") != TYPE:
        raise ManifestRefused("malformed", f"a document of type {document.get('type')!r}, not {TYPE!r}")
    version, digest, created = (document.get(name) for name in ("version", "digest", "created"))
    is_moment = type(created) in (int, float) and 0 <= created < 2**40  # type: ignore[operator]  # so no NaN, either
    if type(version) is not int or not isinstance(digest, str) or not is_moment:
        raise ManifestRefused("malformed", "it has no `version`, `digest` and `created`")
    return Freshness(version, digest, float(created))  # type: ignore[arg-type]
