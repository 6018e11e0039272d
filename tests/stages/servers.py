"""Starts Debian's servers for a test on a free port of loopback, in a folder of their own, as an ordinary user.

A server that is missing is a failure that says what to install. The output of a server lies in its folder and is told
when it does not come up. All of them end with the test run, whatever happens.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOBODY = 65_534
START_SECONDS = 60.0  # a busy machine; the slowest takes two seconds on a quiet one
END_SECONDS = 10.0
PLACES = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True))


def program(name: str, package: str) -> str:
    """Return the path of one of Debian's programs."""
    found = shutil.which(name, path=os.pathsep.join((os.environ["PATH"], *PLACES)))
    assert found, f"{name} is missing: apt-get install {package} (./dev test installs all of them)"
    return found


def user() -> dict[str, Any]:
    """Return the user under which servers run: never root, which some of them refuse and none of them needs."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


class Home:
    """Is a folder for all servers of a test run."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="real-"))
        self.path.chmod(0o755)
        self._own(self.path)
        self._running: list[Server] = []

    def folder(self, name: str) -> Path:
        made = self.path / name
        made.mkdir(mode=0o700)
        self._own(made)
        return made

    def write(self, path: Path, text: str, mode: int = 0o600) -> Path:
        path.write_text(text)
        path.chmod(mode)
        self._own(path)
        return path

    @staticmethod
    def _own(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)

    def run(self, *command: str | Path, folder: Path, **settings: Any) -> str:
        """Run a program that ends by itself, such as one that makes an empty database, and return its output."""
        done = subprocess.run(
            list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=60, env=surroundings(folder),
            **user() | settings,
        )  # fmt: skip
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *command: str | Path, folder: Path, **settings: Any) -> Server:
        """Start a server in the foreground."""
        server = Server(list(map(str, command)), folder, settings)
        self._running.append(server)
        return server

    def close(self) -> None:
        for server in self._running:
            server.stop()
        shutil.rmtree(self.path)


def surroundings(folder: Path) -> dict[str, str]:
    return {"PATH": os.pathsep.join(PLACES), "HOME": str(folder), "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)}


class Server:
    """Runs one process group, and keeps what it said."""

    def __init__(self, command: list[str], folder: Path, settings: dict[str, Any]) -> None:
        self.command, self.folder = command, folder
        self.log = folder / "said.log"
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=surroundings(folder),
                start_new_session=True, **user() | settings,
            )  # fmt: skip

    def until(self, look: Callable[[], Any]) -> Server:
        """Wait for it to be there."""
        end = time.monotonic() + START_SECONDS
        while not look():
            assert self.process.poll() is None, f"{self.command[0]} has ended: {self.said}"
            assert time.monotonic() < end, f"{self.command[0]} is not there after {START_SECONDS:g} s: {self.said}"
            time.sleep(0.02)
        return self

    def listening(self, where: int | Path) -> Server:
        """Wait for its port or its socket."""
        return self.until(lambda: answers(where))

    @property
    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")[-2000:]

    def stop(self) -> None:
        """Ask, then kill the whole group; a stopped server is an answer that tests look for, too."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(END_SECONDS)


def answers(where: int | Path) -> bool:
    """Say whether somebody accepts connections at a port or a socket's path."""
    family, address = (socket.AF_INET, ("127.0.0.1", where)) if isinstance(where, int) else (socket.AF_UNIX, str(where))
    with socket.socket(family) as probe, suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(address)
        # A port that nobody has can be given to the probe itself, which then speaks to itself.
        return family == socket.AF_UNIX or probe.getsockname() != probe.getpeername()
    return False


def certificate(days: float) -> tuple[bytes, bytes]:
    """Return a certificate for localhost that vouches for itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(hours=1), now + timedelta(days=days))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return made.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
