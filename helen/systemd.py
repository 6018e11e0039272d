"""Talks to systemd: readiness, the watchdog, and sockets that it opened for us (sd_notify(3), sd_listen_fds(3)).

Twisted has no sd_notify. A datagram to $NOTIFY_SOCKET is all there is to it; without the variable nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START
NAMES = ("agents", "web")  # FileDescriptorName= of the units in deploy/systemd
_handed_over: dict[str, int] = {}


def notify(*lines: str) -> None:
    """Tell the service manager, e.g. `READY=1`. Never raises: a deaf manager is no reason to stop serving."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        to.setblocking(False)
        to.sendto("\n".join(lines).encode(), "\0" + address[1:] if address.startswith("@") else address)


def watchdog_seconds() -> float | None:
    """Return the seconds between two WATCHDOG=1: half of what the unit allows; None where it has no watchdog."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    wanted = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    if not microseconds.isdigit() or int(microseconds) == 0 or wanted != str(os.getpid()):
        return None
    return int(microseconds) / 2e6


def hand_over(**opened: int) -> None:
    """Take descriptors by name from the program that began this process and opened them itself, before Helen runs."""
    for descriptor in opened.values():
        os.set_inheritable(descriptor, False)
    _handed_over.update(opened)


def sockets(environment: Mapping[str, str]) -> dict[str, int]:
    """Return descriptors that systemd opened for us by FileDescriptorName=; a single one without name is for agents."""
    if _handed_over:
        return dict(_handed_over)
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not count.isdigit():
        return {}
    descriptors = range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # no child shall believe that they are its own
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    if len(descriptors) == 1 and names[0] not in NAMES:
        names = ["agents"]
    return {name: at for name, at in zip(names, descriptors, strict=False) if name in NAMES}


def first_environment() -> dict[str, str]:
    """Return the environment at the start of this process: Twisted removes LISTEN_PID and LISTEN_FDS at import."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [os.fsdecode(each).partition("=") for each in file.read().split(b"\0") if each]
    return {name: value for name, _, value in pairs}
