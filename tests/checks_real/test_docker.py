"""Test the check of containers against dockerd itself, and against a peer that answers as dockerd does.

Only root can start dockerd, and only outside of a container that may not make containers itself. Elsewhere there is the
peer alone: a real HTTP server on a Unix socket whose answers were recorded from Debian 12's dockerd (20.10.24), less
fields that nobody reads.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import shutil
import socket
import socketserver
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol

import pytest
from conftest import Check
from servers import Home, program

PATIENCE = 60.0
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21  # linux/capability.h


class Engine(Protocol):
    """Starts and stops containers for the test."""

    socket: Path
    version: str

    def make(self, name: str) -> None: ...
    def start(self, name: str) -> None: ...
    def end(self, name: str) -> None: ...
    def stop(self) -> None: ...


class UnixConnection(http.client.HTTPConnection):
    """Connect to the engine's own API over its socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


class Dockerd:
    """Start Debian's dockerd without a network, with a tiny image in which containers run `sleep`."""

    def __init__(self, home: Home) -> None:
        folder = home.folder("docker")
        self.socket = folder / "docker.sock"
        program("containerd", "docker.io")
        self._server = home.start(
            program("dockerd", "docker.io"), "--data-root", folder / "data", "--exec-root", folder / "exec",
            "-H", f"unix://{self.socket}", "--pidfile", folder / "pid", "--storage-driver=vfs", "--bridge=none",
            "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--shutdown-timeout=3",
            folder=folder, user=0, group=0,
        )  # fmt: skip
        self._server.until(self.socket.exists).until(lambda: "API listen on" in self._server.said)
        self.version = json.loads(self._ask("GET", "/version"))["Version"]
        self._ask("POST", "/images/create?fromSrc=-&repo=tiny", tiny_image(), "application/x-tar")

    def make(self, name: str) -> None:
        """Make a container whose health check fails at once."""
        health = {"Test": ["CMD", "/bin/false"], "Interval": 100_000_000, "Retries": 1}
        wanted = {
            "Image": "tiny",
            "Cmd": ["/bin/sleep", "300"],
            "Healthcheck": health,
            "HostConfig": {"NetworkMode": "none"},
        }
        self._ask("POST", f"/containers/create?name={name}", json.dumps(wanted).encode(), "application/json")

    def start(self, name: str) -> None:
        self._ask("POST", f"/containers/{name}/start")

    def end(self, name: str) -> None:
        self._ask("POST", f"/containers/{name}/kill")

    def stop(self) -> None:
        for one in json.loads(self._ask("GET", "/containers/json")):  # it would wait for them
            self.end(one["Id"])
        self._server.stop()

    def _ask(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        connection = UnixConnection(self.socket)
        connection.request(method, path, body, {"Content-Type": kind} if kind else {})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        assert answer.status < 300, data
        return data


def tiny_image() -> bytes:
    """Return a filesystem with two programs and the libraries that they are linked to, as a tar archive."""
    programs = [shutil.which("sleep", path="/bin:/usr/bin"), shutil.which("false", path="/bin:/usr/bin")]
    needed = subprocess.run(["ldd", str(programs[0])], capture_output=True, text=True, check=True).stdout
    image = io.BytesIO()
    with tarfile.open(fileobj=image, mode="w", dereference=True) as archive:
        for path in programs:
            archive.add(str(path), f"bin/{Path(str(path)).name}")
        for library in re.findall(r"(/\S+) \(", needed):
            archive.add(library, library.lstrip("/"))
    return image.getvalue()


class Recorded:
    """Answer as dockerd would, from a list of containers."""

    version = "20.10.24+dfsg1"

    def __init__(self, home: Home) -> None:
        self.socket = home.folder("recorded") / "docker.sock"
        self._states: dict[str, tuple[str, str]] = {}
        engine = self

        class Answer(BaseHTTPRequestHandler):
            server_version, sys_version = "Docker/20.10.24+dfsg1", "(linux)"

            def address_string(self) -> str:
                return "unix"

            def log_message(self, format: str, *args: Any) -> None:
                return None

            def do_GET(self) -> None:
                body = engine.answer(self.path)
                self.send_response(404 if body is None else 200)
                self.send_header("Api-Version", "1.41")
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b'{"message":"page not found"}\n' if body is None else body)

        self._server = socketserver.ThreadingUnixStreamServer(str(self.socket), Answer)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def answer(self, path: str) -> bytes | None:
        if path == "/version":
            return (
                b'{"Version":"20.10.24+dfsg1","ApiVersion":"1.41","MinAPIVersion":"1.12","Os":"linux","Arch":"amd64"}\n'
            )
        if path != "/containers/json?all=1":
            return None
        shown = [
            {"Id": f"{number:064x}", "Names": [f"/{name}"], "Image": "tiny", "Command": "/bin/sleep 300",
             "Created": 1795836961, "Ports": [], "Labels": {}, "State": state, "Status": status,
             "HostConfig": {"NetworkMode": "none"}, "Mounts": []}
            for number, (name, (state, status)) in enumerate(self._states.items())
        ]  # fmt: skip
        return json.dumps(shown, separators=(",", ":")).encode() + b"\n"

    def make(self, name: str) -> None:
        self._states[name] = ("created", "Created")

    def start(self, name: str) -> None:
        self._states[name] = ("running", "Up 1 second (unhealthy)")

    def end(self, name: str) -> None:
        self._states[name] = ("exited", "Exited (137) Less than a second ago")

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.socket.unlink(missing_ok=True)
        self._thread.join(PATIENCE)


