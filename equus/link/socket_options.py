"""Set options of a connection's socket: the kernel finds dead links, and acknowledges what comes at once."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from twisted.internet.interfaces import ITCPTransport

# A version 1 link has no heartbeat: the kernel asks after a minute and gives up after another.
KEEPALIVE_IDLE, KEEPALIVE_EVERY, KEEPALIVE_TRIES = 60, 15, 4  # seconds, seconds, probes
USER_TIMEOUT = 60_000  # milliseconds that bytes of ours may stay unacknowledged


def raw_socket(transport: Any) -> socket.socket | None:
    """Return the socket of a transport; None if it has none."""
    raw = getattr(transport, "socket", None)
    return raw if isinstance(raw, socket.socket) else None


def acknowledge_at_once(raw: socket.socket | None) -> None:
    """Have the kernel acknowledge what comes next without a delay; Linux forgets it after some segments.

    A Helen that sends by Nagle's algorithm keeps its second command back until the first is acknowledged, which takes
    40 ms where the agent has nothing to say meanwhile.
    """
    if raw is not None and hasattr(socket, "TCP_QUICKACK"):
        with contextlib.suppress(OSError):  # it has been closed meanwhile
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def enable_keepalive(transport: Any) -> None:
    """Let the kernel find dead links; an option that this system does not have is left out."""
    if not ITCPTransport.providedBy(transport):
        return
    transport.setTcpNoDelay(True)
    transport.setTcpKeepAlive(True)
    raw = raw_socket(transport)
    if raw is None:
        return
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY),
        ("TCP_KEEPCNT", KEEPALIVE_TRIES),
        ("TCP_USER_TIMEOUT", USER_TIMEOUT),
    ):
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
