"""Defines a task, its states, and the values that the ledger's rules take and give.

Pure. Times are task-clock seconds (storage/task_clock.py), because tasks outlive the process, but for the stamp
`updated`, which is unix seconds; lengths are seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attrs import frozen
from msgspec import Struct

QUEUED, ASSIGNED, RUNNING = "queued", "assigned", "running"
FINISHED, FAILED, EXPIRED = "finished", "failed", "expired"
LIVE = (ASSIGNED, RUNNING)
ENDED = (FINISHED, FAILED)
STATES = (QUEUED, *LIVE, *ENDED, EXPIRED)
WATCH_SECONDS = 300.0  # for which a task that lost a node is the only such one of its node: long enough to do it again

# Bounds of what a task may ask for. They keep arithmetic sane; each is far beyond any sensible use.
MOST_ATTEMPTS = 100
LONGEST = 366 * 86_400.0  # seconds, of delay, time_limit and result_ttl
RETURNS_FREE = 10  # times that a task may be given back in order before that counts: a node in a restart loop


@frozen
class Options:
    """Lists the options of a task. docs/zerotask.rst has the same defaults."""

    priority: int = 4  # 0 to 9; 9 goes first
    delay: float = 0.0  # seconds before it may be claimed
    time_limit: float = 3600.0  # seconds of one attempt
    max_attempts: int = 3
    result_ttl: float = 86_400.0  # seconds for which the outcome is kept


class Submission(Struct, frozen=True):
    """Describes a task that a client submits; its parts have been checked."""

    task_id: str
    client: str
    key: str
    method: str
    params: bytes
    options: Options


class Task(Struct, frozen=True):
    """Holds one task: a row of the table. `seq` is the order of submission.

    It is a Struct, which is fast to copy: each task is copied three times on its way.
    """

    seq: int
    id: str
    client: str
    key: str
    method: str
    priority: int
    time_limit: float
    max_attempts: int
    result_ttl: float
    submitted: float
    due: float
    state: str
    attempts: int
    node: str | None  # the node that holds it, or that ended it
    lease: int  # 0 unless held
    claimed: float
    updated: float
    status: bytes  # JSON: the last status that the node reported
    detail: bytes  # JSON object: the kwargs that came with it
    lost_by: str  # names of nodes that lost their lease, between spaces: their late finish still counts
    failed_by: str  # the node that reported the last failure, so that it may repeat the report
    expires: float  # of an ended task the end of its result, of an expired one the end of its id; otherwise 0
    params: bytes | None  # JSON; None if it is too big for the row, or deleted
    outcome: bytes | None  # JSON: the result, or the error object; None also before the end
    returned: int  # claims that were given back in order and don't count, at most RETURNS_FREE
    losses: int  # claims that ended with the loss of their node

    @property
    def failures(self) -> int:
        """Return the claims that count for max_attempts: neither given back nor lost. The present one is among them."""
        return self.attempts - self.returned - self.losses


class Notice(Struct, frozen=True):
    """Tells of a task that has changed its state, and of the node that holds it or held it."""

    task: Task
    holder: str | None = None
    stop: bool = False  # the holder may still work on it, in vain, and is told to stop


class TaskTable(Protocol):
    """Stores tasks: SQLite in the broker, a dict in the tests."""

    def find(self, task_id: str) -> Task | None: ...
    def is_lost(self, task_id: str) -> bool: ...  # with a damaged part of the table
    def add(self, task: Task) -> Task: ...  # returns it with its seq
    def save(self, task: Task) -> None: ...
    def save_ended(self, task: Task) -> None: ...  # saves the task and its outcome
    def save_expired(self, task: Task) -> None: ...  # saves the task, deletes its params and outcome
    def delete(self, task: Task) -> None: ...
    def params(self, task: Task) -> bytes: ...
    def outcome(self, task: Task) -> bytes: ...
    def has_suspect(self, lease: int, losses: int, since: float) -> bool: ...  # one with these losses, claimed after
    def under_lease(self, lease: int, limit: int) -> Iterable[Task]: ...
    def overrun(self, now: float, grace: float, limit: int) -> Iterable[Task]: ...
    def move_claims(self, seconds: float) -> None: ...  # of all tasks that are held
    def expired(self, now: float, limit: int) -> Iterable[Task]: ...  # 0 < expires <= now


COLUMNS = Task.__struct_fields__
