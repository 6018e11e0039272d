"""Sets the options of an agent's socket: small lines leave at once, and a peer that vanished is noticed."""

from __future__ import annotations

import socket
from typing import Any

DEAD_PEER_MS = 30_000  # TCP_USER_TIMEOUT: the only way to find a version 1 peer that vanished
IDLE_SECONDS = 20  # until the kernel probes a silent peer; version 2 is pinged after as long
PROBE_SECONDS, PROBES = 5, 3


def tune_socket(transport: Any) -> None:
    """Set the options on the TCP socket below this transport; anything else is left alone."""
    raw = transport
    while hasattr(raw, "transport"):
        raw = raw.transport
    handle = raw.getHandle() if hasattr(raw, "getHandle") else None
    if not isinstance(handle, socket.socket) or handle.family not in (socket.AF_INET, socket.AF_INET6):
        return
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_MS)
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
