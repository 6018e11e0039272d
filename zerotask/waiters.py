"""Calls that wait for a task to end.

Pure. A waiter is told when its task ends; when its patience is over it asks the store, and what that says is the
answer, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.ledger import Notice

MOST = 50_000  # waiting calls, some 25 MB


@define(eq=False)
class Waiter:
    """One waiting call. `over`: it takes any answer now."""

    task_id: str
    until: float
    tell: Callable[[Notice], None]
    ask: Callable[[], None]
    over: bool = False


class Waiters:
    def __init__(self) -> None:
        self._by_task: dict[str, dict[Waiter, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, task_id: str, until: float, tell: Callable[[Notice], None], ask: Callable[[], None]) -> Waiter:
        if self._count >= MOST:
            raise RpcError(errors.OVERLOADED, f"more than {MOST} calls are waiting for results; ask without `wait`")
        waiter = Waiter(task_id, until, tell, ask)
        self._by_task.setdefault(task_id, {})[waiter] = None
        self._count += 1
        return waiter

    def forget(self, waiter: Waiter) -> None:
        """It has been answered."""
        waiter.over = True
        waiting = self._by_task.get(waiter.task_id, {})
        if waiter in waiting:
            del waiting[waiter]
            self._count -= 1
            if not waiting:
                del self._by_task[waiter.task_id]

    def ended(self, notice: Notice) -> None:
        for waiter in list(self._by_task.get(notice.task.id, ())):
            waiter.tell(notice)

    def give_up(self, now: float) -> None:
        """Each asks once; what it is answered is for good."""
        for waiting in list(self._by_task.values()):
            for waiter in [waiter for waiter in waiting if waiter.until <= now]:
                self.forget(waiter)
                waiter.ask()
