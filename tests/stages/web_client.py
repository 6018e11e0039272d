"""Is a client of the HTTP API for tests: answers are read whole, over TCP with any headers and over the Unix socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

from helen_running import Running


class Answer:
    """Holds a response, read whole."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.kind = response.headers["content-type"]
        self.raw = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def problem(self) -> tuple[int, str, str]:
        """Return the fault; its form is checked as well."""
        assert self.kind == "application/problem+json"
        assert self.json["status"] == self.status
        assert self.json.keys() == {"type", "title", "status", "detail"}
        return self.status, self.json["title"], self.json["detail"]


class Web:
    """Asks Helen over TCP, with any headers."""

    def __init__(self, fleet: Running) -> None:
        self.host, self.port = fleet.run["web"].split(":")
        self.token = (fleet.state / "web.token").read_text().strip()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.host, int(self.port), timeout=60)
        named = {"authorization": f"Bearer {self.token}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        try:
            connection.request(method, path, body, named)
            return Answer(connection.getresponse())
        finally:
            connection.close()


@contextlib.contextmanager
def control(fleet: Running) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    connection.sock.connect(str(fleet.state / "control.sock"))
    try:
        yield connection
    finally:
        connection.close()


def ask(fleet: Running, method: str, path: str, body: Any = None) -> Answer:
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with control(fleet) as connection:
        connection.request(method, path, raw)
        return Answer(connection.getresponse())
