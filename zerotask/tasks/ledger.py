"""Keeps the rules of a task's life: which calls are accepted for a task at `now`, and what it becomes by them.

    queued -> assigned -> running -> finished | failed -> expired -> (deleted)
    assigned, running -> queued when the lease is lost, given back, or the attempt failed and may be repeated

A task has `max_attempts` failures, and as many losses of its node: a node that dies says nothing of the other tasks
that it held. A task that a node gives back in order counts as neither, RETURNS_FREE times.

Pure: no I/O and no clock. Tasks lie in a TaskTable, and `now`, task-clock seconds (storage/task_clock.py), comes with
each call; only the stamp `updated` is unix seconds. `notices` collects the changes that the broker has to act on: a
task waits, is taken, has ended. Every refusal is raised before the table is changed, so that a refused call leaves no
trace.

lease_ends.py has the ends of leases and of results, task_changes.py what a task becomes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks.lease_ends import LeaseEnds
from zerotask.tasks.task import (
    ASSIGNED,
    ENDED,
    EXPIRED,
    FAILED,
    FINISHED,
    LIVE,
    QUEUED,
    RUNNING,
    WATCH_SECONDS,
    Notice,
    Submission,
    Task,
)

LOSSES_APART = 2  # after one, a node may take over all that another has lost; before the last of three it is decided


class KeptApart(RpcError):
    """Refuses a claim for now: the task stays queued, for another node, or for this one later."""


class Ledger(LeaseEnds):
    """Applies the rules of a task's life to the tasks of one table. `now` is task-clock seconds in every method."""

    # ------------------------------------------------------------------------------------------- clients

    def submit(self, submission: Submission, now: float) -> str:
        """Queue a new task and return its id. `now`: task-clock seconds.

        Raises RpcError TASK_TAKEN if the id is taken; its data is {"identical": bool}, so that a client can repeat a
        submission until it is answered.
        """
        known = self.table.find(submission.task_id)
        if known is not None:
            same = self._is_same(known, submission)
            message = f"task id {submission.task_id} is taken" + (" by this very task" if same else "; choose another")
            raise RpcError(errors.TASK_TAKEN, message, {"identical": same})
        task = self.table.add(_new_task(submission, now, now + self.unix_ahead))
        self.notices.append(Notice(task))
        return task.id

    def _is_same(self, known: Task, submission: Submission) -> bool:
        own = (known.client, known.key, known.method) == (submission.client, submission.key, submission.method)
        return own and known.state != EXPIRED and self.table.params(known) == submission.params

    def task(self, task_id: str, now: float, client: str | None = None, key: str = "") -> Task:
        """Return a task as it is at `now` (task-clock seconds). An operator gives no `client` and sees every task.

        Raises RpcError TASK_UNKNOWN if there is none, or if it belongs to another client or key.
        """
        task = self._existing(task_id)
        if client is not None and (task.client, task.key) != (client, key):
            raise _unknown(task_id)
        return replace(task, state=EXPIRED) if _is_past(task, now) else task

    def result(self, task_id: str, now: float, client: str | None = None, key: str = "") -> tuple[bool, bytes]:
        """Return True and the result of a finished task, or False and the error of a failed one, as JSON.

        `now`: task-clock seconds. Raises RpcError if the task is unknown to the client, has not ended or has expired.
        """
        task = self.task(task_id, now, client, key)
        if task.state == EXPIRED:
            raise RpcError(errors.EXPIRED, f"the result of {task_id} has expired; submit the task again")
        if task.state not in ENDED:
            raise RpcError(errors.NOT_FINISHED, f"{task_id} is {task.state}; ask again later", {"state": task.state})
        return task.state == FINISHED, self.table.outcome(task)

    def cancel(self, task_id: str, now: float, client: str | None = None, key: str = "") -> bool:
        """End a task as failed with CANCELLED; return False if it had ended before. `now`: task-clock seconds."""
        task = self.task(task_id, now, client, key)
        if task.state in (*ENDED, EXPIRED):
            return False
        self._fail_for_good(task, errors.CANCELLED, "cancelled on request", now)
        return True

    def retry(self, task_id: str, now: float) -> bool:
        """Queue a failed task again, with all its attempts. `now`: task-clock seconds.

        Raises RpcError TASK_INVALID if it is in another state, TASK_UNKNOWN if there is none.
        """
        task = self.task(task_id, now)
        if task.state != FAILED:
            raise RpcError(errors.TASK_INVALID, f"{task_id} is {task.state}; only a failed task can be retried")
        fresh = replace(task, state=QUEUED, attempts=0, node=None, due=now, updated=now + self.unix_ahead, expires=0.0)
        self._save(replace(fresh, lost_by="", failed_by="", returned=0, losses=0), None)
        return True

    def close(self, task_id: str) -> None:
        """Delete a task in any state, and free its id. Does nothing if there is none."""
        task = self.table.find(task_id)
        if task is not None:
            self.table.delete(task)
            self.notices.append(Notice(replace(task, state=EXPIRED, lease=0), task.node, task.state in LIVE))

    # --------------------------------------------------------------------------------------------- nodes

    def claim(self, task_id: str, node: str, lease: int, now: float) -> tuple[Task, bytes] | None:
        """Give a queued task to a node; return it with its parameters, None if it cannot be claimed.

        `now`: task-clock seconds. None is normal: another node was faster, or the task is not due yet. Raises KeptApart
        if both this task and one that the node holds have lost LOSSES_APART nodes: the next loss is to tell which of
        them it was.
        """
        task = self._existing(task_id)
        if task.state != QUEUED or task.due > now:
            return None
        if task.losses >= LOSSES_APART and self.table.has_suspect(lease, LOSSES_APART, now - WATCH_SECONDS):
            raise KeptApart(errors.TASK_INVALID, f"{task_id} is for a node without another task that lost nodes")
        held = replace(
            task,
            state=ASSIGNED,
            attempts=task.attempts + 1,
            node=node,
            lease=lease,
            claimed=now,
            updated=now + self.unix_ahead,
        )
        self.table.save(held)
        self.notices.append(Notice(held, node))
        return held, self.table.params(task)

    def report(self, task_id: str, node: str, lease: int, status: Any, detail: dict[str, Any], now: float) -> bool:
        """Save the status that a node reports; its first report makes an assigned task running.

        `now`: task-clock seconds. Raises RpcError NOT_YOUR_LEASE if the node does not hold the task.
        """
        task = self._existing(task_id)
        if not _holds(task, node):
            raise _not_yours(task_id)
        reported = replace(task, status=self._encode(status), detail=self._encode(detail))
        self.table.save(replace(reported, state=RUNNING, lease=lease, updated=now + self.unix_ahead))
        return True

    def finish(self, task_id: str, node: str, result: bytes, now: float) -> bool:
        """End a task with a result, from its holder or from a node that lost its lease. `now`: task-clock seconds.

        The first result counts, and the same node may repeat it. Raises RpcError NOT_YOUR_LEASE for any other.
        """
        task = self._existing(task_id)
        if task.state == FINISHED and task.node == node:
            return True
        if task.state not in (QUEUED, *LIVE) or not (_holds(task, node) or _is_lost_by(task, node)):
            raise _not_yours(task_id)
        self._end(task, FINISHED, node, result, now)
        return True

    def fail(self, task_id: str, node: str, error: dict[str, Any], retry: bool, now: float) -> bool:
        """End an attempt: queue the task again while attempts are left and `retry` is true, or else end it as failed.

        `now`: task-clock seconds. A repetition is true. Raises RpcError NOT_YOUR_LEASE if the node does not hold it.
        """
        task = self._existing(task_id)
        if task.state in (QUEUED, FAILED) and task.failed_by == node:
            return True
        if not _holds(task, node):
            raise _not_yours(task_id)
        task = replace(task, failed_by=node)
        if retry and task.failures < task.max_attempts:
            self._requeue(task, self._backoff(task), now)
        else:
            self._end(task, FAILED, node, self._encode(error), now)
        return True

    def adopt(self, node: str, lease: int, tasks: Iterable[str], now: float) -> int:
        """Put the tasks that a node still works on under the lease of its new connection; return how many.

        `now`: task-clock seconds. Takes back also what was queued because the node seemed lost, unless another node has
        it: it need not run twice.
        """
        adopted = 0
        for task_id in tasks:
            task = self.table.find(task_id)
            if task is None or not (_holds(task, node) or (task.state == QUEUED and _is_lost_by(task, node))):
                continue
            if task.state == QUEUED:  # its node was not lost after all
                task = replace(task, state=ASSIGNED, losses=max(task.losses - 1, 0))
            held = replace(task, node=node, lease=lease, updated=now + self.unix_ahead)
            self._save(held, node)
            adopted += 1
        return adopted

    def not_held(self, node: str, tasks: Iterable[str]) -> list[str]:
        """Return those of `tasks` that a node does not hold: ended, queued, deleted, or held by another node."""
        found = [(task_id, self.table.find(task_id)) for task_id in tasks]
        return [task_id for task_id, task in found if task is None or not _holds(task, node)]

    def _existing(self, task_id: str) -> Task:
        task = self.table.find(task_id)
        if task is not None:
            return task
        if self.table.is_lost(task_id):
            message = f"task {task_id} was lost when the broker's database was damaged; submit it again"
            raise RpcError(errors.TASK_UNKNOWN, message)
        raise _unknown(task_id)


