"""The server of one SSH connection behind a port of the test's own, and OpenSSH's programs that come to it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equus.shell import host_key
from equus.shell.permits import Access
from equus.shell.program import finish, start
from equus.shell.settings import ServerSettings

PATIENCE = 120.0  # seconds; a busy machine, and an interpreter that starts


def keygen(path: Path, *more: str) -> Path:
    """A new key without a passphrase."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path), *more]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    return path


class Door:
    """Accepts connections; each gets a process by `settings`, as a tunnel would."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.key = keygen(folder / "id")
        self.keys = folder / "authorized_keys"
        self.keys.write_text(f"# people\n{(folder / 'id.pub').read_text()}")
        self.host = host_key.load(folder)
        access = more.pop("access", None) or Access(("root",), str(self.keys))
        self.settings = ServerSettings(self.host.pem, access, caller="test", **more)
        self.known = folder / "known_hosts"
        self.known.write_text(f"web-1 {self.host.line}\n")
        self.processes: list[subprocess.Popen[bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
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
                started = start(self.settings)
                self.processes.append(started.process)
                self._run(self._carry, client, started.ours)
                self._run(self._carry, started.ours, client, started.process)

    def _carry(self, one: socket.socket, other: socket.socket, process: Any = None) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if process is not None:
            finish(process)
            one.close()
            other.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join(PATIENCE)

    # ---------------------------------------------------------------------------------------------- OpenSSH

    def options(self, key: Path | None = None) -> list[str]:
        given = {
            "UserKnownHostsFile": self.known, "GlobalKnownHostsFile": "/dev/null", "HostKeyAlias": "web-1",
            "StrictHostKeyChecking": "yes", "IdentitiesOnly": "yes", "IdentityAgent": "none", "BatchMode": "yes",
            "PasswordAuthentication": "no", "SendEnv": "LC_TEST SECRET", "LogLevel": "ERROR",
        }  # fmt: skip
        words = ["-F", "none", "-i", str(key or self.key)]
        return words + [word for name, value in given.items() for word in ("-o", f"{name}={value}")]

    def ssh(self, *words: str, key: Path | None = None, user: str = "root") -> list[str]:
        return ["ssh", *self.options(key), "-p", str(self.port), f"{user}@127.0.0.1", *words]

    def run(self, *words: str, data: bytes | None = b"", **more: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.ssh(*words, **more), input=data, capture_output=True, timeout=PATIENCE, check=False,
            env=os.environ | {"LC_TEST": "grüße", "SECRET": "x"},
        )  # fmt: skip


@contextlib.contextmanager
def door(folder: Path, **more: Any) -> Iterator[Door]:
    made = Door(folder, **more)
    try:
        yield made
    finally:
        made.close()