def may_contain() -> bool:
    """Tell if this process is root with the rights for mounts, networks and control groups of containers."""
    held = int(re.findall(r"^CapEff:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)[0], 16)
    needed = (1 << CAP_NET_ADMIN) | (1 << CAP_SYS_ADMIN)
    return os.geteuid() == 0 and held & needed == needed and os.access("/sys/fs/cgroup", os.W_OK)


@pytest.fixture(params=[Recorded, *([Dockerd] if may_contain() else [])])
def engine(request: pytest.FixtureRequest, home: Home) -> Iterator[Engine]:
    made: Engine = request.param(home)
    yield made
    if made.socket.exists():
        made.stop()


def until_healthy_or_not(check: Check, engine: Engine, **args: Any) -> Any:
    """Wait until the engine has found a container unhealthy, and return the check's result."""
    end = time.monotonic() + PATIENCE
    while (found := check("docker", socket=str(engine.socket), **args)).metrics.get("unhealthy") != 1:
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found


def test_containers(engine: Engine, checking: Any) -> None:
    """The check reports containers that are made, started, unhealthy and ended, and then a missing engine."""
    check: Check = checking([engine.socket])
    where = {"socket": str(engine.socket)}
    found = check("docker", **where)
    assert (found.status, found.summary) == ("ok", f"version {engine.version}, 0 containers running, 0 stopped"), found
    for name in ("web-1", "spare"):
        engine.make(name)
    found = check("docker", warn="1", **where)
    assert (found.status, found.metrics["stopped"], found.metrics["running"]) == ("warning", 2, 0), found
    engine.start("web-1")
    found = until_healthy_or_not(check, engine)
    assert (found.status, found.summary) == ("critical", "web-1 is unhealthy")
    assert (found.metrics["running"], found.metrics["stopped"]) == (1, 1)
    found = check("docker", ignore=["web-*"], containers=["web-*"], **where)
    assert (found.status, found.summary) == ("ok", f"version {engine.version}, 1 container running, 1 stopped"), found
    engine.end("web-1")
    found = check("docker", containers=["web-*", "mail"], **where)
    assert (found.status, found.summary) == ("critical", "web-1 is exited, there is no container mail"), found
    engine.stop()
    found = check("docker", **where)
    assert (found.status, found.metrics) == ("critical", {}), found
    found = checking()("docker", **where)
    assert (found.status, found.document["reason"]) == ("unknown", "denied"), found
