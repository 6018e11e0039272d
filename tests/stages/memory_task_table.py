"""Keeps tasks in a dict: the reference that the table in SQLite is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from zerotask.tasks.task import Task


class MemoryTaskTable:
    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def find(self, task_id: str) -> Task | None:
        return self.tasks.get(task_id)

    def is_lost(self, task_id: str) -> bool:
        return False

    def add(self, task: Task) -> Task:
        seq = 1 + max((task.seq for task in self.tasks.values()), default=0)
        self.tasks[task.id] = task = replace(task, seq=seq)
        return task

    def save(self, task: Task) -> None:
        self.tasks[task.id] = task

    save_ended = save_expired = save

    def delete(self, task: Task) -> None:
        del self.tasks[task.id]

    def params(self, task: Task) -> bytes:
        return task.params

    def outcome(self, task: Task) -> bytes:
        return task.outcome

    def _sorted(self, key: str) -> list[Task]:
        return sorted(self.tasks.values(), key=lambda task: (getattr(task, key), task.seq))

    def under_lease(self, lease: int, limit: int) -> Iterable[Task]:
        return [task for task in self._sorted("seq") if task.lease == lease > 0][:limit]

    def has_suspect(self, lease: int, losses: int, since: float) -> bool:
        held = [task for task in self.tasks.values() if task.lease == lease > 0]
        return any(task.losses >= losses and task.claimed > since for task in held)

    def overrun(self, now: float, grace: float, limit: int) -> Iterable[Task]:
        return [t for t in self._sorted("seq") if t.lease and t.claimed + t.time_limit + grace <= now][:limit]

    def move_claims(self, seconds: float) -> None:
        for task in [task for task in self.tasks.values() if task.lease]:
            self.save(replace(task, claimed=task.claimed + seconds))

    def expired(self, now: float, limit: int) -> Iterable[Task]:
        return [task for task in self._sorted("expires") if 0 < task.expires <= now][:limit]
