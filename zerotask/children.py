"""Child processes in which a node's functions run, each doing one piece of work at a time.

A child is kept for further work, and replaced after CALLS of it. At its time limit, or when its task is cancelled, it
is killed with its whole process group; a child that dies costs the attempt it was working on and nothing else. The
node's own process never runs a user's function and never waits.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from attrs import frozen
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorProcess
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from zerotask import errors
from zerotask.child import ANSWERS, HEAD
from zerotask.errors import TaskFailed
from zerotask.functions import LoadError
from zerotask.jsonrpc import MAX_TEXT

CALLS = 10_000  # of one child, so that what leaks does not leak for ever
LOAD_WAIT = 60.0  # seconds in which the modules have to be imported; they do not count for the time limit
TIME_LIMIT_MOST = 2_000_000.0  # seconds; what a timer takes, longer than any task may run

Tell = Callable[[Any, dict[str, Any]], None]
Introduced = Callable[[dict[str, dict[str, Any]] | None, str], None]


@frozen
class Work:
    """A claimed task."""

    id: str
    method: str
    params: list[Any] | dict[str, Any]
    attempt: int
    time_limit: float


class Children:
    """As many children as there is work at once; the node sees to it that this is bounded."""

    def __init__(self, reactor: Any, modules: list[str], with_entry_points: bool) -> None:
        self._reactor = reactor
        flags = [word for name in modules for word in ("--module", name)]
        self._command = [
            sys.executable,
            "-P",
            "-m",
            "zerotask.child",
            *flags,
            *(["--entry-points"] * with_entry_points),
        ]
        self._idle: list[_Child] = []
        self._busy: dict[str, _Child] = {}
        self._all: set[_Child] = set()

    def load(self) -> Deferred[dict[str, dict[str, Any]]]:
        """Start the first child; the methods it serves, with their policies. LoadError if there are none."""
        loaded: Deferred[dict[str, dict[str, Any]]] = Deferred()

        def introduced(functions: dict[str, dict[str, Any]] | None, trouble: str) -> None:
            if not loaded.called:
                loaded.callback(functions) if functions else loaded.errback(LoadError(trouble))

        self._idle.append(self._spawn(introduced))
        return loaded

    def run(self, work: Work, tell: Tell) -> Deferred[Any]:
        """The function's result; TaskFailed for whatever else becomes of it."""
        child = self._idle.pop() if self._idle else self._spawn()
        self._busy[work.id] = child
        done = child.work(work, tell)
        return done.addBoth(self._done, work, child)

    def _done(self, result: Any, work: Work, child: _Child) -> Any:
        del self._busy[work.id]
        if child.alive and child.calls < CALLS:
            self._idle.append(child)
        else:
            child.retire()
        return result

    def cancel(self, task_id: str) -> None:
        child = self._busy.get(task_id)
        if child is not None:
            child.kill(TaskFailed(errors.CANCELLED, "cancelled on request", retry=False))

    def stop(self) -> Deferred[Any]:
        """Kill all; fires when they are gone."""
        for child in list(self._all):
            child.kill(TaskFailed(errors.CHILD_DIED, "the node is stopping"))
        return DeferredList([child.gone for child in self._all])

    def _spawn(self, introduced: Introduced = lambda functions, trouble: None) -> _Child:
        child = _Child(self._reactor, introduced)
        self._all.add(child)
        child.gone.addCallback(lambda _: self._forget(child))
        IReactorProcess(self._reactor).spawnProcess(
            child, self._command[0], self._command, env=os.environ, childFDs={0: "w", 1: 2, 2: 2, ANSWERS: "r"}
        )
        return child

    def _forget(self, child: _Child) -> None:
        self._all.discard(child)
        with suppress(ValueError):
            self._idle.remove(child)


class _Child(ProcessProtocol):
    """One process."""

    _log = Logger()

    def __init__(self, reactor: Any, introduced: Introduced) -> None:
        self.gone: Deferred[None] = Deferred()
        self.alive, self.calls = True, 0
        self._reactor, self._introduced = reactor, introduced
        self._buffer = bytearray()
        self._is_loaded = False
        self._limit = 0.0
        self._done: Deferred[Any] | None = None
        self._tell: Tell = _tell_nobody
        self._timer: Any = None
        self._why: TaskFailed | None = None  # why it was killed

    def connectionMade(self) -> None:
        self._limit_to(LOAD_WAIT, f"its functions were not loaded within {LOAD_WAIT:g} s")

    def _limit_to(self, seconds: float, said: str) -> None:
        self._free_timer()
        self._timer = self._reactor.callLater(seconds, self.kill, TaskFailed(errors.TIME_LIMIT, said))

    def _free_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def work(self, work: Work, tell: Tell) -> Deferred[Any]:
        self.calls += 1
        self._done, self._tell = Deferred(), tell
        self._limit = min(work.time_limit, TIME_LIMIT_MOST)
        piece = {"id": work.id, "method": work.method, "params": work.params, "attempt": work.attempt}
        text = msgspec.json.encode(piece)
        self.transport.writeToChild(0, HEAD.pack(len(text)) + text)
        if self._is_loaded:
            self._begin()
        return self._done

    def _begin(self) -> None:
        self._limit_to(self._limit, f"no end within the time limit of {self._limit:g} s; its process was killed")

    def kill(self, why: TaskFailed) -> None:
        """With all that it started."""
        if not self.alive:
            return
        self.alive, self._why = False, why
        pid = self.transport.pid
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def retire(self) -> None:
        """No more work: it ends by itself."""
        if self.alive:
            self.alive = False
            self.transport.closeChildFD(0)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= HEAD.size:
            (size,) = HEAD.unpack_from(self._buffer)
            if size > 2 * MAX_TEXT:
                self.kill(TaskFailed(errors.CHILD_DIED, "its process wrote what is no answer", retry=False))
                return
            if len(self._buffer) < HEAD.size + size:
                return
            message = msgspec.json.decode(bytes(self._buffer[HEAD.size : HEAD.size + size]))
            del self._buffer[: HEAD.size + size]
            self._said(message)

    def _said(self, message: dict[str, Any]) -> None:
        if "functions" in message or "trouble" in message:
            self._is_loaded = True
            self._free_timer()
            self._introduced(message.get("functions"), message.get("trouble", ""))
            if self._done is not None:
                self._begin()
        elif "status" in message:
            self._tell(message["status"], message["detail"])
        elif "error" in message:
            error = message["error"]
            self._end(Failure(TaskFailed(error["code"], error["message"], error.get("data"), message["retry"])))
        else:
            self._end(message.get("result"))

    def _end(self, result: Any) -> None:
        self._free_timer()
        done, self._done, self._tell = self._done, None, _tell_nobody
        if done is not None:
            done.callback(result)

    def processEnded(self, reason: Failure) -> None:
        self.alive = False
        self._introduced(None, "the process that loads the functions ended; its words are above")
        why = self._why or TaskFailed(errors.CHILD_DIED, f"its process ended before it answered: {reason.value}")
        self._end(Failure(why))
        self.gone.callback(None)


def _tell_nobody(status: Any, detail: dict[str, Any]) -> None:
    """Words that come after the end."""
