"""Run checks with secrets: put them into the arguments of each run, and hide them in its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from equus.policy.policy import Policy
from equus.sandbox.job import Job
from equus.sandbox.runner import Run, Runner
from equus.schedule.jobs import unknown
from equus.secrets.redaction import Redaction
from equus.secrets.references import Secrets


class RefusedRun:
    """Stands for a run that was not started; its result is already scheduled."""

    def cancel(self, reason: str = "cancelled") -> None:
        """Do nothing, because nothing runs."""


def redact_result(redaction: Redaction, check: str, blob: bytes) -> bytes:
    """Return a result document with all values masked. If it can't be read, an `unknown` result takes its place."""
    try:
        return redaction.document(blob)
    except (ValueError, RecursionError):
        return unknown(check, "crashed", "the result can't be read, so the secrets in it could not be hidden")


class SecretRunner:
    """Runs checks with secrets. It has a Runner's interface, so that its callers know nothing of secrets."""

    def __init__(self, reactor: Any, runner: Runner, secrets: Secrets) -> None:
        self._reactor = reactor
        self._runner = runner
        self._secrets = secrets
        self.inspect = runner.inspect

    @property
    def isolation(self) -> str:
        """Return the Runner's `isolation`."""
        return self._runner.isolation

    @property
    def kills(self) -> int:
        """Return how many workers the Runner has killed."""
        return self._runner.kills

    @property
    def unbound_secrets(self) -> list[str]:
        """Return the names of the secrets that go to whatever address an assignment names."""
        return self._secrets.unbound

    @property
    def waiting(self) -> int:
        """Return how many runs wait in the Runner."""
        return self._runner.waiting

    def run(self, job: Job, done: Callable[[bytes], None]) -> Run | RefusedRun:
        """Start a run; `done` gets its result document. If a secret is missing, the result is `bad-arguments`."""
        resolved = self._secrets.resolve(job.check, job.args)
        if isinstance(resolved, str):
            self._reactor.callLater(0, done, unknown(job.check, "bad-arguments", resolved))
            return RefusedRun()
        if not resolved.values:
            return self._runner.run(job, done)
        redaction = resolved.redaction
        resolved_job = evolve(job, args=resolved.args, secrets=resolved.values, bound=resolved.bound)
        return self._runner.run(resolved_job, lambda blob: done(redact_result(redaction, job.check, blob)))

    def reload(self, policy: Policy) -> None:
        """Use another policy from now on."""
        self._runner.reload(policy)

    def stop(self) -> None:
        """Cancel all runs and stop the Runner."""
        self._runner.stop()
