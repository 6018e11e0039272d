"""Run the sandbox without a reactor, for command lines and tests: one call waits for one result."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from attrs import define, field

from equus.policy.policy import Policy
from equus.processes.spawn import close_spawner
from equus.sandbox.job import Job
from equus.sandbox.processes import Processes
from equus.sandbox.run import Answer
from equus.sandbox.runner import Runner
from equus.sandbox.spares import SPARES
from groundwork.awake_clock import AwakeClock


@define(order=True)
class _Delayed:
    """Implements as much of Twisted's IDelayedCall as the Runner uses; callLater returns it."""

    _time: float
    _order: int
    _call: Callable[[], Any] | None = field(order=False)

    def active(self) -> bool:
        return self._call is not None

    def getTime(self) -> float:
        return self._time

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        """Make the call, unless it was cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call()


class SelectLoop:
    """Implements as much of a Twisted reactor as the Runner uses."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Any] = {}
        self._writers: dict[int, Any] = {}
        self._delayed: list[_Delayed] = []
        self._order = itertools.count()

    @staticmethod
    def seconds() -> float:
        return time.monotonic()

    def callLater(self, delay: float, call: Callable[..., Any], *args: Any) -> _Delayed:
        """Call `call(*args)` in a turn of the loop after `delay` seconds."""
        delayed = _Delayed(self.seconds() + delay, next(self._order), lambda: call(*args))
        heapq.heappush(self._delayed, delayed)
        return delayed

    def addReader(self, link: Any) -> None:
        """Call `link.doRead` whenever its descriptor is readable."""
        self._readers[link.fileno()] = link
        self._register(link.fileno())

    def addWriter(self, link: Any) -> None:
        """Call `link.doWrite` whenever its descriptor is writable."""
        self._writers[link.fileno()] = link
        self._register(link.fileno())

    def removeReader(self, link: Any) -> None:
        self._remove(self._readers, link)

    def removeWriter(self, link: Any) -> None:
        self._remove(self._writers, link)

    def _remove(self, links: dict[int, Any], link: Any) -> None:
        for descriptor in [number for number, known in links.items() if known is link]:
            del links[descriptor]
            self._register(descriptor)

    def _register(self, descriptor: int) -> None:
        events = (select.POLLIN if descriptor in self._readers else 0) | (
            select.POLLOUT if descriptor in self._writers else 0
        )
        if events:
            self._poll.register(descriptor, events)
        else:
            self._poll.unregister(descriptor)

    def turn(self, longest: float) -> None:
        """Wait for descriptors and timers, at most `longest` seconds, and call those that are ready."""
        wait = min(longest, max(0.0, self._delayed[0].getTime() - self.seconds()) if self._delayed else longest)
        for descriptor, event in self._poll.poll(wait * 1000):
            if event & ~select.POLLOUT and descriptor in self._readers:
                self._readers[descriptor].doRead()
            if event & select.POLLOUT and descriptor in self._writers:
                self._writers[descriptor].doWrite()
        while self._delayed and self._delayed[0].getTime() <= self.seconds():
            heapq.heappop(self._delayed).fire()

    def until(self, condition: Callable[[], Any], within: float) -> None:
        """Run turns until the condition holds. Raises TimeoutError if it doesn't hold `within` so many seconds.

        Seconds in which this process stood still don't count, and there is a last turn for what has come meanwhile.
        """
        awake, is_over = AwakeClock(self.seconds), False
        end = awake.seconds() + within
        while not condition():
            if is_over:
                raise TimeoutError(f"not within {within:g} s")
            is_over = awake.seconds() > end
            self.turn(0.0 if is_over else 0.5)


class Sandbox:
    """Owns a Runner, its processes and the loop that drives them. Use it as a context manager."""

    def __init__(
        self,
        policy_path: Path | None = None,
        state: Path | None = None,
        registry: str = "equus.capabilities.registry",
        python_path: tuple[Path, ...] = (),
        log: Callable[[str, str], None] | None = None,
        warm: bool = True,
    ) -> None:
        """Start the processes. warm: many runs follow, so that it pays to make them cheap (docs/sandbox.rst)."""
        policy = Policy.load(policy_path)
        self.loop = SelectLoop()
        self.processes = Processes.start(policy_path, state, registry, python_path, warm=warm)
        self.runner = Runner(self.loop, self.processes, policy, log=log, spares=SPARES if warm else 0)
        self._longest = policy.limits.timeout_max + 60

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox's processes and the one that starts programs."""
        self.runner.stop()
        close_spawner()

    def run(self, job: Job, answer: Answer | None = None, now: float | None = None) -> bytes:
        """Run one job and return its result document. `answer` and `now` (unix seconds, wall clock): see Runner.run."""
        results: list[bytes] = []
        self.runner.run(job, results.append, answer, now)
        self.loop.until(lambda: results, self._longest)
        return results[0]

    def inspect(
        self, source: bytes, libraries: dict[str, bytes] | None = None, name: str = "check", pushed: bool = False
    ) -> dict[str, Any]:
        """Return the table of one check: {"summary", "needs", ...} or {"error", "line"}, as Runner.inspect gives it."""
        results: list[dict[str, Any]] = []
        self.runner.inspect(source, libraries or {}, results.append, name, pushed)
        self.loop.until(lambda: results, self._longest)
        return results[0]

    def compile(self, source: bytes, name: str = "library", pushed: bool = False) -> dict[str, Any]:
        """Compile a library; return {} or {"error", "line"}, as Runner.compile gives it."""
        results: list[dict[str, Any]] = []
        self.runner.compile(source, results.append, name, pushed)
        self.loop.until(lambda: results, self._longest)
        return results[0]
