"""Ad-hoc checks: Helen asks on a connection, and the answer goes back on that same connection or nowhere."""

from __future__ import annotations

from collections.abc import Callable

from equus.connection import Connection
from equus.jobs import job_for, unknown_check
from equus.library import CheckSet
from equus.sandbox.runner import Run, Runner
from equus_protocol import messages as m


class Questions:
    """What is being asked on one connection."""

    def __init__(self, connection: Connection, runner: Runner, checks: Callable[[], CheckSet]) -> None:
        self._connection = connection
        self._runner = runner
        self._checks = checks
        self._runs: dict[int, Run] = {}

    def asked(self, check: m.Check) -> None:
        """The number of open questions is bounded by the conversation, the bytes of their args by the connection."""
        job = job_for(self._checks(), check.name, check.args)
        if job is None:
            self._answer(check, unknown_check(check.name))
            return
        self._runs[check.message_id] = self._runner.run(job, lambda blob: self._answer(check, blob))

    def cancelled(self, message_id: int) -> None:
        """Its result says so. An id that is unknown has been answered a moment ago."""
        if run := self._runs.get(message_id):
            run.cancel("cancelled")

    def connection_lost(self) -> None:
        """Nobody waits any more."""
        for run in list(self._runs.values()):
            run.cancel("cancelled")

    def _answer(self, check: m.Check, blob: bytes) -> None:
        self._runs.pop(check.message_id, None)
        self._connection.send(m.Result(check.message_id, check.name, blob))
