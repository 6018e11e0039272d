"""Holds a journal that is sealed at once, forwards on a reactor of the test's own, and receivers that obey."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attrs import frozen
from cramjam import snappy
from journal_running import Running
from patience import Patience
from telling import DirectStore, Pump
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.python.failure import Failure

from helen.forwards.forwarder import Forwarder
from helen.forwards.forwarding import Forwarding
from helen.forwards.place import KEY
from helen.forwards.records import Changed, Figure, Measured
from helen.forwards.runtime import Runtime
from helen.journal.limits import Limits
from helen.journal.values import Entry, Origin
from helen.storage import agent_rows

PATIENCE = 30.0  # seconds
NOW = 1_800_000_000.0

Reply = tuple[int, dict[str, str], bytes]


def measured(at: int, value: float = 1.0, agent: str = "web-1", check: str = "disk", **more: Any) -> Measured:
    figure = Figure("used", value, more.get("unit", "B"), more.get("kind", "gauge"), more.get("labels", {}))
    return Measured(at, agent, check, NOW + at, round((NOW + at) * 1_000), more.get("status", 0), (figure,))


def changed(at: int, agent: str = "web-1", check: str = "disk", status: int = 2) -> Changed:
    when = round((NOW + at) * 1_000)
    return Changed(at, agent, check, NOW + at, when, status, 0, "hard", "timeout", "3 of 3", "it is full")


@frozen
class Request:
    path: str
    headers: dict[str, str]
    body: bytes  # uncompressed


class Receiver:
    """Answers each request as `reply(request)` says; `got` has those that came, `taken` those answered by a 2xx."""

    def __init__(self) -> None:
        self.reply: Callable[[Request], Reply | None] = lambda request: (200, {}, b"")
        self.got: list[Request] = []
        self.taken: list[Request] = []
        self.ended = threading.Event()

    def __enter__(self) -> Receiver:
        outer = self

        class Requests(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.answer(self)

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
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = handler.rfile.read(int(headers["content-length"]))
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        elif headers.get("content-encoding") == "snappy":
            body = bytes(snappy.decompress_raw(body))
        request = Request(handler.path, headers, body)
        self.got.append(request)
        reply = self.reply(request)
        if reply is None:  # no answer at all
            self.ended.wait(PATIENCE)
            return
        status, more, words = reply
        if 200 <= status < 300:
            self.taken.append(request)
        handler.send_response(status)
        for name, value in {"content-length": str(len(words)), **more}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(words)

    def lines(self) -> list[str]:
        """Return all lines that were taken, in their order."""
        return [line for request in self.taken for line in request.body.decode().splitlines()]


class LineReceiver:
    """Is a plain socket that reads each connection to its end; `reads` says whether it does, and how."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.manner = "whole"  # reset: closes with bytes unread; silent: never reads, nor closes
        self.connections = 0
        self.ended = threading.Event()

    def __enter__(self) -> LineReceiver:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.ended.set()
        self._thread.join(PATIENCE)
        self._socket.close()

    def _serve(self) -> None:
        held = []
        while not self.ended.is_set():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            self.connections += 1
            connection.settimeout(PATIENCE)
            if self.manner == "silent":
                held.append(connection)
                continue
            with connection:
                if self.manner == "reset":
                    connection.recv(1)
                    continue
                whole = b""
                while part := connection.recv(65_536):
                    whole += part
                self.bodies.append(whole)
        for each in held:
            each.close()

    def lines(self) -> list[str]:
        return [line for body in self.bodies for line in body.decode().splitlines()]


