"""Calls that wait for a task to end.

Pure. A waiter is told when its task ends; when its patience is over it asks the store, and what that says is the
answer, whatever it is.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from attrs import define

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.ledger import Notice

MOST = 50_000  # waiting calls, some 25 MB
SLACK = 1_000  # answered calls that may stay in the heap beside as many as are waiting


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
        self._patience: list[tuple[float, int, Waiter]] = []  # a heap; those that are over are passed over
        self._numbers = itertools.count()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, task_id: str, until: float, tell: Callable[[Notice], None], ask: Callable[[], None]) -> Waiter:
        if self._count >= MOST:
            raise RpcError(errors.OVERLOADED, f"more than {MOST} calls are waiting for results; ask without `wait`")
        waiter = Waiter(task_id, until, tell, ask)
        self._by_task.setdefault(task_id, {})[waiter] = None
        self._count += 1
        if len(self._patience) > 2 * self._count + SLACK:
            self._patience = [entry for entry in self._patience if not entry[2].over]
            heapq.heapify(self._patience)
        heapq.heappush(self._patience, (until, next(self._numbers), waiter))
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
        while self._patience and self._patience[0][0] <= now:
            _, _, waiter = heapq.heappop(self._patience)
            if not waiter.over:
                self.forget(waiter)
                waiter.ask()
