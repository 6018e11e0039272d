"""Speaks to a running Helen: over STATE/control.sock, or over HTTP with a token. Blocking; the standard library alone.

Whatever goes wrong is a click error with a sentence in it and the exit status of docs/commands.rst.
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

from helen.cli.failures import Failed, Missing, Unusable

CONNECT_SECONDS = 10.0


class Event(NamedTuple):
    """One of a stream. Without `data` it only says how far the stream has come."""

    id: str | None
    kind: str
    data: Any


class _OverSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_SECONDS)
        self._path = path

    def connect(self) -> None:
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY)  # a path of more than 107 bytes fits no socket
        try:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(self.timeout)
            self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class Client:
    """One Helen. `state` or `url` says which; `token` goes with a url."""

    def __init__(self, state: Path | None, url: str | None = None, token: str | None = None) -> None:
        if state is None and url is None:
            raise click.UsageError("which Helen? Give --state DIR (or HELEN_STATE), or --url with a token")
        self.state = state
        self._url = _checked(url) if url else None
        self._token = (token or "").strip()

    def get(self, path: str) -> Any:
        return self._answer(self._send("GET", path))

    def post(
        self, path: str, body: Any = None, patience: float = CONNECT_SECONDS, more: Mapping[str, str] | None = None
    ) -> Any:
        return self._answer(self._send("POST", path, body, patience, more))

    def get_tagged(self, path: str) -> tuple[Any, str]:
        """An answer and its ETag."""
        response = self._send("GET", path)
        return self._answer(response), response.headers.get("etag", "")

    def put(self, path: str, body: Any, tag: str = "") -> Any:
        """With the tag of what is replaced it is refused if somebody else has changed that meanwhile."""
        return self._answer(self._send("PUT", path, body, more={"if-match": tag} if tag else None))

    def stream(self, path: str, body: Any, patience: float) -> Iterator[dict[str, Any]]:
        """An answer that comes in lines of JSON, to a GET if there is no body; `patience` is for each line."""
        response = self._send("GET" if body is None else "POST", path, body, patience)
        if response.status >= 400:
            self._answer(response)
        try:
            with response:
                for line in response:
                    yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(f"Helen broke off in the middle of her answer: {error}") from error

    def events(self, path: str, last: str | None, patience: float) -> Iterator[Event]:
        """A stream of events from after the id `last` on; ends when it breaks off, however it does."""
        headers = {"accept": "text/event-stream"} | ({"last-event-id": last} if last is not None else {})
        response = self._send("GET", path, None, patience, headers)
        if response.status >= 400:
            self._answer(response)
        with contextlib.suppress(OSError, http.client.HTTPException), response:
            yield from read_events(response)

    def _send(
        self, method: str, path: str, body: Any = None, patience: float = CONNECT_SECONDS,
        more: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:  # fmt: skip
        connection = self._connect()
        headers = {"accept": "application/json", "connection": "close"} | dict(more or {})
        if self._token and self._url is not None:
            headers["authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(patience)
            connection.request(method, path, data, headers)
            return connection.getresponse()
        except Exception as error:
            connection.close()
            raise self._failed(error, patience) from error

    def _failed(self, error: Exception, patience: float) -> Exception:
        """The sentence for what kept us from an answer."""
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return Failed(self._nobody())
        if isinstance(error, PermissionError):
            return Failed(f"{self.state} is not yours: run this as the user that Helen runs as, or with sudo")
        if isinstance(error, TimeoutError):
            return Failed(f"Helen did not answer within {patience:g} s: her log may say what keeps her busy")
        if isinstance(error, OSError | ValueError | http.client.HTTPException):
            return Failed(f"Helen can't be reached: {error}")
        return error

    def _connect(self) -> http.client.HTTPConnection:
        if self._url is None:
            assert self.state is not None
            return _OverSocket(self.state.absolute() / "control.sock")
        host, port = self._url.hostname or "localhost", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS)
        return http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)

    def _nobody(self) -> str:
        if self._url is not None:
            return f"nothing answers at {self._url.geturl()}: is Helen running, with --web?"
        return f"no Helen runs on {self.state}: start her with `twistd -n helen --state {self.state}`"

    def _answer(self, response: http.client.HTTPResponse) -> Any:
        try:
            raw = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"Helen broke off in the middle of her answer: {error}") from error
        try:
            document = json.loads(raw)
        except ValueError as error:
            raise Failed(f"Helen answered {response.status} with what is no JSON: {raw[:200]!r}") from error
        if response.status < 400:
            return document
        told = document if isinstance(document, dict) else {}
        if response.status == 401 and self._url is not None:
            wrong = "that --token is not this Helen's" if self._token else "Helen wants a token"
            raise _with_status(
                Failed(f"{wrong}: give --token (or HELEN_TOKEN); it lies in STATE/web.token on her machine"), 401
            )
        detail = told.get("detail") or told.get("title") or f"status {response.status}"
        if response.status == 400 and told.get("title") == "bad request":
            raise Unusable(detail)
        if response.status == 404:
            raise Missing(detail)
        raise _with_status(Failed(detail), response.status)


def _with_status(failed: Failed, status: int) -> Failed:
    failed.status = status
    return failed


def read_events(lines: Iterable[bytes]) -> Iterator[Event]:
    """Server-sent events, as far as Helen uses them. One that was cut short is not there."""
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
    """http://HOST:PORT, or https; anything else is the caller's mistake."""
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
