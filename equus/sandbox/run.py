"""Hold the state of one run: its job, its descriptors, its deadline and its one result. The Runner decides."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from attrs import define

from equus.policy.policy import Limits
from equus.sandbox import frames
from equus.sandbox.document import finish
from equus.sandbox.host_call import read_call
from equus.sandbox.job import Job, timeout_in_force
from equus.sandbox.known_tables import KnownTable
from equus.sandbox.links import AnswerLink, WorkerLink
from equus.sandbox.value_codec import encode

Done = Callable[[bytes], None]
Answer = Callable[[str, list[Any]], dict[str, Any]]
# Bytes of a check's table as JSON, which the agent parses.
INSPECTION_LIMIT = 65_536

_log = logging.getLogger("equus.sandbox")


class _Canceller(Protocol):
    def cancel(self, run: Run, reason: str) -> None: ...


@define(eq=False)
class Run:
    """Holds the state of one run in the Runner. Its callers use `cancel` only."""

    _runner: _Canceller
    id: int
    job: Job
    _done: Done
    mode: str
    answer: Answer | None
    now: float | None
    delivered: bool = False  # `done` has been called
    began: float = 0.0  # monotonic seconds, the reactor's clock
    started: float = 0.0  # unix seconds, wall clock
    deadline: float = 0.0  # monotonic seconds: when the Runner must act on it
    timeout: float = 0.0
    declared: bool = False
    known: KnownTable | None = None  # what its worker need not read
    told: bool = False  # its worker has told the table
    lines: int = 0
    worker: int = 0  # the number of its worker; 0 while it waits
    pidfd: int | None = None
    link: WorkerLink | None = None
    answering: AnswerLink | None = None
    disconnected: bool = False  # the worker has closed its socket
    forced_end: tuple[str, str] | None = None  # reason and sentence of the kill, before the result is delivered

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run, queued or running. Its result is `unknown` with this reason. No effect after the result."""
        if not self.delivered:
            self._runner.cancel(self, reason)

    def begin(self, now: float, wall: float, longest: float) -> None:
        """Start the clock of a run that leaves the queue.

        now: monotonic seconds. wall: unix seconds, wall clock. longest: its timeout in seconds so far.
        """
        self.began, self.started, self.timeout = now, wall, timeout_in_force(longest, longest)

    def take_declared_timeout(self, text: bytes, most: float) -> bool:
        """Take the timeout of the check's own table, at most `most` seconds. Return False if it is no valid one."""
        if self.declared or self.known or self.job.timeout is not None or len(text) != frames.SECONDS.size:
            return False
        (seconds,) = frames.SECONDS.unpack(text)
        if not seconds > 0:
            return False
        self.declared, self.timeout = True, timeout_in_force(seconds, most)
        return True

    def longest(self, most: float) -> float:
        """Return the seconds that this run may have at most, of those that the policy allows."""
        own = None if self.known is None else self.known.timeout
        return timeout_in_force(self.job.timeout or own or most, most)

    def deliver(self, part: bytes, now: float) -> None:
        """Call `done` with the result, once. `part`: a body of document.py. `now`: monotonic seconds."""
        if self.delivered:
            return
        self.delivered = True
        took = max(0.0, now - self.began) * 1000 if self.began else 0.0
        if self.mode == "run":
            part = finish(part, self.job.check, self.job.code, self.started or time.time(), took)
        elif part.startswith(b'{"status"') or len(part) > INSPECTION_LIMIT:
            part = _inspection_failure(part)
        try:
            self._done(part)
        except Exception:
            _log.exception("the result of %s was delivered, and its receiver failed", self.job.check)

    def kill(self) -> bool:
        """Send SIGKILL by pidfd. Return False if there is no process to send it to."""
        if self.pidfd is None:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            return True
        return False

    def close(self) -> None:
        """Close the links to the worker."""
        for link in (self.link, self.answering):
            if link is not None:
                link.close()

    def close_pidfd(self) -> None:
        """Close the pidfd: the process has ended."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def answer_bytes(self, question: bytes) -> bytes:
        """Answer a host call by `answer`, in the bytes that the broker would write."""
        assert self.answer is not None
        name, args, _deadline = read_call(question)
        answer = self.answer(name, args)
        code, text = answer.get("error", (None, None))
        return encode({"value": answer["value"]} if code is None else {"code": code, "text": text})


def _inspection_failure(part: bytes) -> bytes:
    """Return a failure of the sandbox in the form of an inspection."""
    if len(part) > INSPECTION_LIMIT:
        return json.dumps({"error": "the table is too large to be read", "line": None}).encode()
    document = json.loads(part)
    reason = document["reason"]
    return json.dumps({"error": f"{reason}: {document['summary']}", "line": None, "reason": reason}).encode()


def cpu_limit(limits: Limits, longest: float) -> int:
    """Return the seconds of CPU time after which the kernel ends a worker that may take `longest` seconds."""
    return int(min(limits.cpu_max, longest)) + 2


def encode_job(run: Run, limits: Limits, may_log: bool, began: float) -> bytes:
    """Return the bytes of a job for its worker, in the format of frames.py.

    began: monotonic seconds of the run's begin. The worker counts its time from there, as the Runner does.
    """
    job, known = run.job, run.known
    args = job.args if known is None else known.arguments
    document = {
        "mode": run.mode,
        "check": job.check,
        "source": len(job.source),
        "libraries": {name: len(source) for name, source in job.libraries.items()},
        "args": len(args),
        "known": known and known.document(),
        "timeout": job.timeout,
        "timeout_max": limits.timeout_max,
        "began": began,
        "cpu": cpu_limit(limits, run.timeout),
        "cpu_max": limits.cpu_max,
        "log": may_log,
        "now": run.now,
        "pushed": job.pushed,
    }
    return frames.job_bytes(document, job.source, *job.libraries.values(), args)
