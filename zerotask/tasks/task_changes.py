"""Writes what a task becomes (queued again, or ended) into its table, with a notice for the broker. Pure.

ledger.py tells which calls lead to it, lease_ends.py which ends of leases do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from zerotask import errors
from zerotask.tasks.task import FAILED, LIVE, QUEUED, Notice, Task, TaskTable

BACKOFF_FIRST = 1.0  # seconds before the second attempt; doubles with each
BACKOFF_MOST = 300.0  # seconds: while a dependency is down, a task is tried every five minutes

Encode = Callable[[Any], bytes]


class TaskChanges:
    """Changes the tasks of one table. `now` is task-clock seconds in every method.

    `unix_ahead`: unix seconds minus task-clock seconds, for stamps. `notices` collects the changes for the broker.
    """

    def __init__(self, table: TaskTable, chance: Callable[[], float], encode: Encode) -> None:
        self.table = table
        self.notices: list[Notice] = []
        self.unix_ahead = 0.0
        self._chance = chance  # 0 <= x < 1, for the jitter
        self._encode = encode

    def _backoff(self, task: Task) -> float:
        """Return between half and all of 1 s, 2 s, 4 s ..., so that tasks that failed together spread out."""
        whole = min(BACKOFF_FIRST * 2.0 ** min(task.attempts - 1, 32), BACKOFF_MOST)
        return whole * (1.0 - self._chance() / 2)

    def _fail_as_lost(self, task: Task, why: str, now: float) -> None:
        """End a task whose node went away too often; the sentence says how often it was claimed and lost."""
        message = (
            f"{why} in attempt {task.attempts}; {task.losses} lost with their node, max_attempts {task.max_attempts}"
        )
        self._fail_for_good(task, errors.NODE_LOST, message, now)

    def _requeue(self, task: Task, wait: float, now: float, stop: bool = False) -> None:
        queued = replace(task, state=QUEUED, node=None, lease=0, due=now + wait, updated=now + self.unix_ahead)
        self._save(queued, task.node, stop)

    def _save(self, task: Task, holder: str | None, stop: bool = False) -> None:
        self.table.save(task)
        self.notices.append(Notice(task, holder, stop))

    def _fail_for_good(self, task: Task, code: int, message: str, now: float) -> None:
        outcome = self._encode({"code": code, "message": message})
        self._end(task, FAILED, task.node, outcome, now, stop=task.state in LIVE)

    def _end(self, task: Task, state: str, node: str | None, outcome: bytes, now: float, stop: bool = False) -> None:
        expires = now + task.result_ttl
        ended = replace(
            task, state=state, node=node, lease=0, updated=now + self.unix_ahead, expires=expires, outcome=outcome
        )
        self.table.save_ended(ended)
        self.notices.append(Notice(ended, task.node, stop or task.node not in (None, node)))
