"""Call a running Helen's HTTP API: over STATE/control.sock, or over TCP with a token.

Calls block, and use the standard library alone. Every failure is a click error with a sentence in it and the exit
status of docs/commands.rst.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import click

from helen.cli.base.failures import Failed, Missing, Unusable

CONNECT_SECONDS = 10.0
UPGRADE_SECONDS = 25.0  # of silence: an agent has 15 to answer


class Event(NamedTuple):
    """Hold one event of a stream. Without `data` it only says how far the stream has come."""

    id: str | None
    kind: str
    data: Any


class _OverSocket(http.client.HTTPConnection):
    """Speak HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket by way of its open folder."""
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)  # a path of more than 107 bytes fits no socket
        try:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class Client:
    """Call one Helen, named by its state directory or by a URL with a token.

    Each method raises Failed if Helen can't be reached or refuses, Unusable for a value that it can't use, and Missing
    for a thing that it doesn't know. `patience` is in seconds of silence, from the request or the last byte on.
    `most_bytes` is the size of an answer, above which it is refused; None is any.
    """

    most_bytes: int | None = None

    def __init__(self, state: Path | None, url: str | None = None, token: str | None = None) -> None:
        if state is None and url is None:
            raise click.UsageError("no Helen is named: give --state DIR (or HELEN_STATE), or --url with a token")
        self.state = state
        self.url = _checked(url) if url else None
        self._token = (token or "").strip()

    def get(self, path: str, patience: float = CONNECT_SECONDS) -> Any:
        return self._answer(self._send("GET", path, patience=patience))

    def post(
        self, path: str, body: Any = None, patience: float = CONNECT_SECONDS, more: Mapping[str, str] | None = None
    ) -> Any:
        return self._answer(self._send("POST", path, body, patience, more))

    def get_tagged(self, path: str) -> tuple[Any, str]:
        """Return an answer and its ETag."""
        response = self._send("GET", path)
        return self._answer(response), response.headers.get("etag", "")

    def put(self, path: str, body: Any, tag: str = "", patience: float = CONNECT_SECONDS) -> Any:
        """Replace a document. With the ETag of the replaced one it is refused if that has changed meanwhile."""
        return self._answer(self._send("PUT", path, body, patience, {"if-match": tag} if tag else None))

    def is_there(self) -> bool:
        """Return True if Helen answers another request: a proxy that finds none behind it does not count."""
        try:
            with self._send("GET", "/livez") as response:
                return response.status < 500
        except Failed:
            return False

    def stream(self, path: str, body: Any, patience: float) -> Iterator[dict[str, Any]]:
        """Yield the lines of JSON of an answer, to a GET if there is no body; `patience` seconds count for each line.

        Raises Failed if the connection breaks before the end.
        """
        response = self._send("GET" if body is None else "POST", path, body, patience)
        if response.status >= 400:
            self._answer(response)
        try:
            with response:
                for line in response:
                    yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(f"the connection to Helen broke before its answer was complete: {error}") from error

    def events(self, path: str, last: str | None, patience: float) -> Iterator[Event]:
        """Yield events from after the id `last` on, until the stream breaks off; `patience` is in seconds."""
        headers = {"accept": "text/event-stream"} | ({"last-event-id": last} if last is not None else {})
        response = self._send("GET", path, None, patience, headers)
        if response.status >= 400:
            self._answer(response)
        with contextlib.suppress(OSError, http.client.HTTPException), response:
            yield from read_events(response)

    def upgrade(self, path: str, body: Any, protocol: str) -> tuple[socket.socket, bytes]:
        """Return the connection as a stream of bytes, and those that came with the answer `101`.

        Raises Failed if Helen refuses.
        """
        connection = self._connect()
        more = {"connection": "upgrade", "upgrade": protocol}
        response = self._send("POST", path, body, UPGRADE_SECONDS, more, connection)
        if response.status != 101:
            self._answer(response)
            raise Failed(f"Helen answers a request for {protocol} with status {response.status}: is it an older one?")
        stream = connection.sock
        assert stream is not None
        stream.setblocking(False)
        with contextlib.suppress(OSError):  # nothing is there yet
            return stream, response.fp.read1() or b""
        return stream, b""

    def _send(
        self, method: str, path: str, body: Any = None, patience: float = CONNECT_SECONDS,
        more: Mapping[str, str] | None = None, connection: http.client.HTTPConnection | None = None,
    ) -> http.client.HTTPResponse:  # fmt: skip
        connection = connection or self._connect()
        headers = {"accept": "application/json", "connection": "close"} | dict(more or {})
        if self._token and self.url is not None:
            headers["authorization"] = f"Bearer {self._token}"
        data, is_connected = None if body is None else json.dumps(body).encode(), False
        try:
            connection.connect()
            is_connected = True
            assert connection.sock is not None
            connection.sock.settimeout(patience)
            connection.request(method, path, data, headers)
            return connection.getresponse()
        except Exception as error:
            connection.close()
            failed = self._failed(error, patience)
            if isinstance(failed, Failed):
                failed.is_unanswered = is_connected
            raise failed from error

    def _failed(self, error: Exception, patience: float) -> Exception:
        """Return the error for a request that got no answer."""
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return Failed(self._not_running())
        if isinstance(error, PermissionError):
            return Failed(f"{self.state} is not yours: run this as the user that Helen runs as, or with sudo")
        if isinstance(error, TimeoutError):
            return Failed(f"Helen did not answer within {patience:g} s: its log may say what keeps it busy")
        if isinstance(error, OSError | ValueError | http.client.HTTPException):
            return Failed(f"Helen can't be reached: {error}")
        return error

    def _connect(self) -> http.client.HTTPConnection:
        if self.url is None:
            assert self.state is not None
            return _OverSocket(self.state.absolute() / "control.sock")
        host, port = self.url.hostname or "localhost", self.url.port
        if self.url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS)
        return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)

    def _not_running(self) -> str:
        if self.url is not None:
            return f"nothing answers at {self.url.geturl()}: does a Helen run there that was started with --web?"
        return f"no Helen runs on {self.state}: start it with `twistd -n helen --state {self.state}`"

    def _answer(self, response: http.client.HTTPResponse) -> Any:
        try:
            raw = response.read() if self.most_bytes is None else response.read(self.most_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            broken = Failed(f"the connection to Helen broke before its answer was complete: {error}")
            broken.is_unanswered = True
            raise broken from error
        if self.most_bytes is not None and len(raw) > self.most_bytes:
            response.close()
            raise Failed(f"Helen's answer has more than {self.most_bytes} bytes: ask for less")
        try:
            document = json.loads(raw)
        except ValueError as error:
            said = f"Helen's answer, with status {response.status}, is no JSON: {raw[:200]!r}"
            raise _with_status(Failed(said), response.status) from error
        if response.status < 400:
            return document
        problem = document if isinstance(document, dict) else {}
        if response.status == 401 and self.url is not None:
            wrong = "this Helen doesn't know that --token" if self._token else "Helen wants a token"
            said = f"{wrong}: give --token (or HELEN_TOKEN); it lies in STATE/web.token on Helen's machine"
            raise _with_status(Failed(said), 401, problem)
        of_prometheus = problem.get("error")  # its form of a fault, which its routes have
        detail = problem.get("detail") or problem.get("title") or of_prometheus or f"status {response.status}"
        if response.status == 400 and problem.get("title") == "bad request":
            raise Unusable(detail)
        if response.status == 404:
            raise Missing(detail)
        raise _with_status(Failed(detail), response.status, problem)


def _with_status(failed: Failed, status: int, problem: Mapping[str, Any] | None = None) -> Failed:
    failed.status = status
    failed.title = str((problem or {}).get("title", ""))
    return failed


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Parse server-sent events, as far as Helen uses them. An incomplete one at the end is left out."""
    event_id, kind, data = None, "", ""
    for line in lines:
        name, _, value = line.decode("utf-8", "replace").rstrip("\n").partition(": ")
        if name == "id":
            event_id = value
        elif name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not name:
            yield Event(event_id, kind, json.loads(data) if data else None)
            event_id, kind, data = None, "", ""


def _checked(url: str) -> SplitResult:
    """Return a URL's parts; raises BadParameter unless it is http://HOST:PORT, or https."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise click.BadParameter(
            f"{url!r}: write http://HOST:PORT, for example http://127.0.0.1:4167", param_hint="--url"
        )
    return parts
