"""Build, read and follow root documents, which name the signing keys, how many must sign, and Helen's online key.

Keys change by a new root with the next version, signed by the keys of the root before it *and* by its own: the old keys
name their successors, the new ones prove that they exist. It travels in an envelope as manifests do. A root never
expires: an expired one would shut agents out from the very document that renews it. The module is pure.
docs/protocol.rst section 6 is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equus_protocol import manifest
from equus_protocol.manifest import MAX_SIGNATURES, ManifestRefused, is_signed, key_id, open_envelope, read_object

TYPE = "equus-root"
MAX_ROOT = 8_192  # bytes of one in its envelope: sixteen keys of 95, and as many signatures of 230
MAX_ROOTS = 64  # that are attached to a manifest: an agent that was away for more rotations than that enrols anew


@frozen
class Root:
    """Hold the keys that may sign. Version 0 is no document: keys that were pinned alone, any of which is enough.

    `typed`: of signatures only those over the kind of the document count. Roots of 0.1.0 don't say so.
    """

    keys: Mapping[str, Ed25519PublicKey] = field(factory=dict)
    threshold: int = 1
    version: int = 0
    online: Ed25519PublicKey | None = None
    typed: bool = False

    def kind(self, document: str) -> str | None:
        """Return what `manifest.is_signed` demands of signatures of these keys over a kind of document."""
        return document if self.typed else None


def build(
    version: int, keys: Iterable[Ed25519PublicKey], threshold: int, online: Ed25519PublicKey | None, typed: bool = True
) -> bytes:
    """Return the bytes of a root, to be signed with `sign`; raises ValueError if agents would refuse it."""
    document: dict[str, Any] = {"type": TYPE, "version": version, "threshold": threshold}
    document["keys"] = {key_id(key): key.public_bytes_raw().hex() for key in keys}
    if online is not None:
        document["online"] = online.public_bytes_raw().hex()
    if typed:
        document["typed"] = True
    try:
        _read(document)
    except ManifestRefused as refused:
        raise ValueError(str(refused)) from refused
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def sign(text: bytes, keys: Iterable[Ed25519PrivateKey]) -> bytes:
    """Return the envelope of a root that `build` has made."""
    return manifest.sign(text, keys, TYPE)


def read(envelope: bytes) -> Root:
    """Return the root in an envelope without looking at its signatures; raises ManifestRefused if it is none."""
    if len(envelope) > MAX_ROOT:
        raise ManifestRefused("malformed", f"a root of {len(envelope)} bytes; {MAX_ROOT} is the most")
    signed, _ = open_envelope(envelope)
    return _read(read_object(signed))


def is_self_signed(envelope: bytes, root: Root) -> bool:
    """Return True if the root's own keys have signed it."""
    return is_signed(envelope, root.keys, root.threshold, root.kind(TYPE))


def follow(envelope: bytes, held: Root) -> Root:
    """Return the root in an envelope as the successor of the one held.

    Raises ManifestRefused if it is not the next version, or if the keys of the old or the new root haven't signed it.
    """
    root = read(envelope)
    if root.version <= held.version:
        raise ManifestRefused("rollback", f"root {root.version} is not newer than root {held.version}, which is held")
    if held.version and root.version != held.version + 1:
        raise ManifestRefused(
            "bad-signature", f"root {root.version} cannot be judged by root {held.version}: enrol anew"
        )
    if not is_signed(envelope, held.keys, held.threshold, held.kind(TYPE)):
        raise ManifestRefused("bad-signature", f"root {root.version} is not signed by the keys that are held")
    if not is_self_signed(envelope, root):
        raise ManifestRefused("bad-signature", f"root {root.version} is not signed by its own keys")
    return root


def follow_all(envelopes: Iterable[bytes], held: Root) -> tuple[Root, bytes | None]:
    """Follow roots, the oldest first; return the last one, and its envelope unless that root is held already.

    Roots up to the held one are passed over. An agent that holds bare keys begins with the first root that those have
    signed. Raises ManifestRefused if one of the roots doesn't follow from the one before.
    """
    newest: bytes | None = None
    for envelope in envelopes:
        version = read(envelope).version
        if version <= held.version or (not held.version and not is_signed(envelope, held.keys, held.threshold)):
            continue
        held, newest = follow(envelope, held), envelope
    return held, newest


def _read(document: dict[str, Any]) -> Root:
    if document.get("type") != TYPE:
        raise ManifestRefused("malformed", f"a document of type {document.get('type')!r}, not {TYPE!r}")
    version, threshold = document.get("version"), document.get("threshold")
    if type(version) is not int or not 1 <= version < 2**53:
        raise ManifestRefused("malformed", f"root version {version!r} is no whole number from 1 on")
    listed = document.get("keys")
    if not isinstance(listed, dict) or not 1 <= len(listed) <= MAX_SIGNATURES:
        raise ManifestRefused("malformed", f"a root names 1 to {MAX_SIGNATURES} keys")
    keys = {key_id(key): key for key in (_key(text) for text in listed.values())}
    if len(keys) != len(listed) or keys.keys() != listed.keys():
        raise ManifestRefused("malformed", "a key of the root is named by another id than its own")
    if type(threshold) is not int or not 1 <= threshold <= len(keys):
        raise ManifestRefused("malformed", f"threshold {threshold!r} is not 1 to {len(keys)}, the number of keys")
    online = document.get("online")
    return Root(keys, threshold, version, None if online is None else _key(online), document.get("typed") is True)


def _key(text: Any) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except (TypeError, ValueError):
        raise ManifestRefused("malformed", "a key of the root is no 64 hexadecimal digits") from None
