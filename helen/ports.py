"""Opens listening sockets: those that systemd hands over, those of HOST:PORT, and the Unix socket of the commands."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from twisted.internet.error import CannotListenError

BACKLOG = 4_096  # connections that the kernel holds for us: a whole fleet comes back at once after a restart


def listen(reactor: Any, given: int | None, factory: Any, where: tuple[str, int]) -> Any:
    """Return a port of Twisted on the descriptor `given` by systemd, else on HOST and port; host `*` is every address.

    Raises CannotListenError if the address is taken or not this machine's.
    """
    host, port = where
    if given is not None:
        return _adopt(reactor, given, factory)
    if host == "*":
        return _listen_everywhere(reactor, port, factory)
    return reactor.listenTCP(port, factory, backlog=BACKLOG, interface=host)


def listen_beside(reactor: Any, folder: int, name: str, factory: Any) -> Any:
    """Return a port on the Unix socket `name` in the folder of an open descriptor, for its owner alone.

    It is named by way of the descriptor: a path of more than 107 bytes fits no address.
    """
    return reactor.listenUNIX(f"/proc/self/fd/{folder}/{name}", factory, mode=0o600)


def open_folder(path: Path) -> int:
    """Return a descriptor of a folder that serves to name what is in it. Raises OSError."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def address_of(host: str, bound: Any) -> str:
    """Return HOST:PORT as others shall write it: the host that was asked for, the port that was got."""
    if host == "*":
        host = socket.gethostname()
    return f"[{host}]:{bound.port}" if ":" in host else f"{host}:{bound.port}"


def is_loopback(address: str) -> bool:
    """Return True for HOST:PORT of this machine alone; a name other than localhost may be anything."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def sentence_of(error: Exception) -> str:
    """Return what an operator has to know of an error at start."""
    if isinstance(error, CannotListenError):
        reason = getattr(error.socketError, "strerror", None) or error.socketError
        return f"can't listen on {error.interface or '*'}:{error.port}: {reason}. Is another Helen running there?"
    return str(error)


def _adopt(reactor: Any, descriptor: int, factory: Any) -> Any:
    """Serve a socket that systemd has opened. Twisted takes a copy of it, so the one given is closed."""
    with socket.socket(fileno=descriptor) as given:
        given.setblocking(False)  # it comes blocking, and Twisted accepts until none is left
        return reactor.adoptStreamPort(given.fileno(), given.family, factory)


def _listen_everywhere(reactor: Any, port: int, factory: Any) -> Any:
    """Listen with IPv6 and IPv4 on one socket, or with IPv4 alone where the kernel has no IPv6."""
    try:
        return reactor.listenTCP(port, factory, backlog=BACKLOG, interface="::")
    except CannotListenError as error:
        if getattr(error.socketError, "errno", None) == errno.EADDRINUSE:
            raise
        return reactor.listenTCP(port, factory, backlog=BACKLOG, interface="0.0.0.0")