class Stage:
    """Holds one state directory; `start` and `kill` are those of a Helen on it."""

    def __init__(self, pump: Pump, folder: Path, **limits: Any) -> None:
        self.pump, self.folder = pump, folder
        more = {"results_per_segment": 50, "segment_seconds": 0.02, "group_seconds": 0.001} | limits
        self.journal = Running(folder, limits=Limits(**more)).open()
        self.store = DirectStore(folder)
        self.now = NOW
        self.labels: dict[str, dict[str, str]] = {"web-1": {"role": "web"}, "db-1": {"role": "db"}}
        self.count = self.sequence = 0
        self.forwarding = self._made()

    def _made(self) -> Forwarding:
        runtime = Runtime(self.pump.reactor, lambda: self.now, lambda: 0.5, maybeDeferred)
        return Forwarding(
            runtime, self.folder, self.store, self.journal.journal, lambda: self.labels, self.newest  # type: ignore[arg-type]
        )  # fmt: skip

    def newest(self) -> int:
        return max((record.at for record in self.journal.records), default=0)

    def forward(self, name: str) -> Forwarder:
        return self.forwarding.running[name]

    def write(self, text: str) -> None:
        """Put a forwards.toml into force, as a client does."""
        wrote = self.pump.run(Deferred.fromCoroutine(self.forwarding.config_file.write(text, None)))
        if isinstance(wrote, Failure):
            wrote.raiseException()

    def start(self, text: str | None = None) -> None:
        """Start as Helen does; `text` is written before."""
        if text is not None:
            (self.folder / "forwards.toml").write_text(text)
        kept = self.pump.run(self.store.call(agent_rows.everything))
        self.pump.run(Deferred.fromCoroutine(self.forwarding.start(kept)))
        self.forwarding.begin()

    def kill(self) -> None:
        """End without a word: nothing is kept that was not durable already."""
        for each in self.forwarding.running.values():
            each._keep = lambda name, place: Deferred()
            each.break_off()
        self.forwarding.config_file.stop()
        self.forwarding = self._made()

    def stop(self) -> None:
        self.pump.run(self.forwarding.stop())
        self.forwarding = self._made()

    def close(self) -> None:
        self.pump.run(self.forwarding.stop())
        self.journal.journal.close()

    def results(self, many: int, agent: str = "web-1", check: str = "disk", origin: Origin = Origin.SCHEDULED) -> None:
        """Store so many results of one metric `used`, each a second after the last, and wait until they are sealed."""
        for _ in range(many):
            self.count += 1
            self.result(agent, check, origin, [{"name": "used", "value": self.count, "unit": "B"}])
        self.sealed()

    def result(self, agent: str, check: str, origin: Origin, metrics: list[dict[str, Any]], **more: Any) -> None:
        ended = NOW + self.count
        document = {"status": "ok", "summary": "fine", "started": ended - 0.5, "took_ms": 500.0, "metrics": metrics}
        blob = json.dumps(document | more).encode()
        self.sequence += 1
        taken = self.journal.journal.append(Entry(agent, check, None, "s1", self.sequence, origin, ended + 0.25, blob))
        assert taken

    def transition(self, agent: str = "web-1", check: str = "disk", status: str = "critical") -> None:
        """Store a transition and wait until it is sealed."""
        was = {"status": "ok", "kind": "hard", "since": NOW, "reason": None, "attempt": 0}
        document = {"number": 1, "at": NOW + self.count + 0.3, "was": was, "now": was | {"status": status},
                    "why": "3 of 3", "summary": "it is full"}  # fmt: skip
        self.journal.journal.change("transition", document, agent, check)
        self.sealed()

    def sealed(self) -> None:
        self.journal.until(lambda: not self.journal.journal.has_undelivered)
        newest = self.newest()
        self.journal.until(lambda: self.journal.journal.sealed.at >= newest)

    def place(self, name: str) -> dict[str, Any] | None:
        """Return the place of a forward that the store has."""
        text = self.pump.run(self.store.call(agent_rows.get, KEY + name))
        return None if text is None else json.loads(text)

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Let the reactor turn until something has happened; its value."""
        bound = Patience(PATIENCE)
        while not (found := happened()):
            assert bound.lasts(), f"no {what}"
            self.pump.reactor.iterate(0.01)
        return found

    def turn(self, times: int = 20) -> None:
        for _ in range(times):
            self.pump.reactor.iterate(0.01)

    def until_even(self, name: str) -> None:
        """Wait until a forward has gone through all that is sealed, and its place is kept."""
        self.until(lambda: self.forward(name).place.at >= self.journal.journal.sealed.at, f"end of {name}")
