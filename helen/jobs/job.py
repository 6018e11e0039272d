"""Define a job and its state: a query to agents that is on record. Pure."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from helen.jobs.errors import UnknownJob

ENDED = ("finished", "failed", "cancelled", "expired", "unknown")


class Job(msgspec.Struct, frozen=True):
    """Describes one job on record. `submitted` and `deadline` are unix seconds; None: no agent is waited for.

    `timeout` is in seconds, `of` is the job that this one retries, `code` the SHA-256 of a check that is in no set.
    """

    id: str
    check: str
    on: list[str]
    targets: list[str]
    args: dict[str, Any]
    timeout: float
    submitted: float
    deadline: float | None = None
    of: str | None = None
    code: str | None = None

    @property
    def place(self) -> tuple[float, str]:
        """Return the key by which the newest come first, and no two are alike."""
        return -self.submitted, self.id

    @property
    def ends_at(self) -> float:
        """Return when every agent has answered or never will, in unix seconds."""
        return max(self.submitted, self.deadline or 0.0) + self.timeout


@attrs.frozen
class State:
    """Tells the state of a job: the task's, or `cancelled`; `why` is for a failure."""

    state: str
    why: str | None = None

    @property
    def is_over(self) -> bool:
        """Return True if no target of the job gets another outcome."""
        return self.state in ENDED

    @property
    def why_open(self) -> str:
        """Return the reason for a target that is still open when its job is over."""
        return "the job was cancelled" if self.state == "cancelled" else f"the job is over: {self.why or self.state}"


def unknown_job(job_id: str) -> UnknownJob:
    """Return the error for a job that is not on record, or not for the caller to see."""
    return UnknownJob(f"no job is called {job_id!r}: `helen jobs list` has them")
