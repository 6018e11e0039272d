"""Tells where an endpoint such as tcp://10.0.0.1:5556 leads."""

from __future__ import annotations

from scale0.wire.zap import is_local


def leaves_machine(endpoint: str) -> bool:
    """Return True if the way to an endpoint leaves this machine: then it takes CURVE."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    return endpoint.startswith("tcp://") and not is_local(host)
