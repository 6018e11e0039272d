"""Brings queued tasks to nodes: fills the ready window from the store, offers tasks, and announces the others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from zerotask.broker.broker_state import BrokerState
from zerotask.broker.ready_window import SERVED_MOST
from zerotask.errors import RpcError
from zerotask.storage.task_table import QueuedTask, sql_table
from zerotask.tasks.ledger import Ledger
from zerotask.wire import jsonrpc, methods

READ_AGAIN = 1.0  # seconds after which a failed read of due tasks is repeated
DUE_MOST = 1_000  # delayed tasks in one read of the store
RETURNED_SECONDS = 10.0  # for which a task that is queued again is announced: a subscriber joins within some of them
RETURNED_EACH = 100  # of such tasks in one round of repeats: 10 kB/s to each subscriber
RETURNED_MOST = 10_000  # such tasks that are remembered; some 3 MB
OVERLAP = 0.25  # seconds: a task may have come due so long before the start without having been read; one tick

Publish = Callable[[bytes], None]


class Dispatcher:
    """Decides when to read queued tasks from the store, and sends what the ready window offers."""

    def __init__(self, state: BrokerState, publish: Publish) -> None:
        self._state, self._publish = state, publish
        self._last_due: tuple[float, int] = (state.at - OVERLAP, 0)  # due and seq of the last delayed task read
        self._next_due: float | None = state.at  # task-clock seconds of the next read of delayed tasks
        # Task -> itself and the end of its announcements in monotonic seconds; the one announced longest ago first.
        self._returned: OrderedDict[str, tuple[QueuedTask, float]] = OrderedDict()

    # ------------------------------------------------------------------------------------------- new tasks

    def add(self, task: QueuedTask, is_back: bool = False) -> bool:
        """Put a queued task into the window, or note when it comes due; return True if it is to be announced.

        One that is back from a node is, also when the window has no room: listeners may have passed over it before.
        """
        if task.due > self._state.at:
            self._next_due = task.due if self._next_due is None else min(self._next_due, task.due)
            return False
        if is_back:
            self._announce_for_a_while(task)
        return self._state.window.add(task) or is_back

    def _announce_for_a_while(self, task: QueuedTask) -> None:
        """Let `repeat` announce a task that was given back or came due, whatever stands before it."""
        self._returned[task.id] = (task, self._state.now + RETURNED_SECONDS)
        self._returned.move_to_end(task.id)
        if len(self._returned) > RETURNED_MOST:
            self._returned.popitem(last=False)

    def forget(self, task_id: str) -> None:
        """Announce a task no more: it is queued no more."""
        self._returned.pop(task_id, None)

    def _returned_tasks(self) -> list[QueuedTask]:
        """Return the returned tasks of this round; they take turns."""
        chosen = []
        for task_id in list(self._returned)[:RETURNED_EACH]:
            task, until = self._returned[task_id]
            if until <= self._state.now:
                del self._returned[task_id]
            else:
                self._returned.move_to_end(task_id)
                chosen.append(task)
        return chosen

    def announce(self, tasks: list[QueuedTask]) -> None:
        """Offer tasks to nodes with free slots; publish those of `tasks` that no node was offered."""
        self.offer()
        for task in tasks:
            if not self._state.window.is_offered(task.id):
                self._publish(jsonrpc.notification(methods.NEW_TASK, [task.method, task.id]))

    def offer(self) -> None:
        """Send the window's offers. If a node's connection is gone, its tasks and offers are for other nodes."""
        state, lost = self._state, True
        offers: dict[str, list[bytes]]
        while lost:
            lost, offers = False, {}
            for offer in state.window.offers(state.now):
                text = jsonrpc.notification(methods.NEW_TASK, [offer.task.method, offer.task.id])
                offers.setdefault(offer.node, []).append(text)
            for node, texts in offers.items():
                if node in state.serving and not state.notify_node(node, jsonrpc.bundle(texts)):
                    state.lose_node(node)
                    lost = True

    def repeat(self) -> None:
        """Announce tasks again that were offered to no node: some of each method, and those that are queued again."""
        tasks = {task.id: task for task in (*self._state.window.tasks_to_repeat(), *self._returned_tasks())}
        self.announce(list(tasks.values()))
        if self._state.window.has_room():
            self.read_methods()

    # --------------------------------------------------------------------------------- reads of the store

    def read_methods(self) -> None:
        """Read which methods have queued tasks, fill the window with them, and read delayed tasks at the next tick."""

        def done(value: Any, error: RpcError | None) -> None:
            """Fill the methods that were found."""
            if error is None:
                found, self._next_due = value
                self._state.window.crowded = len(found) == SERVED_MOST
                for method in found:
                    self._state.window.expect_more(method)
                self.fill()

        at = self._state.at
        self._state.store.read(lambda ledger, now: (sql_table(ledger).queued_methods(SERVED_MOST), at), done, False)

    def fill(self) -> None:
        """Read more tasks of each method that has only few left in the window."""
        for method in self._state.window.low_methods():
            self._fill_one(method, self._state.window.begin_fill(method))

    def _fill_one(self, method: str, limit: int) -> None:
        window = self._state.window

        def done(value: Any, error: RpcError | None) -> None:
            if error is not None:
                window.fail_fill(method)
                return
            self.announce(window.end_fill(method, value, limit))

        self._state.store.read(lambda ledger, now: sql_table(ledger).due_tasks(method, now, limit), done, False)

    def read_due(self) -> None:
        """Read delayed tasks that have come due, if it is time."""
        state, after = self._state, self._last_due
        if self._next_due is None or self._next_due > state.at:
            return

        def job(ledger: Ledger, now: float) -> tuple[list[QueuedTask], float | None]:
            """Return the tasks that have come due, and when the next one does. `now`: task-clock seconds."""
            table = sql_table(ledger)
            return table.newly_due(after, now, DUE_MOST), table.next_due(now)

        def done(value: Any, error: RpcError | None) -> None:
            if error is not None:
                state.window.end_read([])
                self._next_due = state.at + READ_AGAIN
                return
            tasks, upcoming = value
            fresh = state.window.end_read(tasks)
            for task in fresh:
                self._announce_for_a_while(task)
                state.window.add(task)
            self.announce(fresh)
            self._last_due = max([self._last_due, *((task.due, task.seq) for task in tasks)])
            upcoming = state.at if len(tasks) == DUE_MOST else upcoming
            self._next_due = min((time for time in (self._next_due, upcoming) if time is not None), default=None)

        self._next_due = None
        state.window.begin_read()
        state.store.read(job, done, False)
