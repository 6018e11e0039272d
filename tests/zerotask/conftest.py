"""Runs a broker without sockets, threads or time: texts go in and out, SQLite is in memory, and the clock is set by
hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.logger import LogLevel, formatEvent, globalLogPublisher

from groundwork.event import Event
from zerotask import errors
from zerotask.broker.broker import Broker
from zerotask.errors import RpcError
from zerotask.storage import schema
from zerotask.storage.database import Recovery
from zerotask.storage.task_table import SqlTaskTable
from zerotask.tasks.connections import Caller
from zerotask.tasks.ledger import Ledger
from zerotask.wire.jsonrpc import encode


class InlineStore:
    """Stands in for store.Store in the caller's own thread: jobs run at once, each in a transaction of its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.connection = schema.connect(":memory:")
        self.connection.executescript(schema.SCHEMA)
        self.ledger = Ledger(SqlTaskTable(self.connection), lambda: 0.5, encode)
        self.clock, self.pending, self.broken = clock, 0, False
        self.on_notices, self.on_trouble, self.on_damage = Event(), Event(), Event()

    def found(self) -> Recovery:
        kept = self.ledger.table
        return Recovery(kept.leases(), kept.policies())

    def write(self, job: Any, done: Any, durable: bool = True) -> None:
        if self.broken:
            done(None, RpcError(errors.STORING_FAILED, "no room"))
        else:
            self.read(job, done)

    def read(self, job: Any, done: Any, current: bool = True) -> None:
        value = error = None
        try:
            value = job(self.ledger, self.clock())
        except RpcError as refused:
            error = refused
        notices, self.ledger.notices = self.ledger.notices, []
        self.on_notices(notices, self.clock())
        done(value, error)


class Bench:
    """Holds the broker, its clock, and what it sent."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.wall_ahead = 0.0  # of the clock of tasks; a step of the wall clock changes it
        self.store = InlineStore(lambda: self.now)
        self.sent: dict[str, list[Any]] = {}
        self.published: list[Any] = []
        self.gone: set[str] = set()
        self.start()

    def start(self) -> None:
        """Start the broker, or start it again on the same store."""
        self.broker = Broker(
            self.store, self.store.found(), self._send, self._publish, self.now, self.now + self.wall_ahead
        )

    def _send(self, line: str, text: bytes) -> bool:
        if line in self.gone:
            return False
        self.sent.setdefault(line, []).append(json.loads(text))
        return True

    def _publish(self, text: bytes) -> None:
        self.published.append(json.loads(text))

    def receive(
        self, line: str, text: bytes, key: str = "", operator: bool = False, roles: tuple[str, ...] = ()
    ) -> list[Any]:
        """Hear what a connection says, and return what it is sent because of that."""
        before = len(self.sent.get(line, []))
        self.broker.receive(Caller(line, key, operator, roles=roles), text, self.now, self.now + self.wall_ahead)
        return self.sent.get(line, [])[before:]

    def ask(
        self, line: str, method: str, /, *params: Any, key: str = "", operator: bool = False,
        roles: tuple[str, ...] = (), **named: Any,
    ) -> Any:  # fmt: skip
        """Return a call's answer: the result, or (code, message, data). None while there is none."""
        request = {"jsonrpc": "2.0", "method": f"zerotask.broker.{method}", "params": named or list(params), "id": 1}
        for answer in self.receive(line, json.dumps(request).encode(), key, operator, roles):
            if isinstance(answer, dict) and answer.get("id") == 1:
                return outcome(answer)
        return None

    def code(self, line: str, method: str, /, *params: Any, **named: Any) -> int:
        answer = self.ask(line, method, *params, **named)
        assert isinstance(answer, tuple), answer
        return int(answer[0])

    def told(self, line: str) -> list[tuple[str, list[Any]]]:
        """Return the notifications that a connection was sent, with offers in bundles taken apart."""
        messages = [one for sent in self.sent.get(line, []) for one in (sent if isinstance(sent, list) else [sent])]
        return [(one["method"].rpartition(".")[2], one["params"]) for one in messages if "method" in one]

    def pass_time(self, seconds: float, step: float = 0.25, beating: tuple[str, ...] = ()) -> None:
        """Let time pass in seconds; the nodes named after their connections beat."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + step, end)
            for line in beating:
                self.ask(line, "node_status")
            self.broker.tick(self.now, self.now + self.wall_ahead)


def outcome(answer: dict[str, Any]) -> Any:
    if "error" not in answer:
        return answer["result"]
    return answer["error"]["code"], answer["error"]["message"], answer["error"].get("data")


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def log_lines():
    """Yield the formatted lines of warnings and errors."""
    lines = []

    def observe(event):
        if event["log_level"] in (LogLevel.warn, LogLevel.error):
            lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    yield lines
    globalLogPublisher.removeObserver(observe)
