"""The agent's side of the sandbox: a queue of checks, at most `parallel` of them running, one result for each, always.

Runs in the reactor thread and never blocks. Lua is never seen here: a worker process runs one check and writes one
result (worker.py), the zygote forks workers (zygote.py), the broker does what checks ask of the system (broker.py).
This side counts wall time, kills by pidfd, and writes the result itself when a worker can't.

The blocking counterpart for command lines and tests is blocking.py.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any, Literal

from equus.policy import Policy
from equus.sandbox import frames
from equus.sandbox.children import Children, Which
from equus.sandbox.document import failure
from equus.sandbox.endings import ending_of
from equus.sandbox.job import BLOB_LIMIT, LIBRARIES_LIMIT, Job
from equus.sandbox.links import AnswerLink, WorkerLink, close_all
from equus.sandbox.processes import Processes
from equus.sandbox.run import Answer, Done, Run, encode_job
from equus.sandbox.text import clean

__all__ = ["Job", "Run", "Runner"]

# A worker that has been killed, or has given its result, is gone in a few milliseconds. What the zygote has not
# reported after this long is given its result without the figures of its end.
END_GRACE = 0.1
# A zygote that has not forked, or not reaped, in this time is stopped or stuck, and is replaced. Both take 2 ms.
ZYGOTE_GRACE = 5.0
# For reading a file: its chunk is run, which most often makes one table.
LOAD_TIMEOUT = 10.0

_NO_VERDICT = ("cancelled", "killed")  # ends of an inspection that say nothing about what was inspected
_log = logging.getLogger("equus.sandbox")


class Runner:
    """Runs jobs in the order in which they came, at most `parallel` at once (None: as many as the policy says).

    reactor: Twisted's, or anything with addReader, removeReader, addWriter, removeWriter, callLater and seconds.
    log: called as log(check, text) for each line that a check gives to `host.log`, already escaped and bounded.
    """

    def __init__(
        self,
        reactor: Any,
        processes: Processes,
        policy: Policy,
        parallel: int | None = None,
        log: Callable[[str, str], None] | None = None,
    ) -> None:
        self._reactor = reactor
        self._policy = policy
        self._parallel = parallel
        self._log = log or (lambda check, text: _log.info("%s: %s", check, text))
        self.kills = 0
        self._ids = itertools.count(1)
        self._queue: dict[int, Run] = {}
        self._live: dict[int, Run] = {}
        self._timer: Any = None
        self._stopped = False
        self._children = Children(reactor, processes, self)

    # -------------------------------------------------------------------------------------------- what callers use

    @property
    def isolation(self) -> Literal["strong", "weak"]:
        """`strong` when the kernel enforces the seccomp filter; `weak` until it is known and where it is missing."""
        return "strong" if self._children.filtered else "weak"

    @property
    def ready(self) -> bool:
        """Whether both processes are up, and so `isolation` is known."""
        return self._children.ready

    @property
    def waiting(self) -> int:
        """Jobs that are not yet running."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """Workers that exist."""
        return len(self._live)

    def run(self, job: Job, done: Done, answer: Answer | None = None, now: float | None = None) -> Run:
        """Queue a job. `done` gets its result document (JSON, at most 1 MiB) exactly once, never before run returns.

        answer: performs the host calls instead of the broker, as answer(name, args) -> {"value": ...} or
        {"error": [code, text]}; now: what host.now() says. Both are for recorded tests.
        """
        run = Run(self, next(self._ids), job, done, "run", answer, now)
        return self._accept(run)

    def inspect(
        self,
        source: bytes,
        libraries: dict[str, bytes],
        done: Callable[[dict[str, Any]], None],
        name: str = "check",
        pushed: bool = True,
    ) -> Run:
        """Read a check's table without calling its run(). `name` is for error texts.

        `done` gets {"summary", "needs", "every", "timeout", "args": {...}} with times in seconds, or {"error", "line"};
        `untried` is true beside these if it is no fault of the source: it says nothing about it then.
        """
        return self._read("inspect", Job(name, source, libraries, timeout=LOAD_TIMEOUT, pushed=pushed), done)

    def compile(
        self, source: bytes, done: Callable[[dict[str, Any]], None], name: str = "library", pushed: bool = True
    ) -> Run:
        """Compile a library without running any of it. `done` gets {}, or {"error", "line", "untried"}."""
        return self._read("compile", Job(name, source, timeout=LOAD_TIMEOUT, pushed=pushed), done)

    def _read(self, mode: str, job: Job, done: Callable[[dict[str, Any]], None]) -> Run:
        def read(blob: bytes) -> None:
            document = json.loads(blob)
            if document.pop("reason", None) in _NO_VERDICT or ("error" in document and self._children.hopeless):
                document["untried"] = True
            done(document)

        return self._accept(Run(self, next(self._ids), job, read, mode, None, None))

    def reload(self, policy: Policy) -> None:
        """From now on this policy; the broker reads its file again. Running checks finish under the old limits."""
        self._policy = policy
        self._children.reload_policy()

    def cancel(self, run: Run, reason: str) -> None:
        """See Run.cancel."""
        if run.id in self._queue:
            del self._queue[run.id]
            run.give(failure(reason, "cancelled before it began"), self._reactor.seconds())
        elif run.id in self._live:
            self._condemn(run, reason, "cancelled while it ran")

    def stop(self) -> None:
        """Kill everything. Each job without a result gets one (`cancelled`) before this returns; then run() refuses."""
        if self._stopped:
            return
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._reactor.seconds()
        for run in [*self._live.values(), *self._queue.values()]:
            self.kills += run.kill()
            run.close()
            run.forget()
            run.give(failure("cancelled", "the agent is stopping"), now)
        self._live.clear()
        self._queue.clear()
        self._children.stop()

    # -------------------------------------------------------------------------------------------- queue

    def _accept(self, run: Run) -> Run:
        fault = self._fault_of(run)
        if fault is not None:
            self._reactor.callLater(0, run.give, failure(*fault), self._reactor.seconds())
            return run
        self._queue[run.id] = run
        if len(self._queue) == 1:
            # Not at once: `done` must never be called before run() has returned.
            self._reactor.callLater(0, self._launch_next)
        return run

    def _fault_of(self, run: Run) -> tuple[str, str] | None:
        """Why a job can't even wait."""
        job = run.job
        if self._stopped:
            return "cancelled", "the agent is stopping"
        if len(self._queue) >= self._policy.limits.queue:
            return "cancelled", f"{len(self._queue)} checks are waiting already (limits.queue in the policy)"
        if self._children.hopeless:
            return "crashed", "the sandbox does not start; the agent's log says why"
        if len(job.source) > BLOB_LIMIT or sum(map(len, job.libraries.values())) > LIBRARIES_LIMIT:
            return "load-error", f"a check is at most {BLOB_LIMIT} bytes long, its libraries {LIBRARIES_LIMIT}"
        if len(job.args) > BLOB_LIMIT:
            return "bad-arguments", f"the arguments are {len(job.args)} bytes, and {BLOB_LIMIT} is the most"
        return None

    def _launch_next(self) -> None:
        limit = self._parallel or self._policy.limits.parallel
        while self._queue and self.ready and len(self._live) < limit and not self._stopped:
            run = self._queue.pop(next(iter(self._queue)))
            refusal = self._policy.accepts_pushed_code(self.isolation) if run.job.pushed else None
            if refusal is not None:
                run.give(failure("denied", refusal), self._reactor.seconds())
            else:
                self._launch(run)

    def _launch(self, run: Run) -> None:
        """Four ends of two sockets: ours of the job, the broker's of the calls, and two for the worker."""
        limits, job = self._policy.limits, run.job
        longest = min(limits.timeout_max, job.timeout or limits.timeout_max)
        run.begin(self._reactor.seconds(), time.time(), longest)
        try:
            ours, theirs = socket.socketpair()
            calls, callers = socket.socketpair()
        except OSError as fault:
            run.give(failure("crashed", f"no worker: {os.strerror(fault.errno or 0)}"), self._reactor.seconds())
            return
        self._live[run.id] = run
        cpu = int(min(limits.cpu_max, longest)) + 2
        with theirs, callers:
            memory = limits.memory_mib * 1_048_576
            sent = self._children.launch(run.id, memory, cpu, theirs.fileno(), callers.fileno())
        run.answering = self._attach(run, calls, longest)
        document = encode_job(run, limits, self._policy.granted("log"))
        run.link = WorkerLink(
            self._reactor,
            ours,
            document,
            lambda kind, text: self._heard(run, kind, text),
            lambda: self._hung_up(run),
        )
        self._look_at(run, run.began + min(run.timeout, ZYGOTE_GRACE))
        if not sent:
            self._children.lost("zygote")

    def _attach(self, run: Run, calls: socket.socket, longest: float) -> AnswerLink | None:
        """Give our end of the calls to whoever answers them."""
        if run.answer is not None:
            return AnswerLink(self._reactor, calls, run.answer_bytes)
        with calls:
            deadline = time.monotonic() + longest
            state = run.job.state_key if run.job.keeps_state else None
            self._children.attach(run.job.check, state, deadline, calls.fileno(), run.job.secrets)
        return None

    # -------------------------------------------------------------------------------------------- what workers say

    def _heard(self, run: Run, kind: bytes, text: bytes) -> None:
        if kind == frames.RESULT:
            self._finished(run, text)
        elif kind == frames.LOG and run.lines < frames.LOG_LINES:
            run.lines += 1
            self._log(run.job.check, clean(text[: frames.LOG_LINE]).replace("\n", "\\n"))
        elif kind == frames.DECLARED and run.declare(text, self._policy.limits.timeout_max):
            self._look_at(run, run.began + run.timeout)
        else:
            self._condemn(run, "crashed", "the worker said something that no worker says")

    def _finished(self, run: Run, part: bytes) -> None:
        """The result is here; whatever the worker still does, it does no longer."""
        run.close()
        run.kill()
        run.give(part, self._reactor.seconds())
        self._look_at(run, self._reactor.seconds() + ZYGOTE_GRACE)

    def _hung_up(self, run: Run) -> None:
        """The worker has ended, or has closed what it must not close. Its end is told by the zygote."""
        if not run.given and run.fate is None:
            run.hung_up = True
            self._look_at(run, self._reactor.seconds() + END_GRACE)

    def _condemn(self, run: Run, reason: str, why: str) -> None:
        """Kill it; its result waits a moment for the figures of its end."""
        if run.given or run.fate is not None:
            return
        run.fate = (reason, why)
        run.close()
        self.kills += run.kill()
        self._look_at(run, self._reactor.seconds() + END_GRACE)

    # -------------------------------------------------------------------------------------------- time

    def _look_at(self, run: Run, when: float) -> None:
        run.deadline = when
        self._arm(when)

    def _arm(self, deadline: float) -> None:
        """One timer for all: it fires at the earliest deadline it knows, and then looks for the next."""
        if self._stopped:
            return
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._reactor.callLater(max(0.0, deadline - self._reactor.seconds()), self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = self._reactor.seconds()
        for run in [run for run in self._live.values() if run.deadline <= now]:
            self._overdue(run, now)
        if self._live:
            self._arm(min(run.deadline for run in self._live.values()))

    def _overdue(self, run: Run, now: float) -> None:
        if run.given or (run.pidfd is None and run.fate is None and now < run.began + run.timeout):
            _log.error("the zygote has stopped answering; it is replaced")
            self._children.lost("zygote")
        elif run.fate is not None:  # killed, and its end has not been told
            run.give(failure(*run.fate), now)
            self._look_at(run, now + ZYGOTE_GRACE)
        elif run.hung_up:
            self._condemn(run, "crashed", "the worker closed its connection without a result")
        else:
            self._condemn(run, "timeout", f"no result within {run.timeout:g} s")

    # -------------------------------------------------------------------------------------------- zygote and broker

    def on_ready(self) -> None:
        self._launch_next()

    def on_started(self, number: int, descriptors: list[int]) -> None:
        run = self._live.get(number)
        if run is None or not descriptors:
            close_all(descriptors)
            return
        run.pidfd = descriptors[0]
        if run.given or run.fate is not None:
            run.kill()
        elif not run.hung_up:
            self._look_at(run, run.began + run.timeout)

    def on_not_started(self, number: int, errno: int) -> None:
        run = self._live.pop(number, None)
        if run is not None:
            run.close()
            run.give(failure("crashed", f"no worker: {os.strerror(errno)}"), self._reactor.seconds())
        self._launch_next()

    def on_ended(self, number: int, status: int, cpu_ms: int, peak_kib: int) -> None:
        """A worker is gone. What it wrote last may still lie in its socket."""
        run = self._live.get(number)
        if run is None:
            return
        if run.link is not None:
            run.link.drain()
        self._live.pop(number, None)
        run.close()
        run.forget()
        if not run.given:
            reason, why = run.fate or ending_of(status, peak_kib, self._policy.limits.memory_mib)
            run.give(failure(reason, why, cpu_ms=cpu_ms, peak_kib=peak_kib), self._reactor.seconds())
        self._launch_next()

    def on_lost(self, which: Which) -> None:
        """Running checks end with the zygote, waiting ones run on the next one; unless there seems to be none."""
        if which == "zygote":
            self._end_all("the zygote, of which workers are forks, has ended")
        if self._children.hopeless:
            self._refuse_queue(which)

    def _end_all(self, why: str) -> None:
        now = self._reactor.seconds()
        runs, self._live = list(self._live.values()), {}
        for run in runs:
            run.kill()
            if run.link is not None and not run.given:
                run.link.drain()
            run.close()
            run.forget()
            run.give(failure(*run.fate or ("killed", why)), now)

    def _refuse_queue(self, which: Which) -> None:
        waiting, self._queue = list(self._queue.values()), {}
        for run in waiting:
            run.give(failure("crashed", f"the sandbox's {which} does not start; the agent's log says why"), 0.0)
