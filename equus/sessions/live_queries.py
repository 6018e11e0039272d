"""Answer queries: Helen asks for a run of a check, and its result goes back on the same connection or nowhere.

A query names a check of the set, or brings one-off code with a signed order (one_off_code.py).
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger
from twisted.python.failure import Failure

from equus.code.library import CheckSet
from equus.link.connection import Connection
from equus.sandbox.job import Job
from equus.sandbox.runner import Run
from equus.schedule.jobs import job_for, unknown, unknown_check
from equus.schedule.secret_runner import RefusedRun, SecretRunner
from equus.sessions.one_off_code import OneOffOrders, OrderRefused
from equus_protocol import messages as m
from equus_protocol import one_off

log = Logger(namespace="equus.sessions.live_queries")


class LiveQueries:
    """Holds the open queries of one connection. `checks` returns the set in use."""

    def __init__(
        self, connection: Connection, runner: SecretRunner, checks: Callable[[], CheckSet], orders: OneOffOrders
    ) -> None:
        self._connection = connection
        self._runner = runner
        self._checks = checks
        self._orders = orders
        self._runs: dict[int, Run | RefusedRun] = {}
        self._opening: set[int] = set()  # message ids of orders that are being opened and were not cancelled

    def ask(self, check: m.Check) -> None:
        """Run a check for Helen. The conversation bounds the number of queries, the connection the bytes of args."""
        if check.name == one_off.NAME and self._connection.conversation.version == 2:
            self._open_order(check)
            return
        job = job_for(self._checks(), check.name, check.args)
        if job is None:
            self._answer(check, unknown_check(check.name))
            return
        self._run(check, job)

    def _run(self, check: m.Check, job: Job) -> None:
        self._runs[check.message_id] = self._runner.run(job, lambda blob: self._answer(check, blob))

    def _open_order(self, check: m.Check) -> None:
        self._opening.add(check.message_id)
        opened = self._orders.open(check.args)
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

    def cancel(self, message_id: int) -> None:
        """End a query with the result `cancelled`. A query with an unknown id has just been answered."""
        if run := self._runs.get(message_id):
            run.cancel("cancelled")
        elif message_id in self._opening:
            self._opening.discard(message_id)
            refusal = unknown(one_off.NAME, "cancelled", "cancelled before it began")
            self._connection.send(m.Result(message_id, one_off.NAME, refusal))

    def connection_lost(self) -> None:
        """Cancel all queries, because no answer can be sent any more."""
        self._opening.clear()
        for run in list(self._runs.values()):
            run.cancel("cancelled")

    def _answer(self, check: m.Check, blob: bytes) -> None:
        self._runs.pop(check.message_id, None)
        self._connection.send(m.Result(check.message_id, check.name, blob))
