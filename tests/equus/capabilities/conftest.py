"""Provide recorded /proc trees, policies, and servers on loopback that do what a test wants."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equus.capabilities.calls import CallFailed, Context
from equus.capabilities.registry import CALLS
from equus.capabilities.sampler import Sampler
from equus.policy.policy import Policy

# No test talks longer to a server than this; a hung one fails instead of stopping the suite.
SERVER_SECONDS = 60.0


@pytest.fixture
def policy() -> Policy:
    """Return the policy of a host that has no policy file: its own figures, and loopback."""
    return Policy.parse(b"", None)


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[dict[str, str | bytes]], str]:
    """Writes files below a root and answers the root."""

    def write(files: dict[str, str | bytes]) -> str:
        root = tmp_path / "root"
        for name, content in files.items():
            path = root / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(root)

    return write


@pytest.fixture
def call(policy: Policy) -> Callable[..., Any]:
    """Performs a call by its name: call("disk", "/", root=..., policy=..., seconds=...)."""

    def perform(
        name: str,
        *args: Any,
        root: str = "/",
        policy: Policy = policy,
        seconds: float = 60.0,
        sampler: Sampler | None = None,
        private: tuple[str, ...] = (),
        **more: Any,
    ) -> Any:
        deadline = time.monotonic() + seconds
        context = Context("test", deadline, root=root, private=private, sampler=sampler or Sampler(), **more)
        return CALLS[name].perform(list(args), policy, context)

    return perform


@pytest.fixture
def failure(call: Callable[..., Any]) -> Callable[..., tuple[str, str]]:
    """Return a function that makes a call that must fail, and returns its code and text."""

    def perform(name: str, *args: Any, **options: Any) -> tuple[str, str]:
        with pytest.raises(CallFailed) as caught:
            call(name, *args, **options)
        return caught.value.code, caught.value.text

    return perform


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """Starts a TCP server that hands each connection to a function; answers its port."""
    open_sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def one(connection: socket.socket, act: Callable[[socket.socket], None]) -> None:
        with connection, contextlib.suppress(OSError):
            act(connection)

    def accept(listener: socket.socket, act: Callable[[socket.socket], None]) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.settimeout(SERVER_SECONDS)
                open_sockets.append(connection)
                thread = threading.Thread(target=one, args=(connection, act), daemon=True)
                threads.append(thread)
                thread.start()

    def start(act: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        open_sockets.append(listener)
        thread = threading.Thread(target=accept, args=(listener, act), daemon=True)
        threads.append(thread)
        thread.start()
        return int(listener.getsockname()[1])

    yield start
    for connection in list(open_sockets):
        _close(connection)
    for thread in list(threads):
        thread.join(SERVER_SECONDS)


@pytest.fixture
def belongs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a file belong to another user or group, as far as its handle says: belongs(path, uid=1)."""

    def pretend(path: Path, uid: int | None = None, gid: int | None = None) -> None:
        really, inode = os.fstat, os.lstat(path).st_ino

        def fstat(descriptor: int) -> os.stat_result:
            found = really(descriptor)
            if found.st_ino != inode:
                return found
            fields = list(found)
            fields[stat.ST_UID] = found.st_uid if uid is None else uid
            fields[stat.ST_GID] = found.st_gid if gid is None else gid
            return os.stat_result(fields)

        monkeypatch.setattr(os, "fstat", fstat)

    return pretend


@pytest.fixture
def closed_port() -> int:
    """Return a port on which no program listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
