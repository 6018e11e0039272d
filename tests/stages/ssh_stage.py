"""Runs the server of one SSH connection behind a port of the test's own, and OpenSSH's programs that come to it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openssh
from openssh import PATIENCE, keygen
from patience import Patience

from equus.shell import host_key
from equus.shell.permits import Access
from equus.shell.program import finish, start
from equus.shell.recordings import FOLDER
from equus.shell.settings import ServerSettings


class Door:
    """Accepts connections; each gets a process by `settings`, as a tunnel would."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.key = keygen(folder / "id")
        self.keys = folder / "authorized_keys"
        self.keys.write_text(f"# people\n{(folder / 'id.pub').read_text()}")
        self.host = host_key.load(folder)
        access = more.pop("access", None) or Access(("root",), str(self.keys))
        self.record_most: int | None = more.pop("record_most", None)
        self.recordings = folder / FOLDER
        self.settings = ServerSettings(self.host.pem, access, caller="test", recordings=str(self.recordings), **more)
        self.known = folder / "known_hosts"
        self.known.write_text(f"web-1 {self.host.line}\n")
        self.processes: list[subprocess.Popen[bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)  # so that little waits in the kernel
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def _run(self, call: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=call, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                started = start(self.settings, self.record_most)
                self.processes.append(started.process)
                self._run(self._relay, client, started)

    def _relay(self, client: socket.socket, started: Any) -> None:
        """Carry both directions to their ends: a socket that is closed with unread bytes takes back what was sent."""
        back = threading.Thread(target=self._carry, args=(started.ours, client), daemon=True)
        back.start()
        self._carry(client, started.ours)
        back.join()
        finish(started.process)
        client.close()
        started.ours.close()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        is_taken = True
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                try:
                    if is_taken:
                        other.sendall(data)
                except OSError:
                    is_taken = False
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join(PATIENCE)

    # ---------------------------------------------------------------------------------------------- OpenSSH

    def options(self, key: Path | None = None) -> list[str]:
        return openssh.options(
            key or self.key, UserKnownHostsFile=self.known, GlobalKnownHostsFile="/dev/null", HostKeyAlias="web-1",
            StrictHostKeyChecking="yes", SendEnv="LC_TEST SECRET", LogLevel="ERROR",
        )  # fmt: skip

    def ssh(self, *words: str, key: Path | None = None, user: str = "root") -> list[str]:
        return ["ssh", *self.options(key), "-p", str(self.port), f"{user}@127.0.0.1", *words]

    def run(self, *words: str, data: bytes = b"", **more: Any) -> subprocess.CompletedProcess[bytes]:
        return openssh.run(self.ssh(*words, **more), data, os.environ | {"LC_TEST": "grüße", "SECRET": "x"})


@contextlib.contextmanager
def door(folder: Path, **more: Any) -> Iterator[Door]:
    made = Door(folder, **more)
    try:
        yield made
    finally:
        made.close()


def gone(pid: int) -> bool:
    """Say whether no process has this id, or only one that waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> None:
    bound = Patience(PATIENCE)
    while left := [pid for pid in pids if not gone(pid)]:
        assert bound.lasts(), f"processes {left} are still there"
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def server_of(supervisor: subprocess.Popen[bytes]) -> int:
    """Return the process id of the server of SSH, which the inner supervisor has started."""
    [inner] = children(supervisor.pid)
    return children(inner)[0]


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4_096


class Terminal:
    """Runs ssh -tt on a terminal of the test's own; `modes` are words for stty."""

    def __init__(self, at: Door, command: str, modes: tuple[str, ...] = ()) -> None:
        self.ours, theirs = pty.openpty()
        if modes:
            subprocess.run(["stty", *modes], stdin=theirs, check=True, timeout=PATIENCE)
        self.process = subprocess.Popen(at.ssh("-tt", command), stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.said = b""

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def wait_for(self, word: bytes) -> None:
        until = time.monotonic() + PATIENCE
        while word not in self.said:
            assert select.select([self.ours], [], [], until - time.monotonic())[0], f"no {word!r} in {self.said!r}"
            self.said += os.read(self.ours, 65_536)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.ours)


@contextlib.contextmanager
def terminal(at: Door, command: str, modes: tuple[str, ...] = ()) -> Iterator[Terminal]:
    made = Terminal(at, command, modes)
    try:
        yield made
    finally:
        made.close()
