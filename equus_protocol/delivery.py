"""Put together the blob of `manifest` as Helen delivers it: a signed manifest, a freshness statement, and roots.

Statement and roots are further members of the manifest's own envelope, so that an agent which doesn't know them reads
the same manifest as ever. Each is an envelope of its own with its own signatures, which equus_protocol/freshness.py and
equus_protocol/roots.py verify. The module is pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from equus_protocol.manifest import ROOM, ManifestRefused, read_object
from equus_protocol.roots import MAX_ROOTS


def attach(envelope: bytes, freshness: bytes, roots: Sequence[bytes]) -> bytes:
    """Return a good envelope with this statement attached, and as many of the newest roots as fit into a blob."""
    fitting: list[bytes] = []
    room = ROOM - len(freshness) - 64  # for the names of both members
    for root in reversed(roots[-MAX_ROOTS:]):
        room -= len(root) + 1
        if room < 0:
            break
        fitting.insert(0, root)
    beside = b',"freshness":' + freshness + b',"roots":[' + b",".join(fitting) + b"]}"
    return envelope.rstrip()[:-1] + beside


def read_attached(blob: bytes) -> tuple[bytes | None, list[bytes]]:
    """Return the freshness statement of a blob (or None) and its roots, each in its envelope.

    Raises ManifestRefused `malformed` if the blob is no JSON object or has too many roots.
    """
    document = read_object(blob)
    freshness, roots = document.get("freshness"), document.get("roots", [])
    if not isinstance(roots, list) or len(roots) > MAX_ROOTS:
        raise ManifestRefused("malformed", f"`roots` is no list of at most {MAX_ROOTS}")
    return None if freshness is None else _dump(freshness), [_dump(root) for root in roots]


def _dump(envelope: Any) -> bytes:
    """Return an envelope as bytes again; the signed part stands in it as text, which comes through unchanged."""
    try:
        return json.dumps(envelope, separators=(",", ":")).encode()
    except RecursionError:
        raise ManifestRefused("malformed", "what lies beside the manifest is nested too deep") from None
