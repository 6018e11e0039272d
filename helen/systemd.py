"""Talking to systemd: readiness, the watchdog, and sockets that it opened for us (sd_notify(3), sd_listen_fds(3)).

Twisted has no sd_notify. A datagram to $NOTIFY_SOCKET is all there is to it; without the variable nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket

FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START


def notify(*lines: str) -> None:
    """Tell the service manager, e.g. `READY=1`. Never raises: a deaf manager is no reason to stop serving."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        to.setblocking(False)
        to.sendto("\n".join(lines).encode(), "\0" + address[1:] if address.startswith("@") else address)


def watchdog_seconds() -> float | None:
    """How often to say WATCHDOG=1: half of what the unit allows, or None where it has no watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    wanted = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(microseconds) / 2e6 if microseconds.isdigit() and wanted == str(os.getpid()) else None


def sockets() -> dict[str, int]:
    """Descriptors that systemd opened for us, by FileDescriptorName=. A nameless one is called `unknown` by systemd."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return {}
    count = os.environ.get("LISTEN_FDS", "0")
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + (int(count) if count.isdigit() else 0))
    return dict(zip(names, descriptors, strict=False))