def _new_task(submission: Submission, now: float, updated: float) -> Task:
    options = submission.options
    return Task(
        seq=0,
        id=submission.task_id,
        client=submission.client,
        key=submission.key,
        method=submission.method,
        priority=options.priority,
        time_limit=options.time_limit,
        max_attempts=options.max_attempts,
        result_ttl=options.result_ttl,
        submitted=now,
        due=now + options.delay,
        state=QUEUED,
        attempts=0,
        node=None,
        lease=0,
        claimed=0.0,
        updated=updated,
        status=b"null",
        detail=b"{}",
        lost_by=" ",
        failed_by="",
        expires=0.0,
        params=submission.params,
        outcome=None,
        returned=0,
        losses=0,
    )


def _holds(task: Task, node: str) -> bool:
    return task.state in LIVE and task.node == node


def _is_lost_by(task: Task, node: str) -> bool:
    return f" {node} " in task.lost_by


def _is_past(task: Task, now: float) -> bool:
    return task.state in ENDED and task.expires <= now


def _unknown(task_id: str) -> RpcError:
    return RpcError(errors.TASK_UNKNOWN, f"no task {task_id}")


def _not_yours(task_id: str) -> RpcError:
    return RpcError(errors.NOT_YOUR_LEASE, f"this node does not hold {task_id}; drop the work")
