"""Keeps the processes that answer questions in PromQL: few at once, and each ended that takes too long.

helen.promql.answering is what they run. A process is kept for a while, since it takes half a second to start. Threads
of the reactor's pool write to them and wait for them.
"""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from twisted.internet.defer import DeferredSemaphore
from twisted.internet.threads import deferToThread

from groundwork.arrow_memory import HEAP, POOL
from helen.promql.errors import SECONDS, TimedOut, TooMuch, Unavailable
from helen.promql.wire import HEAD, MOST_FRAME, Answered

AT_ONCE = 2  # each takes a core
MOST_WAITING = 32  # more than these are told to come again: a page of panels asks so many questions at once
IDLE = 120.0  # seconds after which a process that nobody asks anything ends
COMMAND = (sys.executable, "-m", "helen.promql.answering")
NEEDS = ("promql_parser", "numpy")  # of the extra
Frames = Callable[[], Iterable[bytes]]


class Ended(Exception):
    """Says that a process ended before it answered."""


class QueryProcesses:
    """Asks questions of processes, which it starts when they are needed. `reactor` is Twisted's."""

    def __init__(self, reactor: Any, command: tuple[str, ...] = COMMAND, seconds: float = SECONDS) -> None:
        self._reactor, self._command, self._seconds = reactor, command, seconds
        self._turns = DeferredSemaphore(AT_ONCE)
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()
        self._is_stopping = False
        self._sweep: Any = None

    async def ask(self, frames: Frames) -> Answered:
        """Return the answer to a question of these frames, which are made in a thread.

        Raises Unavailable where the extra is missing or too many wait, TimedOut, and TooMuch for one that the process
        did not survive.
        """
        if not all(importlib.util.find_spec(name) for name in NEEDS):
            raise Unavailable(
                "questions in PromQL need an extra: pip install 'helen-equus[promql]' into the environment that Helen"
                " runs in"
            )
        if len(self._turns.waiting) >= MOST_WAITING:
            raise Unavailable(f"{MOST_WAITING} others wait for an answer already; ask again soon")
        answered: Answered = await self._turns.run(deferToThread, self._ask, frames)
        self._reactor_sweeps()
        return answered

    def close(self) -> None:
        """End the processes that answer no question now."""
        while self._idle:
            self._idle.pop().end()

    def stop(self) -> None:
        """End all processes, those that answer as well: Helen ends, and waits for no question."""
        self._is_stopping = True
        for process in list(self._busy):
            process.kill()
        self.close()

    def _ask(self, frames: Frames) -> Answered:
        until = time.monotonic() + self._seconds
        while True:
            if self._is_stopping:
                raise Unavailable("Helen is stopping")
            is_fresh = not self._idle
            process = _Process(self._command) if is_fresh else self._idle.pop()
            self._busy.add(process)
            if self._is_stopping:  # meanwhile
                process.kill()
            try:
                answered = process.ask(frames(), until)
            except Ended as error:
                process.end()
                if is_fresh and not self._is_stopping:
                    raise TooMuch(f"the process that answers has ended ({error}): ask for less at once") from error
                continue  # it may have ended long ago
            except BaseException:
                process.end()
                raise
            finally:
                self._busy.discard(process)
            if answered.is_last:
                process.end()
            else:
                self._idle.append(process)
            return answered

    def _reactor_sweeps(self) -> None:
        if self._sweep is not None and self._sweep.active():
            self._sweep.reset(IDLE)
        else:
            self._sweep = self._reactor.callLater(IDLE, deferToThread, self.close)


class _Process:
    """Holds one process and its pipes. Its methods block, and are for a thread."""

    def __init__(self, command: tuple[str, ...]) -> None:
        environment = os.environ | {POOL: HEAP}  # others map more than they use; Helen's own keeps what it had
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)

    def ask(self, frames: Iterable[bytes], until: float) -> Answered:
        """Write frames and return the answer. Raises Ended, and TimedOut at `until`, monotonic seconds."""
        for frame in frames:
            self._write(frame, until)
        length = int.from_bytes(self._read(HEAD, until))
        if length > MOST_FRAME:
            raise Ended("its answer is too long")
        return msgspec.msgpack.decode(self._read(length, until), type=Answered)

    def kill(self) -> None:
        """Kill the process; the thread that waits for it hears of that."""
        self._process.kill()

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def _write(self, frame: bytes, until: float) -> None:
        left = memoryview(frame)
        while left:
            self._wait([], [self._to], until)
            try:
                left = left[os.write(self._to, left[:65_536]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise Ended(f"status {self._process.wait()}") from error

    def _read(self, count: int, until: float) -> bytes:
        found = bytearray()
        while len(found) < count:
            self._wait([self._from], [], until)
            piece = os.read(self._from, min(1 << 20, count - len(found)))
            if not piece:
                raise Ended(f"status {self._process.wait()}")
            found += piece
        return bytes(found)

    def _wait(self, readable: list[int], writable: list[int], until: float) -> None:
        poll = select.poll()  # select() takes no descriptors above 1,023
        for descriptor in (*readable, *writable):
            poll.register(descriptor, select.POLLIN if readable else select.POLLOUT)
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimedOut("the question takes too long: ask for fewer series or a shorter time, or use a longer step")
