"""The root document: which keys sign sets of checks, how many of them are needed, and Helen's online key. Pure.

Keys change by a new root, whose version is the next one, signed by the keys of the root before it *and* by its own: the
old ones say who follows them, the new ones that they exist. It travels in an envelope as manifests do. A root has no
date on which it ends: one that had ended would shut agents out from the very document that renews it.
docs/protocol.rst section 6 is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equus_protocol.manifest import MAX_SIGNATURES, ManifestRefused, is_signed, key_id, open_envelope, read_object

TYPE = "equus-root"
MAX_ROOT = 8_192  # bytes of one in its envelope: sixteen keys of 90, and twice as many signatures of 130
MAX_ROOTS = 64  # that are laid beside a manifest: an agent that slept through more rotations than that enrols anew


@frozen
class Root:
    """Who may sign. Version 0 is no document: keys that were pinned alone, any one of which is enough."""

    keys: Mapping[str, Ed25519PublicKey] = field(factory=dict)
    threshold: int = 1
    version: int = 0
    online: Ed25519PublicKey | None = None


def build(version: int, keys: Iterable[Ed25519PublicKey], threshold: int, online: Ed25519PublicKey | None) -> bytes:
    """The bytes of a root, to be signed. Raises ValueError for one that nobody would accept."""
    document: dict[str, Any] = {"type": TYPE, "version": version, "threshold": threshold}
    document["keys"] = {key_id(key): key.public_bytes_raw().hex() for key in keys}
    if online is not None:
        document["online"] = online.public_bytes_raw().hex()
    try:
        _read(document)
    except ManifestRefused as refused:
        raise ValueError(str(refused)) from refused
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def read(envelope: bytes) -> Root:
    """The root in an envelope, whoever has signed it. Raises ManifestRefused."""
    if len(envelope) > MAX_ROOT:
        raise ManifestRefused("malformed", f"a root of {len(envelope)} bytes; {MAX_ROOT} is the most")
    signed, _ = open_envelope(envelope)
    return _read(read_object(signed))


def is_whole(envelope: bytes, root: Root) -> bool:
    """Whether its own keys have signed it."""
    return is_signed(envelope, root.keys, root.threshold)


def follow(envelope: bytes, held: Root) -> Root:
    """The root in an envelope as the successor of the one held. Raises ManifestRefused."""
    root = read(envelope)
    if root.version <= held.version:
        raise ManifestRefused("rollback", f"root {root.version} is not newer than root {held.version}, which is held")
    if held.version and root.version != held.version + 1:
        raise ManifestRefused(
            "bad-signature", f"root {root.version} cannot be judged by root {held.version}: enrol anew"
        )
    if not is_signed(envelope, held.keys, held.threshold):
        raise ManifestRefused("bad-signature", f"root {root.version} is not signed by the keys that are held")
    if not is_whole(envelope, root):
        raise ManifestRefused("bad-signature", f"root {root.version} is not signed by its own keys")
    return root


def climb(envelopes: Iterable[bytes], held: Root) -> tuple[Root, bytes | None]:
    """Follow roots, the oldest first, as far as they go: the last one, with its envelope if that is not the held one.

    What is held already is passed over; whoever holds bare keys begins with the first root that those have signed.
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
    return Root(keys, threshold, version, None if online is None else _key(online))


def _key(text: Any) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except (TypeError, ValueError):
        raise ManifestRefused("malformed", "a key of the root is no 64 hexadecimal digits") from None
