"""Run checks for the agent: queue them, run at most `parallel` at once, and deliver exactly one result for each.

The Runner lives in the reactor thread and never blocks. It sees no Lua: a worker process runs one check and writes one
result (worker.py), the zygote forks workers (zygote.py), the broker performs host calls (broker.py). LiveRuns measures
wall time, kills by pidfd, and writes the result itself if a worker can't.

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

from equus.policy.policy import Policy
from equus.sandbox.children import Children, Which
from equus.sandbox.document import failure
from equus.sandbox.exit_reasons import exit_reason
from equus.sandbox.job import BLOB_LIMIT, LIBRARIES_LIMIT, Job
from equus.sandbox.known_tables import KnownTables
from equus.sandbox.links import AnswerLink, WorkerLink, close_all
from equus.sandbox.live_runs import ZYGOTE_GRACE, LiveRuns
from equus.sandbox.processes import Processes
from equus.sandbox.run import Answer, Done, Run, cpu_limit, encode_job
from equus.sandbox.spares import SPARES, Spares
from groundwork.counts import count

__all__ = ["Job", "Run", "Runner"]

# Seconds for inspecting a file. Its top level is run for that; in most files it only makes the table of the check.
LOAD_TIMEOUT = 10.0

_UNTRIED_REASONS = ("cancelled", "killed")  # an inspection that ends so says nothing about the source
_log = logging.getLogger("equus.sandbox")


class Runner:
    """Runs jobs in the order of their arrival, at most `parallel` at once (None: `limits.parallel` of the policy).

    reactor: Twisted's, or anything with addReader, removeReader, addWriter, removeWriter, callLater and seconds.
    log: called as log(check, text) for each line that a check passes to `host.log`, escaped and bounded before.
    spares: workers that are kept ready for the next runs; they don't count as running.
    """

    def __init__(
        self,
        reactor: Any,
        processes: Processes,
        policy: Policy,
        parallel: int | None = None,
        log: Callable[[str, str], None] | None = None,
        spares: int = SPARES,
    ) -> None:
        self._reactor = reactor
        self._policy = policy
        self._parallel = parallel
        self._ids = itertools.count(1)
        self._queue: dict[int, Run] = {}
        self._tables = KnownTables()
        self._live = LiveRuns(
            reactor, self._tables, log or (lambda check, text: _log.info("%s: %s", check, text)),
            lambda: self._policy.limits.timeout_max, lambda: self._children.lost("zygote"),
        )  # fmt: skip
        self._spares = Spares(self._ask_for_worker, spares)
        self._stopped = False
        self._children = Children(reactor, processes, self)

    # -------------------------------------------------------------------------------------------- what callers use

    @property
    def isolation(self) -> Literal["strong", "weak"]:
        """Return `strong` if the kernel enforces the seccomp filter, `weak` if it doesn't or that isn't known yet."""
        return "strong" if self._children.filtered else "weak"

    @property
    def ready(self) -> bool:
        """Return whether both processes have started, so that `isolation` is known."""
        return self._children.ready

    @property
    def waiting(self) -> int:
        """Return the number of jobs in the queue."""
        return len(self._queue)

    @property
    def kills(self) -> int:
        """Return the number of workers that were killed so far."""
        return self._live.kills

    @property
    def running(self) -> int:
        """Return the number of workers that have a run."""
        return len(self._live.runs)

    @property
    def spare(self) -> int:
        """Return the number of workers that wait for a run."""
        return self._spares.ready

    def run(self, job: Job, done: Done, answer: Answer | None = None, now: float | None = None) -> Run:
        """Queue a job. `done` gets its result document (JSON, at most 1 MiB) exactly once, never before run returns.

        answer: performs the host calls instead of the broker, as answer(name, args) -> {"value": ...} or
        {"error": [code, text]}. now: unix seconds that host.now() returns instead of the wall clock. Both are for
        recorded tests.
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

        `done` gets {"summary", "needs", "every", "timeout", "args": {...}} with times in seconds, or {"error", "line"}.
        An error with `untried` true says nothing about the source: the sandbox could not inspect it.
        """
        return self._read("inspect", Job(name, source, libraries, timeout=LOAD_TIMEOUT, pushed=pushed), done)

    def compile(
        self, source: bytes, done: Callable[[dict[str, Any]], None], name: str = "library", pushed: bool = True
    ) -> Run:
        """Compile a library without running any of it. `done` gets {}, or {"error", "line", "untried"}."""
        return self._read("compile", Job(name, source, timeout=LOAD_TIMEOUT, pushed=pushed), done)

    def _read(self, mode: str, job: Job, done: Callable[[dict[str, Any]], None]) -> Run:
        def deliver(blob: bytes) -> None:
            """Parse the inspection, and mark one that was not made."""
            document = json.loads(blob)
            if document.pop("reason", None) in _UNTRIED_REASONS or ("error" in document and self._children.failing):
                document["untried"] = True
            done(document)

        return self._accept(Run(self, next(self._ids), job, deliver, mode, None, None))

    def reload(self, policy: Policy) -> None:
        """Apply this policy, and let the broker read its file again. Running checks finish under the old limits."""
        self._policy = policy
        self._spares.discard()
        self._children.reload_policy()
        self._fill_spares()

    def cancel(self, run: Run, reason: str) -> None:
        """End a run; see Run.cancel."""
        if run.id in self._queue:
            del self._queue[run.id]
            run.deliver(failure(reason, "cancelled before it began"), self._reactor.seconds())
        elif self._live.runs.get(run.worker) is run:
            self._live.terminate(run, reason, "cancelled while it ran")

    def stop(self) -> None:
        """Kill everything. Jobs without a result get `cancelled` before this returns; later ones get it, too."""
        if self._stopped:
            return
        self._stopped = True
        self._live.stop()
        for run in list(self._queue.values()):  # a copy: the receiver of a result may cancel others
            run.deliver(failure("cancelled", "the agent is stopping"), self._reactor.seconds())
        self._queue.clear()
        self._spares.discard()
        self._children.stop()

    # -------------------------------------------------------------------------------------------- queue

    def _accept(self, run: Run) -> Run:
        fault = self._fault_of(run)
        if fault is not None:
            self._reactor.callLater(0, run.deliver, failure(*fault), self._reactor.seconds())
            return run
        self._queue[run.id] = run
        if len(self._queue) == 1:
            # Not at once: `done` must never be called before run() has returned.
            self._reactor.callLater(0, self._launch_next)
        return run

    def _fault_of(self, run: Run) -> tuple[str, str] | None:
        """Return reason and sentence if a job can't be queued, else None."""
        job = run.job
        if self._stopped:
            return "cancelled", "the agent is stopping"
        if len(self._queue) >= self._policy.limits.queue:
            return (
                "cancelled",
                f"{count(len(self._queue), 'check is', 'checks are')} waiting already (limits.queue in the policy)",
            )
        if self._children.failing:
            return "crashed", "the sandbox does not start; the agent's log says why"
        if len(job.source) > BLOB_LIMIT or sum(map(len, job.libraries.values())) > LIBRARIES_LIMIT:
            return "load-error", f"a check is at most {BLOB_LIMIT} bytes long, its libraries {LIBRARIES_LIMIT}"
        if len(job.args) > BLOB_LIMIT:
            return "bad-arguments", f"the arguments are {len(job.args)} bytes, and {BLOB_LIMIT} is the most"
        return None

    def _launch_next(self) -> None:
        limit = self._parallel or self._policy.limits.parallel
        while self._queue and self.ready and self.running < limit and not self._stopped:
            run = self._queue.pop(next(iter(self._queue)))
            refusal = self._policy.pushed_code_refusal(self.isolation) if run.job.pushed else None
            if refusal is not None:
                run.deliver(failure("denied", refusal), self._reactor.seconds())
            else:
                self._launch(run)

    def _ask_for_worker(self, number: int, job: int, calls: int) -> bool:
        """Ask the zygote for a worker whose limits suffice for every run; its job lowers that of CPU time."""
        limits = self._policy.limits
        return self._children.launch(
            number, limits.memory_mib * 1_048_576, cpu_limit(limits, limits.timeout_max), job, calls
        )

    def _fill_spares(self) -> None:
        """Make spares once no run waits for the zygote."""
        if self.ready and not self._queue and not self._stopped:
            self._spares.fill()

    def _launch(self, run: Run) -> None:
        """Give the run a worker: its job goes there, and the end that answers its calls to the broker."""
        limits, job = self._policy.limits, run.job
        run.known = self._tables.find(job) if run.mode == "run" else None
        longest = run.longest(limits.timeout_max)
        run.begin(self._reactor.seconds(), time.time(), longest)
        steady = time.monotonic()  # the clock of worker and broker; that of the reactor may be another
        try:
            worker = self._spares.take()
        except OSError as fault:
            run.deliver(failure("crashed", f"no worker: {os.strerror(fault.errno or 0)}"), self._reactor.seconds())
            return
        self._live.runs[worker.number] = run
        run.worker, run.pidfd = worker.number, worker.pidfd
        run.answering = self._attach(run, worker.calls, steady + longest)
        document = encode_job(run, limits, self._policy.granted("log"), steady)
        run.link = WorkerLink(
            self._reactor,
            worker.job,
            document,
            lambda kind, text: self._live.frame_received(run, kind, text),
            lambda: self._live.disconnected(run),
        )
        self._live.set_deadline(run, run.began + (run.timeout if run.pidfd else min(run.timeout, ZYGOTE_GRACE)))
        if not worker.is_asked_for:
            self._children.lost("zygote")

    def _attach(self, run: Run, calls: socket.socket, deadline: float) -> AnswerLink | None:
        """Give the answering end of the calls to the broker, or to an AnswerLink for a recorded test."""
        if run.answer is not None:
            return AnswerLink(self._reactor, calls, run.answer_bytes)
        with calls:
            state = run.job.state_key if run.job.keeps_state else None
            job = run.job
            self._children.attach(job.check, state, deadline, calls.fileno(), job.secrets, job.bound)
        return None

    # -------------------------------------------------------------------------------------------- zygote and broker

    def on_ready(self) -> None:
        """Start queued runs: both processes are ready."""
        self._launch_next()
        self._fill_spares()

    def on_started(self, number: int, descriptors: list[int]) -> None:
        """Take the pidfd of a new worker; kill it at once if its run has ended meanwhile."""
        if descriptors and self._spares.started(number, descriptors[0]):
            return
        run = self._live.runs.get(number)
        if run is None or not descriptors:
            close_all(descriptors)
            return
        run.pidfd = descriptors[0]
        if run.delivered or run.forced_end is not None:
            run.kill()
        elif not run.disconnected:
            self._live.set_deadline(run, run.began + run.timeout)

    def on_not_started(self, number: int, errno: int) -> None:
        """Deliver `crashed` for a run without a worker: the fork failed."""
        if self._spares.ended(number):
            return
        run = self._live.runs.pop(number, None)
        if run is not None:
            run.close()
            run.deliver(failure("crashed", f"no worker: {os.strerror(errno)}"), self._reactor.seconds())
        self._launch_next()

    def on_ended(self, number: int, status: int, cpu_ms: int, peak_kib: int) -> None:
        """Finish the run of a worker that has ended. Its last frames may still be in its socket."""
        run = self._live.runs.get(number)
        if run is None:
            self._spares.ended(number)
            return
        if run.link is not None:
            run.link.drain()
        self._live.runs.pop(number, None)
        run.close()
        run.close_pidfd()
        if not run.delivered:
            reason, why = run.forced_end or exit_reason(status, peak_kib, self._policy.limits.memory_mib)
            run.deliver(failure(reason, why, cpu_ms=cpu_ms, peak_kib=peak_kib), self._reactor.seconds())
        self._launch_next()
        self._fill_spares()

    def on_lost(self, which: Which) -> None:
        """Fail the running checks if the zygote ended; fail the queue, too, if the process does not start any more."""
        self._spares.discard()
        if which == "zygote":
            self._live.fail_all("the zygote has ended, and its workers with it")
        if self._children.failing:
            self._fail_waiting(which)

    def _fail_waiting(self, which: Which) -> None:
        waiting, self._queue = list(self._queue.values()), {}
        for run in waiting:
            run.deliver(failure("crashed", f"the sandbox's {which} does not start; the agent's log says why"), 0.0)
