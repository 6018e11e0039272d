"""Says which names an agent gets only by a token that was made for just that name. Pure.

Others speak under these names already: Helen itself in its audit and its messages, operators, and pings that name no
host. helen/passive/ has the names that report from outside; the store those that an agent holds or has held.
"""

from __future__ import annotations

RESERVED = frozenset({
    "admin", "administrator", "equus", "helen", "operator", "pings", "root", "scale0", "stranger", "system", "zerotask",
})  # fmt: skip


def why_reserved(name: str) -> str:
    """Return in a few words why a token without a name can't give this one; empty if it can."""
    return "reserved" if name in RESERVED else ""
