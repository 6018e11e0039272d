"""The freshness statement: Helen's online key says, once a day at least, that this manifest is the one to run. Pure.

It names a manifest by its version and hash, and nothing else: with it no file can be brought in. An agent that knows
the online key (equus_protocol/roots.py) so notices within a day that news are kept from it, which `expires` of the
manifest alone would leave open for a month. docs/protocol.rst section 6 is the specification.
"""

from __future__ import annotations

import json

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equus_protocol.manifest import ManifestDocument, ManifestRefused, is_signed, key_id, open_envelope, read_object

TYPE = "equus-freshness"
LIFE = 86_400.0  # seconds: what is older says nothing. The reader's own figure, whatever the document claims
SKEW = 86_400.0  # seconds that the writer's clock may be ahead: else a date far ahead would never grow old


@frozen
class Freshness:
    """A statement that has been read. Times are unix seconds."""

    version: int
    digest: str
    created: float

    @property
    def expires(self) -> float:
        return self.created + LIFE


def build(document: ManifestDocument, now: float) -> bytes:
    """The bytes of a statement, to be signed with the online key."""
    statement = {"type": TYPE, "version": document.version, "digest": document.digest, "created": now}
    return json.dumps(statement, separators=(",", ":"), sort_keys=True).encode()


def verify(
    envelope: bytes | None, online: Ed25519PublicKey, document: ManifestDocument, now: float, newest: float = 0.0
) -> Freshness:
    """That this manifest is said to be the one, and not long ago. `newest`: when the newest one seen was made.

    Raises ManifestRefused, always `frozen`: whatever is wrong with the statement, there is none that counts.
    """
    if envelope is None:
        raise ManifestRefused("frozen", f"nobody says that manifest {document.version} is still the newest")
    try:
        fresh = _open(envelope, online)
    except ManifestRefused as refused:
        raise ManifestRefused("frozen", f"the statement of freshness is no good: {refused}") from refused
    if (fresh.version, fresh.digest) != (document.version, document.digest):
        raise ManifestRefused("frozen", f"the statement of freshness is about another manifest ({fresh.version})")
    if fresh.created < newest:
        raise ManifestRefused("frozen", "the statement of freshness is older than one that was seen before")
    if fresh.expires <= now:
        age = (now - fresh.created) / 3_600
        raise ManifestRefused(
            "frozen", f"manifest {document.version} was said to be the newest {age:.0f} h ago: news may be kept from us"
        )
    if fresh.created > now + SKEW:
        raise ManifestRefused("frozen", "the statement of freshness is of tomorrow: is this machine's clock right?")
    return fresh


def _open(envelope: bytes, online: Ed25519PublicKey) -> Freshness:
    if not is_signed(envelope, {key_id(online): online}, 1):
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
