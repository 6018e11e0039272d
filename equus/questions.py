"""Ad-hoc checks: Helen asks on a connection, and the answer goes back on that same connection or nowhere.

What she asks for is a check of the set, or code that she sends along with an order for it (one_shots.py).
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.connection import Connection
from equus.jobs import job_for, unknown, unknown_check
from equus.library import CheckSet
from equus.one_shots import OneShots, OrderRefused
from equus.sandbox.job import Job
from equus.sandbox.runner import Run, Runner
from equus_protocol import messages as m
from equus_protocol import once

log = Logger(namespace="equus.questions")


class Questions:
    """What is being asked on one connection."""

    def __init__(
        self, connection: Connection, runner: Runner, checks: Callable[[], CheckSet], one_shots: OneShots
    ) -> None:
        self._connection = connection
        self._runner = runner
        self._checks = checks
        self._one_shots = one_shots
        self._runs: dict[int, Run] = {}
        self._opening: set[int] = set()  # orders that are being noted; those given up meanwhile are taken out

    def asked(self, check: m.Check) -> None:
        """The number of open questions is bounded by the conversation, the bytes of their args by the connection."""
        if check.name == once.NAME and self._connection.conversation.version == 2:
            self._ordered(check)
            return
        job = job_for(self._checks(), check.name, check.args)
        if job is None:
            self._answer(check, unknown_check(check.name))
            return
        self._run(check, job)

    def _run(self, check: m.Check, job: Job) -> None:
        self._runs[check.message_id] = self._runner.run(job, lambda blob: self._answer(check, blob))

    def _ordered(self, check: m.Check) -> None:
        self._opening.add(check.message_id)
        opened = self._one_shots.open(check.args)
        opened.addCallback(self._opened, check).addErrback(self._refused, check)

    def _opened(self, job: Job, check: m.Check) -> None:
        if check.message_id in self._opening:
            self._opening.discard(check.message_id)
            self._run(check, job)

    def _refused(self, failure: Failure, check: m.Check) -> None:
        why = str(failure.value)
        if not failure.check(OrderRefused):
            log.failure("an order could not be opened", failure=failure)
            why = "a fault of the agent's own; its log says which"
        if check.message_id in self._opening:
            self._opening.discard(check.message_id)
            self._answer(check, unknown(check.name, "denied", why))

    def cancelled(self, message_id: int) -> None:
        """Its result says so. An id that is unknown has been answered a moment ago."""
        if run := self._runs.get(message_id):
            run.cancel("cancelled")
        elif message_id in self._opening:
            self._opening.discard(message_id)
            refusal = unknown(once.NAME, "cancelled", "cancelled before it began")
            self._connection.send(m.Result(message_id, once.NAME, refusal))

    def connection_lost(self) -> None:
        """Nobody waits any more."""
        self._opening.clear()
        for run in list(self._runs.values()):
            run.cancel("cancelled")

    def _answer(self, check: m.Check, blob: bytes) -> None:
        self._runs.pop(check.message_id, None)
        self._connection.send(m.Result(check.message_id, check.name, blob))
