"""A Runner that puts secrets into arguments on their way in, and takes them out of results on their way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from equus.jobs import unknown
from equus.policy import Policy
from equus.redaction import Redaction
from equus.sandbox.job import Job
from equus.sandbox.runner import Run, Runner
from equus.secrets import Secrets


class Refused:
    """A run that never was; its result is on the way."""

    def cancel(self, reason: str = "cancelled") -> None:
        """Nothing is left to end."""


def without(hide: Redaction, check: str, blob: bytes) -> bytes:
    """The result document without these values. One that can't be read is not let through."""
    try:
        return hide.document(blob)
    except (ValueError, RecursionError):
        return unknown(check, "crashed", "the result can't be read, so the secrets in it could not be hidden")


class SecretRunner:
    """As a Runner; whoever uses it knows nothing of secrets."""

    def __init__(self, reactor: Any, runner: Runner, secrets: Secrets) -> None:
        self._reactor = reactor
        self._runner = runner
        self._secrets = secrets
        self.inspect = runner.inspect

    @property
    def isolation(self) -> str:
        return self._runner.isolation

    @property
    def kills(self) -> int:
        return self._runner.kills

    @property
    def waiting(self) -> int:
        return self._runner.waiting

    def run(self, job: Job, done: Callable[[bytes], None]) -> Run | Refused:
        """One run. A secret that can't be had is its result, `bad-arguments`."""
        resolved = self._secrets.resolve(job.check, job.args)
        if isinstance(resolved, str):
            self._reactor.callLater(0, done, unknown(job.check, "bad-arguments", resolved))
            return Refused()
        if not resolved.values:
            return self._runner.run(job, done)
        hide = Redaction(resolved.values)
        knowing = evolve(job, args=resolved.args, secrets=resolved.values)
        return self._runner.run(knowing, lambda blob: done(without(hide, job.check, blob)))

    def reload(self, policy: Policy) -> None:
        self._runner.reload(policy)

    def stop(self) -> None:
        self._runner.stop()
