"""Takes tasks from nodes whose lease has ended, and deletes results after their time. Pure.

A lease is a number that the broker gives to one connection of a node. Beats renew it there and cost nothing here; when
it lapses, all tasks under its number are queued again. Each method is one step of at most SWEEP tasks: it is called
again while it returns SWEEP.
"""

from __future__ import annotations

from msgspec.structs import replace

from zerotask import errors
from zerotask.tasks.task import EXPIRED, RETURNS_FREE
from zerotask.tasks.task_changes import TaskChanges

TOMBSTONE = 7 * 86_400.0  # seconds in which an expired id still says "expired" and cannot be taken again
OVERRUN_GRACE = 7.5  # seconds beyond time_limit in which a node has to end the work and report it: one lease
SWEEP = 500  # tasks changed in one step of a sweep: some milliseconds of the writer's time


class LeaseEnds(TaskChanges):
    """Adds the ends of leases, time limits and results to the changes of tasks."""

    def release(self, lease: int, now: float) -> int:
        """Queue what a node gives back, without backoff; return how many tasks. `now`: task-clock seconds.

        It costs no attempt, RETURNS_FREE times. It is one step: call it again while it returns SWEEP.
        """
        tasks = list(self.table.under_lease(lease, SWEEP))
        for task in tasks:
            if task.returned < RETURNS_FREE:
                self._requeue(replace(task, returned=task.returned + 1), 0.0, now)
            elif task.failures < task.max_attempts:
                self._requeue(task, 0.0, now)
            else:
                self._fail_as_lost(task, f"node {task.node} gave it back", now)
        return len(tasks)

    def lapse(self, lease: int, now: float) -> int:
        """Queue what a silent or vanished node holds, with backoff; return how many tasks. `now`: task-clock seconds.

        The node may still finish if it is the first to do so. It is one step: call it again while it returns SWEEP.
        """
        tasks = list(self.table.under_lease(lease, SWEEP))
        for task in tasks:
            lost = replace(task, losses=task.losses + 1, lost_by=with_node(task.lost_by, task.node))
            if lost.losses < task.max_attempts:
                self._requeue(lost, self._backoff(task), now)
            else:
                self._fail_as_lost(replace(task, losses=lost.losses), f"node {task.node} was lost", now)
        return len(tasks)

    def overrun(self, now: float) -> int:
        """Take tasks from nodes that exceeded the time limit and did not report it; return how many, at most SWEEP.

        `now`: task-clock seconds.
        """
        tasks = list(self.table.overrun(now, OVERRUN_GRACE, SWEEP))
        for task in tasks:
            if task.failures < task.max_attempts:
                late = replace(task, lost_by=with_node(task.lost_by, task.node))
                self._requeue(late, self._backoff(task), now, stop=True)
            else:
                message = f"no end within the time limit of {task.time_limit:g} s"
                self._fail_for_good(task, errors.TIME_LIMIT, message, now)
        return len(tasks)

    def forgive(self, seconds: float) -> None:
        """Move the time limits of all tasks that are held: for `seconds` the broker stood still and read no report."""
        self.table.move_claims(seconds)

    def expire(self, now: float) -> int:
        """Delete results after their time, and ids TOMBSTONE later; return how many, at most SWEEP.

        `now`: task-clock seconds.
        """
        tasks = list(self.table.expired(now, SWEEP))
        for task in tasks:
            if task.state == EXPIRED:
                self.table.delete(task)
            else:
                self.table.save_expired(
                    replace(
                        task,
                        state=EXPIRED,
                        expires=now + TOMBSTONE,
                        updated=now + self.unix_ahead,
                        params=None,
                        outcome=None,
                    )
                )
        return len(tasks)


def with_node(lost_by: str, node: str | None) -> str:
    """Return the nodes that have lost a task, with one more; each stands between two spaces."""
    return lost_by if node is None or f" {node} " in lost_by else f"{lost_by or ' '}{node} "
