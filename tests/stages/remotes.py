"""Runs real receivers on loopback, in threads: an HTTP server that answers as it is told, and a mail server."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from patience import Patience

PATIENCE = 60.0

Answer = tuple[int, dict[str, str], bytes]


def wait_for(look: Callable[[], Any], what: str) -> Any:
    bound = Patience(PATIENCE)
    while not (found := look()):
        assert bound.lasts(), f"no {what}"
        time.sleep(0.01)
    return found


class Receiver:
    """Gives `answers` one after the other, the last one for ever; `got` is (path, headers, JSON) of each request."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [(200, {}, b"taken")]
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.slow = 0.0
        self.raw: bytes | None = None  # instead of an answer
        self._end = threading.Event()

    def __enter__(self) -> Receiver:
        outer = self

        class Requests(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.got.append((self.path, headers, json.loads(body)))
                outer._end.wait(outer.slow)
                if outer.raw is not None:
                    self.wfile.write(outer.raw)
                    return
                status, more, words = outer.answers[0] if len(outer.answers) == 1 else outer.answers.pop(0)
                self.send_response(status)
                for name, value in {"content-length": str(len(words)), **more}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(words)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                """Ignore a client that hung up."""

        self._server = Quiet(("127.0.0.1", 0), Requests)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()

    def documents(self) -> list[Any]:
        return [document for _, _, document in self.got]


class Sink:
    """Is a mail server: `mails` are (sender, recipients, content). `says` replaces its answer to a verb."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, list[str], str]] = []
        self.says: dict[str, str] = {}
        self._open: list[socket.socket] = []

    def __enter__(self) -> Sink:
        outer = self

        class Conversation(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                outer._open.append(self.connection)
                sender, to = "", []
                self.say("220 sink ready")
                for line in self.rfile:
                    verb, _, rest = line.decode().strip().partition(" ")
                    verb = verb.upper()
                    if verb == "MAIL":
                        sender = rest.partition(":<")[2].partition(">")[0]
                    if verb == "RCPT":
                        to.append(rest.partition(":<")[2].partition(">")[0])
                    if verb == "DATA" and "DATA" not in outer.says:
                        self.say("354 go on")
                        lines = iter(self.rfile.readline, b".\r\n")
                        outer.mails.append((sender, to, b"".join(lines).decode()))
                        self.say(outer.says.get("END", "250 kept as number 7"))
                        continue
                    usual = {"QUIT": "221 bye", "EHLO": "250 sink"}.get(verb, "250 fine")
                    self.say(outer.says.get(f"{verb} {rest}", outer.says.get(verb, usual)))
                    if verb == "QUIT":
                        return

            def say(self, words: str) -> None:
                if words:
                    self.wfile.write(words.encode() + b"\r\n")

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Ignore a client that hung up."""

        self._server = Server(("127.0.0.1", 0), Conversation)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
