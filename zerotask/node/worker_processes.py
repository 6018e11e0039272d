"""Starts, feeds and ends the processes in which a node's functions run.

Each works on one task at a time; it is kept for further tasks, and replaced after CALLS of them. At its time limit, or
when its task is cancelled, it is killed with its whole process group. A process that dies costs the attempt that it was
working on and nothing else. The node's own process never runs a user's function and never waits.
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
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from zerotask import errors
from zerotask.errors import TaskFailed
from zerotask.functions import LoadError
from zerotask.node.worker_process import ANSWERS, HEAD
from zerotask.wire.jsonrpc import MAX_TEXT

CALLS = 10_000  # of one process, so that a function that leaks memory does not leak for ever
LOAD_WAIT = 60.0  # seconds in which the modules have to be imported; the time limit begins after them
LEFT_WAIT = 0.5  # seconds in which the pipes of a dead process close once its group is killed
TIME_LIMIT_MOST = 2_000_000.0  # seconds; the longest time of a timer

Tell = Callable[[Any, dict[str, Any]], None]
Loaded = Callable[[dict[str, dict[str, Any]] | None, str], None]  # the functions with their policies, or why none


@frozen
class Work:
    """Describes a claimed task. `time_limit`: seconds. `client` submitted it, with the key that is called `key`."""

    id: str
    method: str
    params: list[Any] | dict[str, Any]
    attempt: int
    time_limit: float
    client: str = ""
    key: str = ""


class WorkerProcesses:
    """Runs as many processes as there are tasks at once; the node's slots bound their number."""

    def __init__(self, reactor: Any, modules: list[str], with_entry_points: bool) -> None:
        self._reactor = reactor
        flags = [word for name in modules for word in ("--module", name)]
        self._command = [
            sys.executable,
            "-P",
            "-m",
            "zerotask.node.worker_process",
            *flags,
            *(["--entry-points"] * with_entry_points),
        ]
        self._idle: list[_WorkerProcess] = []
        self._busy: dict[str, _WorkerProcess] = {}
        self._all: set[_WorkerProcess] = set()

    def load(self) -> Deferred[dict[str, dict[str, Any]]]:
        """Start the first process; the Deferred fires with its methods and their policies, {"add": {"priority": 9}}.

        It fails with LoadError if the functions cannot be loaded.
        """
        loaded: Deferred[dict[str, dict[str, Any]]] = Deferred()

        def on_loaded(functions: dict[str, dict[str, Any]] | None, trouble: str) -> None:
            if not loaded.called:
                loaded.callback(functions) if functions else loaded.errback(LoadError(trouble))

        self._idle.append(self._spawn(on_loaded))
        return loaded

    def run(self, work: Work, tell: Tell) -> Deferred[Any]:
        """Run a task; the Deferred fires with the function's result, or fails with TaskFailed.

        `tell(status, detail)` is called with each status that the function reports.
        """
        process = self._idle.pop() if self._idle else self._spawn()
        self._busy[work.id] = process
        done = process.work(work, tell)
        return done.addBoth(self._done, work, process)

    def _done(self, result: Any, work: Work, process: _WorkerProcess) -> Any:
        del self._busy[work.id]
        if process.alive and process.calls < CALLS:
            self._idle.append(process)
        else:
            process.retire()
        return result

    def cancel(self, task_id: str) -> None:
        """Kill the process that works on a task, if one does."""
        process = self._busy.get(task_id)
        if process is not None:
            process.kill(TaskFailed(errors.CANCELLED, "cancelled on request", retry=False))

    def stop(self) -> Deferred[Any]:
        """Kill all processes; the Deferred fires when they have ended."""
        for process in list(self._all):
            process.kill(TaskFailed(errors.CHILD_DIED, "the node is stopping"))
        return DeferredList([process.gone for process in self._all])

    def _spawn(self, on_loaded: Loaded = lambda functions, trouble: None) -> _WorkerProcess:
        process = _WorkerProcess(self._reactor, on_loaded)
        self._all.add(process)
        process.gone.addCallback(lambda _: self._forget(process))
        self._reactor.spawnProcess(
            process, self._command[0], self._command, env=os.environ, childFDs={0: "w", 1: 2, 2: 2, ANSWERS: "r"}
        )
        return process

    def _forget(self, process: _WorkerProcess) -> None:
        self._all.discard(process)
        with suppress(ValueError):
            self._idle.remove(process)


