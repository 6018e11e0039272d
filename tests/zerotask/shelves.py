"""A shelf in a dict: the reference that SQLite's is compared with."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from zerotask.ledger import Task


class MemoryShelf:
    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def find(self, task_id: str) -> Task | None:
        return self.tasks.get(task_id)

    def add(self, task: Task) -> Task:
        seq = 1 + max((task.seq for task in self.tasks.values()), default=0)
        self.tasks[task.id] = task = replace(task, seq=seq)
        return task

    def save(self, task: Task) -> None:
        self.tasks[task.id] = task

    conclude = strip = save

    def drop(self, task: Task) -> None:
        del self.tasks[task.id]

    def params(self, task: Task) -> bytes:
        return task.params

    def outcome(self, task: Task) -> bytes:
        return task.outcome

    def _sorted(self, key: str) -> list[Task]:
        return sorted(self.tasks.values(), key=lambda task: (getattr(task, key), task.seq))

    def held(self, lease: int, limit: int) -> Iterable[Task]:
        return [task for task in self._sorted("seq") if task.lease == lease > 0][:limit]

    def overrun(self, now: float, grace: float, limit: int) -> Iterable[Task]:
        return [t for t in self._sorted("seq") if t.lease and t.claimed + t.time_limit + grace <= now][:limit]

    def past(self, now: float, limit: int) -> Iterable[Task]:
        return [task for task in self._sorted("expires") if 0 < task.expires <= now][:limit]
