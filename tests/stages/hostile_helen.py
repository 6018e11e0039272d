"""Serves HTTP as it is told to, in place of a Helen, and keeps what is sent to it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HostileHelen:
    """Answers GETs with documents by "GET /path" in `answers`, and everything else with {}. `got`: bodies by "POST
    /path".
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.got: dict[str, list[Any]] = {}
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def hostile_helen() -> Iterator[HostileHelen]:
    helen = HostileHelen()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            helen.got.setdefault(f"POST {self.path}", []).append(json.loads(body or b"null"))
            self._answer("POST")

        def _answer(self, method: str) -> None:
            text = json.dumps(helen.answers.get(f"{method} {self.path.partition('?')[0]}", {})).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    helen.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield helen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
