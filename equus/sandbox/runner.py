"""The agent's side of the sandbox: a queue of checks, at most `parallel` of them running, one result for each, always.

Runs in the reactor thread and never blocks. Lua is never seen here: a worker process runs one check and writes one
result (worker.py), the zygote forks workers (zygote.py), the broker does what checks ask of the system (broker.py).
This side counts wall time, kills by pidfd, and writes the result itself when a worker can't.

The blocking counterpart for command lines and tests is blocking.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from equus.policy import Policy
from equus.sandbox.job import Job
from equus.sandbox.processes import Processes

Done = Callable[[bytes], None]


class Run:
    """One job on its way. `cancel` is all that a caller does with it."""

    def cancel(self, reason: str = "cancelled") -> None:
        """End it now, wherever it is. Its result is `unknown` with this reason; no effect once it has its result."""
        raise NotImplementedError


class Runner:
    """Runs jobs in the order in which they came, at most `parallel` at once.

    reactor: Twisted's, or anything with addReader, removeReader, addWriter, removeWriter, callLater and seconds.
    log: called as log(check, text) for each line that a check gives to `host.log`, already escaped and bounded.
    """

    kills: int  # workers killed: timeouts, cancellations, stops
    waiting: int  # jobs in the queue, not yet running

    def __init__(
        self,
        reactor: Any,
        processes: Processes,
        policy: Policy,
        parallel: int = 8,
        log: Callable[[str, str], None] | None = None,
    ) -> None:
        raise NotImplementedError

    @property
    def isolation(self) -> Literal["strong", "weak"]:
        """`strong` when the kernel enforces the seccomp filter; `weak` until it is known and where it is missing."""
        raise NotImplementedError

    def run(self, job: Job, done: Done) -> Run:
        """Queue a job. `done` gets its result document (JSON, at most 1 MiB) exactly once, never before run returns."""
        raise NotImplementedError

    def inspect(self, source: bytes, libraries: dict[str, bytes], done: Callable[[dict[str, Any]], None]) -> Run:
        """Read a check's table without calling its run().

        `done` gets {"summary", "needs", "every", "timeout", "args": {...}} with times in seconds, or {"error", "line"}.
        """
        raise NotImplementedError

    def reload(self, policy: Policy) -> None:
        """From now on this policy; the broker reads its file again. Running checks finish under the old limits."""
        raise NotImplementedError

    def stop(self) -> None:
        """Kill everything. Each job without a result gets one (`cancelled`) before this returns; then run() refuses."""
        raise NotImplementedError
