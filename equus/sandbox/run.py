"""One job on its way: what is known of it, its descriptors, and its one result. The Runner decides, this remembers."""

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

from equus.policy import Limits
from equus.sandbox import frames
from equus.sandbox.document import finish
from equus.sandbox.job import Job
from equus.sandbox.links import AnswerLink, WorkerLink
from equus.sandbox.question import read_question
from equus.sandbox.values import encode

Done = Callable[[bytes], None]
Answer = Callable[[str, list[Any]], dict[str, Any]]
# The table of a check without its code; parsed in the agent.
INSPECTION_LIMIT = 65_536
# A shorter time would be over before the worker has read its job.
SHORTEST_TIMEOUT = 0.05

_log = logging.getLogger("equus.sandbox")


class _Canceller(Protocol):
    def cancel(self, run: Run, reason: str) -> None: ...


@define(eq=False)
class Run:
    """One job on its way. `cancel` is all that a caller does with it."""

    _runner: _Canceller
    id: int
    job: Job
    _done: Done
    mode: str
    answer: Answer | None
    now: float | None
    given: bool = False  # its result has been handed over
    began: float = 0.0  # on the reactor's clock
    started: float = 0.0  # seconds since 1970
    deadline: float = 0.0  # on the reactor's clock: when somebody must look at it
    timeout: float = 0.0
    declared: bool = False
    lines: int = 0
    pidfd: int | None = None
    link: WorkerLink | None = None
    answering: AnswerLink | None = None
    hung_up: bool = False  # the worker has closed its end
    fate: tuple[str, str] | None = None  # reason and sentence, once it has been condemned

    def cancel(self, reason: str = "cancelled") -> None:
        """End it now, wherever it is. Its result is `unknown` with this reason; no effect once it has its result."""
        if not self.given:
            self._runner.cancel(self, reason)

    def begin(self, now: float, wall: float, longest: float) -> None:
        """The clock starts here, not in the queue."""
        self.began, self.started, self.timeout = now, wall, max(longest, SHORTEST_TIMEOUT)

    def declare(self, text: bytes, most: float) -> bool:
        """Take the timeout that the check's own table names. False for anything else than one such declaration."""
        if self.declared or self.job.timeout is not None or len(text) != frames.SECONDS.size:
            return False
        (seconds,) = frames.SECONDS.unpack(text)
        if not seconds > 0:
            return False
        self.declared, self.timeout = True, max(SHORTEST_TIMEOUT, min(seconds, most))
        return True

    def give(self, part: bytes, now: float) -> None:
        """Hand over the result, once; `part` is a body of document.py."""
        if self.given:
            return
        self.given = True
        took = max(0.0, now - self.began) * 1000 if self.began else 0.0
        if self.mode == "run":
            part = finish(part, self.job.check, self.job.code, self.started or time.time(), took)
        elif part.startswith(b'{"status"') or len(part) > INSPECTION_LIMIT:
            part = _inspection_failure(part)
        try:
            self._done(part)
        except Exception:
            _log.exception("whoever takes the result of %s failed", self.job.check)

    def kill(self) -> bool:
        """SIGKILL by pidfd; whether there was something to send it to."""
        if self.pidfd is None:
            return False
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            return True
        return False

    def close(self) -> None:
        """No more is heard of it or said to it."""
        for link in (self.link, self.answering):
            if link is not None:
                link.close()

    def forget(self) -> None:
        """Its process is gone."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None

    def answer_bytes(self, question: bytes) -> bytes:
        """A host call answered by `answer`, as the broker would write it."""
        assert self.answer is not None
        name, args, _deadline = read_question(question)
        answer = self.answer(name, args)
        code, text = answer.get("error", (None, None))
        return encode({"value": answer["value"]} if code is None else {"code": code, "text": text})


def _inspection_failure(part: bytes) -> bytes:
    """A failure of the sandbox, in the form of an inspection."""
    if len(part) > INSPECTION_LIMIT:
        return json.dumps({"error": "the table is too large to be read", "line": None}).encode()
    document = json.loads(part)
    reason = document["reason"]
    return json.dumps({"error": f"{reason}: {document['summary']}", "line": None, "reason": reason}).encode()


def encode_job(run: Run, limits: Limits, may_log: bool) -> bytes:
    """Everything a worker is told, as frames.py says."""
    job = run.job
    document = {
        "mode": run.mode,
        "check": job.check,
        "source": len(job.source),
        "libraries": {name: len(source) for name, source in job.libraries.items()},
        "args": len(job.args),
        "timeout": job.timeout,
        "timeout_max": limits.timeout_max,
        "cpu_max": limits.cpu_max,
        "log": may_log,
        "now": run.now,
    }
    head = encode(document)
    return b"".join((frames.LENGTH.pack(len(head)), head, job.source, *job.libraries.values(), job.args))
