"""Runs a worker of Scale0 without sockets: its connection is played by hand, and so is the clock."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from scale0.endpoint.effects import State
from scale0.wire import options as opt
from scale0.worker import Request, Worker

Told = tuple[str, dict[str, Any], tuple[bytes, ...]]


class Line:
    """Stands for the connection: it notes what is told, as long as it has room."""

    def __init__(self) -> None:
        self.state, self.room, self.calls = State.ACTIVE, True, []  # type: ignore[var-annotated]
        self.told: list[Told] = []
        self.negotiation = SimpleNamespace(services=[], interval=2.5, version="7")

    def tell(self, command: str, options: dict[str, Any], body: Sequence[bytes] = ()) -> bool:
        if self.room:
            self.told.append((command, options, tuple(body)))
        return self.room

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def ready_sent(self) -> None:
        self.calls.append(f"ready after {len(self.told)}")


class WorkerStage:
    """Holds a worker, its line, the requests that it was asked to answer, and what it was called back with."""

    def __init__(self, **options: Any) -> None:
        self.clock, self.line = Clock(), Line()
        self.asked: list[Request] = []
        self.running: list[Deferred[Any]] = []
        self.cancelled: list[Any] = []
        self.withdrawn: list[Any] = []
        options.setdefault("superseded", lambda *holder: self.withdrawn.append(holder))
        self.worker = Worker(self.clock, "w", ["tcp://127.0.0.1:1"], self.answer, **options)
        self.worker.connection = self.line  # type: ignore[assignment]

    def answer(self, request: Request) -> Any:
        self.asked.append(request)
        self.running.append(Deferred(self.cancelled.append))
        return self.running[-1]

    def hear(self, number: str = "1", **options: Any) -> None:
        self.worker._received("REQUEST", opt.Request(number, "tea", **options), (b"cup",))

    def take(self) -> list[Told]:
        told, self.line.told = self.line.told, []
        return told

    def become(self, state: State, why: str = "", code: int = 0) -> None:
        self.line.state = state
        self.worker._changed(state, why, code)
