"""Holds the first queued tasks of each method in memory, and decides which node is offered which task.

Pure. The tasks themselves lie in the store, in any number; for each method the window has the first of them, within
bounds, and `low_methods` names the methods that have few left here while the store has more. Nodes that named their
methods and slots are offered tasks in turn, one for each free slot, so that no node claims in vain. Among the methods
of a node the task of the highest priority comes first, and among equal ones the method that was served longest ago.
Other nodes learn of tasks by the published announcements.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from zerotask.broker.node_slots import NodeSlots
from zerotask.broker.ready_queue import Rank, ReadyQueue, rank_of
from zerotask.storage.task_table import QueuedTask

WINDOW = 2_000  # tasks of one method; half a second of the fastest broker, so that a refill comes in time
WINDOW_MOST = 100_000  # tasks in all; some 40 MB
WINDOW_LEAST = 20  # tasks of a method when there are too many in all: a flood of one method must not hide another
OFFER_WAIT = 2.0  # seconds in which an offered task has to be claimed before another node is offered it
METHODS_MOST = 10_000  # methods in the window at once; others follow as these are worked off
SERVED_MOST = 20_000  # methods in all, if those beyond METHODS_MOST have nodes: methods without one must not block them
REPEAT_EACH = 20  # tasks of one method that are announced again each second
REPEAT_MOST = 200  # tasks of all methods that are: 20 kB/s to each subscriber at most
REPEAT_METHODS = 500  # methods that are examined for that; they take turns, so each has its second


class Offer(Struct, frozen=True):
    """Pairs a task with the node that is offered it."""

    node: str
    task: QueuedTask


class ReadyWindow:
    """Holds queued tasks that are due, and the offers of them to nodes."""

    def __init__(self) -> None:
        self._waiting: dict[str, QueuedTask] = {}
        self._queues: dict[str, ReadyQueue] = {}
        self._offered: OrderedDict[str, tuple[str, float]] = OrderedDict()  # task -> node, monotonic seconds
        self._nodes = NodeSlots(self._mark_dirty)
        self._dirty: set[str] = set()  # methods with a new task or a newly free slot
        self.crowded = False  # some methods have found no place here
        self._reads = 0  # reads of the store that have not been answered
        self._removed: set[str] = set()  # tasks removed meanwhile: those answers may still name them
        self._served: OrderedDict[str, int] = OrderedDict()  # method -> number of its last offer; the oldest first
        self._numbers = itertools.count(1)
        self._now = 0.0  # monotonic seconds of the last look for offers

    def __len__(self) -> int:
        return len(self._waiting)

    # ------------------------------------------------------------------------------------------ tasks

    def add(self, task: QueuedTask) -> bool:
        """Add a task; return True if it is new here. One that finds no room comes in with a later fill."""
        if task.id in self._waiting:
            return False
        queue = self._queue(task.method)
        if queue is None:
            return False
        if queue.filling:
            self._removed.discard(task.id)
            queue.late[task.id] = task
            return False
        if queue.is_outside(task):
            return False
        if queue.count >= self._room() and not self._give_way(queue, task):
            return False
        self._put(queue, task)
        return True

    def _give_way(self, queue: ReadyQueue, task: QueuedTask) -> bool:
        """Put the last task of a full queue out for one that comes before it; return False if none gives way."""
        worst = queue.worst()
        if worst is None or rank_of(task) <= worst:
            queue.leave_outside(rank_of(task))
            return False
        last = self._waiting.pop(worst[2])
        queue.take(last)
        queue.count -= 1
        queue.leave_outside(worst)
        return True

    def _queue(self, method: str) -> ReadyQueue | None:
        queue = self._queues.get(method)
        if queue is None:
            if len(self._queues) >= (SERVED_MOST if self._nodes.is_served(method) else METHODS_MOST):
                self.crowded = True
                return None
            queue = self._queues[method] = ReadyQueue()
            if self.crowded:  # earlier tasks may have found no place
                queue.expect_more()
        return queue

    def _room(self) -> int:
        return WINDOW if len(self._waiting) < WINDOW_MOST else WINDOW_LEAST

    def _put(self, queue: ReadyQueue, task: QueuedTask) -> None:
        self._waiting[task.id] = task
        queue.count += 1
        queue.put(task)
        self._dirty.add(task.method)

    def remove(self, task_id: str) -> None:
        """Remove a task that is queued no more: claimed, ended or deleted."""
        if self._reads:
            self._removed.add(task_id)
        task = self._waiting.pop(task_id, None)
        if task is None:
            return
        node, _ = self._offered.pop(task_id, ("", 0.0))
        self._nodes.free(node, task_id)
        queue = self._queues[task.method]
        queue.take(task)
        queue.count -= 1
        self._tidy(task.method, queue)

    def _tidy(self, method: str, queue: ReadyQueue) -> None:
        """Drop an empty queue."""
        if queue.count == 0 and not queue.more and not queue.filling:
            del self._queues[method]

    def clear(self) -> None:
        """Remove all tasks; the store may have changed unnoticed."""
        for task_id in list(self._waiting):
            self.remove(task_id)

    # ---------------------------------------------------------------------------------- reads of the store

    def begin_read(self) -> None:
        """Note that the store is asked for queued tasks; `end_read` has to follow."""
        self._reads += 1

    def end_read(self, tasks: Iterable[QueuedTask]) -> list[QueuedTask]:
        """Return the tasks of an answer of the store that have not been removed since `begin_read`."""
        fresh = [task for task in tasks if task.id not in self._removed]
        self._reads -= 1
        if not self._reads:
            self._removed.clear()
        return fresh

    def expect_more(self, method: str) -> None:
        """Note that the store may have tasks of a method that are not here."""
        queue = self._queue(method)
        if queue is not None:
            queue.expect_more()

    def has_room(self) -> bool:
        """Return True if some methods found no place, and there is place now."""
        return self.crowded and len(self._queues) <= METHODS_MOST // 2

    def low_methods(self) -> list[str]:
        """Return the methods to fill: few of their tasks are here, and the store has more."""
        low = self._room() // 4
        return [name for name, q in self._queues.items() if q.more and not q.filling and q.count <= low]

    def begin_fill(self, method: str) -> int:
        """Note that a method is being filled; return how many tasks to read."""
        self.begin_read()
        self._queues[method].filling = True
        return self._room()

    def end_fill(self, method: str, tasks: list[QueuedTask], asked: int) -> list[QueuedTask]:
        """Add the tasks that the store has answered with; return those that are new here."""
        queue = self._queues[method]
        queue.filling, queue.more = False, False
        if len(tasks) >= asked:
            queue.leave_outside(rank_of(tasks[-1]))
        late, queue.late = [task for task in queue.late.values() if task.id not in self._removed], {}
        fresh = [task for task in self.end_read(tasks) if task.id not in self._waiting]
        for task in fresh:
            self._put(queue, task)
        self._tidy(method, queue)
        return fresh + [task for task in late if self.add(task)]

    def fail_fill(self, method: str) -> None:
        """Note that the store could not answer; the method is filled again later."""
        queue = self._queues[method]
        queue.filling, queue.late = False, {}
        self.end_read([])

    # ------------------------------------------------------------------------------------------ nodes

    def add_node(self, node: str, patterns: Iterable[str], slots: int, tasks: Iterable[str]) -> None:
        """Add a node that serves methods (`name` or `prefix*`), and works on `tasks` already."""
        self.remove_node(node)
        patterns = tuple(patterns)
        self._nodes.add(node, patterns, slots, tasks)
        if self.crowded:
            for method in patterns:
                if not method.endswith("*"):
                    self.expect_more(method)

    def remove_node(self, node: str) -> None:
        """Remove a node if it is here; what it was offered is for other nodes."""
        for task_id in self._nodes.remove(node) & self._offered.keys():
            self._withdraw(task_id)

    def resize_node(self, node: str, slots: int) -> None:
        """Change the number of a node's slots, if it is here; with 0 it is offered nothing."""
        self._nodes.resize(node, slots)

    def claimed(self, node: str | None, task_id: str, suspect: bool = False) -> None:
        """Note that a node holds a task: it takes a slot. A suspect has lost a node before."""
        self._nodes.take(node or "", task_id)
        if suspect:
            self._nodes.watch(node or "", task_id, self._now)

    def set_waiting(self, node: str, task_id: str, waits: bool) -> None:
        """Let a task that a node holds take no slot while its work waits, or take one again."""
        self._nodes.set_waiting(node, task_id, waits)

    def count_waiting(self, node: str) -> int:
        """Return how many tasks of a node wait and take no slot."""
        return self._nodes.count_waiting(node)

    def released(self, node: str | None, task_id: str) -> None:
        """Note that a node works on a task no more: its slot is free."""
        self._nodes.free(node or "", task_id)

    def tasks_of(self, node: str) -> list[str]:
        """Return the tasks that a node was offered or holds, sorted."""
        return self._nodes.tasks_of(node)

    def _mark_dirty(self, pattern: str) -> None:
        """Let `offers` examine the methods of a pattern, because a node of it has a free slot."""
        if not pattern.endswith("*"):
            if pattern in self._queues:
                self._dirty.add(pattern)
            return
        self._dirty.update(method for method in self._queues if method.startswith(pattern[:-1]))

    # ------------------------------------------------------------------------------------------ offers

    def offers(self, now: float) -> list[Offer]:
        """Return new offers, as far as there are both tasks and free slots. `now`: monotonic seconds."""
        self._now = now
        made: list[Offer] = []
        heads = [head for method in self._dirty if (head := self._head(method))]
        self._dirty.clear()
        heapq.heapify(heads)
        while heads:
            _, _, method, rank = heapq.heappop(heads)
            head = self._head(method)  # the slots that it was meant for may have been given away
            if head is not None and head[3] == rank:
                made += self._offer(method, rank)
                head = self._head(method)
            if head is not None:
                heapq.heappush(heads, head)
        return made

    def _head(self, method: str) -> tuple[int, int, str, Rank] | None:
        """Return the task of a method that can be offered next, behind what decides between methods; None without one.

        That is its priority, negative, and the number of the method's last offer: the smallest comes first.
        """
        queue = self._queues.get(method)
        if queue is None:
            return None
        ranks = [
            rank
            for suspects in (False, True)
            if (rank := queue.head(suspects)) is not None and self._nodes.next_for(method, suspects)
        ]
        if not ranks:
            return None
        rank = max(ranks)
        return -rank[0], self._served.get(method, 0), method, rank

    def _offer(self, method: str, rank: Rank) -> list[Offer]:
        """Offer the task of this rank to the next node, and as many of its priority behind it as the node's share."""
        queue, suspect = self._queues[method], self._waiting[rank[2]].suspect
        node = self._nodes.next_for(method, suspect)
        assert node is not None
        tasks: list[QueuedTask] = []
        head: Rank | None = rank
        while head is not None and head[0] == rank[0] and len(tasks) < (1 if suspect else self._nodes.share(node)):
            tasks.append(self._waiting[head[2]])
            queue.take(tasks[-1])
            head = queue.head(suspect)
        for task in tasks:
            self._offered[task.id] = (node, self._now)
        self._nodes.take(node, *(task.id for task in tasks))
        if suspect:
            self._nodes.watch(node, tasks[0].id, self._now)
        self._note_served(method)
        return [Offer(node, task) for task in tasks]

    def _note_served(self, method: str) -> None:
        """Note that a method was served just now; also of one that has no task left, lest each new one come first."""
        self._served[method] = next(self._numbers)
        self._served.move_to_end(method)
        if len(self._served) > SERVED_MOST:
            self._served.popitem(last=False)

    def is_offered(self, task_id: str) -> bool:
        """Return True if a task is offered to a node at present."""
        return task_id in self._offered

    def withdraw_expired_offers(self, now: float) -> None:
        """Withdraw offers that were not taken up within OFFER_WAIT. `now`: monotonic seconds.

        Nodes whose suspect has done no harm so far may be given another one.
        """
        self._nodes.end_watches(now)
        while self._offered:
            task_id, (node, since) = next(iter(self._offered.items()))
            if now - since < OFFER_WAIT:
                return
            self._withdraw(task_id)
            self._nodes.free(node, task_id)

    def _withdraw(self, task_id: str) -> None:
        del self._offered[task_id]
        task = self._waiting[task_id]
        self._queues[task.method].put(task)
        self._dirty.add(task.method)

    # ----------------------------------------------------------------------------------- announcements

    def tasks_to_repeat(self) -> list[QueuedTask]:
        """Return tasks that are not offered to a node, within bounds; methods take turns.

        Half of the tasks of each method are its first ones, half are others in turn, so that each is announced some
        time.
        """
        chosen: list[QueuedTask] = []
        for method in list(self._queues)[:REPEAT_METHODS]:
            if len(chosen) >= REPEAT_MOST:
                break
            queue = self._queues.pop(method)
            self._queues[method] = queue  # to the end: the next round begins behind it
            chosen.extend(self._waiting[task_id] for task_id in queue.to_repeat(REPEAT_EACH))
        return chosen[:REPEAT_MOST]