class _WorkerProcess(ProcessProtocol):
    """Talks to one process, and limits its time."""

    transport: Any  # of IProcessTransport, which mypy reads with `self` as a first argument of its methods
    _log = Logger()

    def __init__(self, reactor: Any, on_loaded: Loaded) -> None:
        self.gone: Deferred[None] = Deferred()
        self.alive, self.calls = True, 0
        self._reactor, self._on_loaded = reactor, on_loaded
        self._buffer = bytearray()
        self._is_loaded = False
        self._limit = 0.0
        self._done: Deferred[Any] | None = None
        self._tell: Tell = _ignore
        self._timer: Any = None
        self._pid = 0
        self._why: TaskFailed | None = None  # the reason for which it was killed

    def connectionMade(self) -> None:
        """Start the time in which the functions have to be loaded."""
        self._pid = self.transport.pid
        self._limit_to(LOAD_WAIT, f"its functions were not loaded within {LOAD_WAIT:g} s")

    def _limit_to(self, seconds: float, message: str) -> None:
        self._free_timer()
        self._timer = self._reactor.callLater(seconds, self.kill, TaskFailed(errors.TIME_LIMIT, message))

    def _free_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def work(self, work: Work, tell: Tell) -> Deferred[Any]:
        """Send a task to the process; the Deferred fires with its result or fails with TaskFailed."""
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
        """Kill the process with all that it started; its task fails with `why`."""
        if not self.alive:
            return
        self.alive, self._why = False, why
        self._kill_group()
        pid = self.transport.pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _kill_group(self) -> None:
        """Kill all processes of the group that this one leads, once it does."""
        if self._pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    def retire(self) -> None:
        """Give it no more work; it ends by itself."""
        if self.alive:
            self.alive = False
            self.transport.closeChildFD(0)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        """Take bytes of answers."""
        self._buffer += data
        while len(self._buffer) >= HEAD.size:
            (size,) = HEAD.unpack_from(self._buffer)
            if size > 2 * MAX_TEXT:
                self.kill(TaskFailed(errors.CHILD_DIED, "its process wrote something that is no answer", retry=False))
                return
            if len(self._buffer) < HEAD.size + size:
                return
            message = msgspec.json.decode(bytes(self._buffer[HEAD.size : HEAD.size + size]))
            del self._buffer[: HEAD.size + size]
            self._answered(message)

    def _answered(self, message: dict[str, Any]) -> None:
        if "functions" in message or "trouble" in message:
            self._is_loaded = True
            self._free_timer()
            self._on_loaded(message.get("functions"), message.get("trouble", ""))
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
        done, self._done, self._tell = self._done, None, _ignore
        if done is not None:
            done.callback(result)

    def processExited(self, reason: Failure) -> None:
        """Kill what a process that died has left: processes that it forked hold its pipes open, and its end back."""
        self.alive = False
        self._kill_group()
        self._free_timer()
        self._timer = self._reactor.callLater(LEFT_WAIT, self._let_go)

    def _let_go(self) -> None:
        """Close the pipes, which a process that left the group holds open still; then Twisted tells of the end."""
        self.transport.loseConnection()
        for descriptor in (0, ANSWERS):
            self.transport.closeChildFD(descriptor)

    def processEnded(self, reason: Failure) -> None:
        """Fail its task, if it has one. Twisted has told of the exit before."""
        self._free_timer()
        self._on_loaded(None, "the process that loads the functions ended; its own output is above")
        why = self._why or TaskFailed(errors.CHILD_DIED, f"its process ended before it answered: {reason.value}")
        self._end(Failure(why))
        self.gone.callback(None)


def _ignore(status: Any, detail: dict[str, Any]) -> None:
    """Drop a status that comes after the end of the work."""
