"""Keeps the calls that wait for a task to end.

Pure. A waiter is told of the end of its task. When its time is over it asks the store, and takes that answer whatever
it is. Times are monotonic seconds.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from attrs import define

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.tasks.task import Notice

MOST = 50_000  # waiting calls, some 25 MB
SLACK = 1_000  # answered calls that may stay in the heap beside as many as are waiting


@define(eq=False)
class Waiter:
    """Holds one waiting call. When it is `over`, it takes any answer."""

    task_id: str
    until: float  # monotonic seconds
    on_end: Callable[[Notice], None]
    on_timeout: Callable[[], None]
    over: bool = False


class Waiters:
    """Finds waiting calls by their task, and by the end of their time."""

    def __init__(self) -> None:
        self._by_task: dict[str, dict[Waiter, None]] = {}
        self._by_time: list[tuple[float, int, Waiter]] = []  # a heap; those that are over are passed over
        self._numbers = itertools.count()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self, task_id: str, until: float, on_end: Callable[[Notice], None], on_timeout: Callable[[], None]
    ) -> Waiter:
        """Add a call that waits for a task until `until` (monotonic seconds).

        Raises RpcError OVERLOADED if MOST calls wait.
        """
        if self._count >= MOST:
            raise RpcError(errors.OVERLOADED, f"more than {MOST} calls are waiting for results; ask without `wait`")
        waiter = Waiter(task_id, until, on_end, on_timeout)
        self._by_task.setdefault(task_id, {})[waiter] = None
        self._count += 1
        if len(self._by_time) > 2 * self._count + SLACK:
            self._by_time = [entry for entry in self._by_time if not entry[2].over]
            heapq.heapify(self._by_time)
        heapq.heappush(self._by_time, (until, next(self._numbers), waiter))
        return waiter

    def forget(self, waiter: Waiter) -> None:
        """Remove a call that has been answered, or that takes the next answer."""
        waiter.over = True
        waiting = self._by_task.get(waiter.task_id, {})
        if waiter in waiting:
            del waiting[waiter]
            self._count -= 1
            if not waiting:
                del self._by_task[waiter.task_id]

    def ended(self, notice: Notice) -> None:
        """Tell the calls that wait for a task of its end."""
        for waiter in list(self._by_task.get(notice.task.id, ())):
            waiter.on_end(notice)

    def lost(self, task_id: str) -> None:
        """Let the calls that wait for a task ask the store now: it is not there any more."""
        for waiter in list(self._by_task.get(task_id, ())):
            self.forget(waiter)
            waiter.on_timeout()

    def give_up(self, now: float) -> None:
        """Let each call ask the store once if its time is over. `now`: monotonic seconds."""
        while self._by_time and self._by_time[0][0] <= now:
            _, _, waiter = heapq.heappop(self._by_time)
            if not waiter.over:
                self.forget(waiter)
                waiter.on_timeout()
