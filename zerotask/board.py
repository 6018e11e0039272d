"""What waits for a node, and which node is told of it next.

Pure. The board is a window on the queue in the store: for each method its first tasks, within bounds; `thirsty` names
the methods whose window has run low while the store has more. Nodes that said which methods they serve and how many
tasks they take at once are offered tasks in turn, least recently used first, and never more than they have slots
for, so that nobody claims in vain. Nodes that said nothing hear of tasks by the published announcements instead.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Iterable

from attrs import define, field
from msgspec import Struct

from zerotask.shelf import Waiting

WINDOW = 2_000  # tasks of one method; half a second of the fastest broker, so that a refill comes in time
WINDOW_MOST = 100_000  # tasks in all; some 40 MB
WINDOW_LEAST = 20  # of a method when there are too many in all: a flood of one method must not hide another
SHARE = 8  # a node with many free slots is offered an eighth of them in one turn: one message instead of eight
OFFER_WAIT = 2.0  # seconds in which an offered task has to be claimed before another node is told
METHODS_MOST = 10_000  # methods with waiting tasks that are on the board at once; others follow as these are served
SERVED_MOST = 20_000  # and so many if the others have nodes: what nobody serves must not keep them off the board
REPEAT_EACH = 20  # tasks of one method that are announced again each second
REPEAT_MOST = 200  # and of all methods: 20 kB/s to each subscriber at most
REPEAT_LOOKS = 500  # methods that are looked at for that; their order turns, so each has its second


class Offer(Struct, frozen=True):
    """A task that one node is told of."""

    node: str
    task: Waiting


@define
class _Queue:
    """The window of one method."""

    heap: list[tuple[int, int, str]] = field(factory=list)
    count: int = 0
    floor: int = 9  # the lowest priority put here
    more: bool = False  # the store has tasks that are not in the window
    filling: bool = False
    late: list[Waiting] = field(factory=list)  # came while the window was being filled


@define
class _Seat:
    """A node that is offered tasks. `tasks` are those offered to it or held by it."""

    patterns: tuple[str, ...]
    slots: int
    tasks: set[str] = field(factory=set)


class Board:
    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._queues: dict[str, _Queue] = {}
        self._offered: OrderedDict[str, tuple[str, float]] = OrderedDict()  # task -> node, since when
        self._seats: dict[str, _Seat] = {}
        self._idle: dict[str, OrderedDict[str, None]] = {}  # pattern -> nodes with a free slot, LRU first
        self._served: Counter[str] = Counter()  # pattern -> how many nodes have it
        self._prefixes: set[str] = set()  # those of them that end with *
        self._dirty: set[str] = set()
        self.crowded = False  # there are methods that found no place
        self._reads = 0  # reads of the store on their way
        self._removed: set[str] = set()  # what was removed meanwhile: their answers may still name it

    def __len__(self) -> int:
        return len(self._waiting)

    # ------------------------------------------------------------------------------------------ tasks

    def add(self, task: Waiting) -> bool:
        """Whether it is news and in the window now; otherwise `thirsty` will bring it in its turn."""
        if task.id in self._waiting:
            return False
        queue = self._queue(task.method)
        if queue is None:
            return False
        if queue.filling:
            queue.late.append(task)
            return False
        if self._is_full(queue, task):
            queue.more = True
            return False
        self._put(queue, task)
        return True

    def _queue(self, method: str) -> _Queue | None:
        queue = self._queues.get(method)
        if queue is None:
            if len(self._queues) >= (SERVED_MOST if self._is_served(method) else METHODS_MOST):
                self.crowded = True
                return None
            queue = self._queues[method] = _Queue(more=self.crowded)  # earlier ones may have found no place
        return queue

    def _is_served(self, method: str) -> bool:
        return method in self._served or any(method.startswith(prefix[:-1]) for prefix in self._prefixes)

    def _is_full(self, queue: _Queue, task: Waiting) -> bool:
        """What comes after the window's tasks stays outside once there is more; what comes before some gets in."""
        room = self._room()
        if task.priority > queue.floor:
            room *= 2
        elif queue.more:
            return True
        return queue.count >= room

    def _room(self) -> int:
        return WINDOW if len(self._waiting) < WINDOW_MOST else WINDOW_LEAST

    def _put(self, queue: _Queue, task: Waiting) -> None:
        self._waiting[task.id] = task
        queue.count += 1
        queue.floor = min(queue.floor, task.priority)
        heapq.heappush(queue.heap, (-task.priority, task.seq, task.id))
        self._dirty.add(task.method)

    def remove(self, task_id: str) -> None:
        """It no longer waits: claimed, ended or cancelled."""
        if self._reads:
            self._removed.add(task_id)
        task = self._waiting.pop(task_id, None)
        if task is None:
            return
        node, _ = self._offered.pop(task_id, ("", 0.0))
        self._free(node, task_id)
        queue = self._queues[task.method]
        queue.count -= 1
        self._tidy(task.method, queue)

    def _tidy(self, method: str, queue: _Queue) -> None:
        """Drop what is stale: an empty queue, or a heap that is mostly of removed tasks."""
        if queue.count == 0 and not queue.more and not queue.filling:
            del self._queues[method]
        elif len(queue.heap) > 2 * WINDOW + queue.count:
            queue.heap = [entry for entry in queue.heap if entry[2] in self._waiting]
            heapq.heapify(queue.heap)

    # ---------------------------------------------------------------------------------- reads of the store

    def reading(self) -> None:
        """The store is asked for waiting tasks; `read` has to follow."""
        self._reads += 1

    def read(self, tasks: Iterable[Waiting]) -> list[Waiting]:
        """An answer of the store, less what was removed since the question."""
        fresh = [task for task in tasks if task.id not in self._removed]
        self._reads -= 1
        if not self._reads:
            self._removed.clear()
        return fresh

    def lacks(self, method: str) -> None:
        """The store may have tasks of this method that the board has never seen."""
        queue = self._queue(method)
        if queue is not None:
            queue.more = True

    def has_room(self) -> bool:
        """Whether methods that found no place may be looked for again."""
        return self.crowded and len(self._queues) <= METHODS_MOST // 2

    def thirsty(self) -> list[str]:
        """Methods to fill from the store."""
        low = self._room() // 4
        return [name for name, q in self._queues.items() if q.more and not q.filling and q.count <= low]

    def filling(self, method: str) -> int:
        """A fill is on its way; how many tasks to ask for."""
        self.reading()
        self._queues[method].filling = True
        return self._room()

    def filled(self, method: str, tasks: list[Waiting], asked: int) -> list[Waiting]:
        """The store's answer; what is new on the board."""
        queue = self._queues[method]
        queue.filling, queue.more = False, len(tasks) >= asked
        late, queue.late = queue.late, []
        fresh = [task for task in self.read(tasks) if task.id not in self._waiting]
        for task in fresh:
            self._put(queue, task)
        self._tidy(method, queue)
        return fresh + [task for task in late if self.add(task)]

    def unfilled(self, method: str) -> None:
        """The store could not answer; ask again later."""
        queue = self._queues[method]
        queue.filling, queue.late = False, []
        self.read([])

    def clear(self) -> None:
        """Forget all tasks, because the store may tell otherwise now."""
        for task_id in list(self._waiting):
            self.remove(task_id)

    # ------------------------------------------------------------------------------------------ nodes

    def enlist(self, node: str, patterns: Iterable[str], slots: int, tasks: Iterable[str]) -> None:
        """A node that serves these methods (`name` or `prefix*`) and works on these tasks already."""
        self.dismiss(node)
        seat = self._seats[node] = _Seat(tuple(patterns), slots, set(tasks))
        self._served.update(seat.patterns)
        self._prefixes.update(pattern for pattern in seat.patterns if pattern.endswith("*"))
        self._seat_idle(node, seat)
        if self.crowded:
            for method in seat.patterns:
                if not method.endswith("*"):
                    self.lacks(method)

    def dismiss(self, node: str) -> None:
        seat = self._seats.pop(node, None)
        if seat is None:
            return
        self._unseat_idle(node, seat)
        self._served.subtract(seat.patterns)
        for pattern in [pattern for pattern in seat.patterns if not self._served[pattern]]:
            del self._served[pattern]
            self._prefixes.discard(pattern)
        for task_id in seat.tasks & self._offered.keys():
            self._withdraw(task_id)

    def holds(self, node: str | None, task_id: str) -> None:
        """The node has claimed it."""
        seat = self._seats.get(node or "")
        if seat is not None:
            seat.tasks.add(task_id)
            self._seat_idle(node or "", seat)

    def freed(self, node: str | None, task_id: str) -> None:
        """The node works on it no more."""
        self._free(node or "", task_id)

    def _free(self, node: str, task_id: str) -> None:
        seat = self._seats.get(node)
        if seat is not None and task_id in seat.tasks:
            seat.tasks.remove(task_id)
            self._seat_idle(node, seat)

    def _seat_idle(self, node: str, seat: _Seat) -> None:
        """To the tail of all its patterns if it has a free slot, else out of them."""
        if len(seat.tasks) >= seat.slots:
            self._unseat_idle(node, seat)
            return
        for pattern in seat.patterns:
            idle = self._idle.setdefault(pattern, OrderedDict())
            idle[node] = None
            idle.move_to_end(node)
            self._stir(pattern)

    def _unseat_idle(self, node: str, seat: _Seat) -> None:
        for pattern in seat.patterns:
            idle = self._idle.get(pattern)
            if idle is not None:
                idle.pop(node, None)
                if not idle:
                    del self._idle[pattern]

    def _stir(self, pattern: str) -> None:
        if not pattern.endswith("*"):
            if pattern in self._queues:
                self._dirty.add(pattern)
            return
        self._dirty.update(method for method in self._queues if method.startswith(pattern[:-1]))

    # ------------------------------------------------------------------------------------------ offers

    def offers(self, now: float) -> list[Offer]:
        """Who is to be told of what, as far as there are both tasks and free slots."""
        made: list[Offer] = []
        while self._dirty:
            method = self._dirty.pop()
            queue = self._queues.get(method)
            while queue is not None and (node := self._next_node(method)):
                tasks = self._next_tasks(queue, self._share(node))
                if not tasks:
                    break
                made += self._offer(node, tasks, now)
        return made

    def _share(self, node: str) -> int:
        """How many tasks it is offered in one turn."""
        seat = self._seats[node]
        return max(1, (seat.slots - len(seat.tasks)) // SHARE)

    def _next_node(self, method: str) -> str | None:
        for pattern in (method, *(p for p in self._prefixes if method.startswith(p[:-1]))):
            if idle := self._idle.get(pattern):
                return next(iter(idle))
        return None

    def _next_tasks(self, queue: _Queue, most: int) -> list[Waiting]:
        tasks: dict[str, Waiting] = {}
        while queue.heap and len(tasks) < most:
            task = self._waiting.get(heapq.heappop(queue.heap)[2])
            if task is not None and task.id not in self._offered:
                tasks[task.id] = task
        return list(tasks.values())

    def _offer(self, node: str, tasks: list[Waiting], now: float) -> list[Offer]:
        seat = self._seats[node]
        for task in tasks:
            self._offered[task.id] = (node, now)
            seat.tasks.add(task.id)
        self._seat_idle(node, seat)
        return [Offer(node, task) for task in tasks]

    def is_offered(self, task_id: str) -> bool:
        return task_id in self._offered

    def withdraw_old(self, now: float) -> None:
        """Offers that nobody took up go to another node."""
        while self._offered:
            task_id, (node, since) = next(iter(self._offered.items()))
            if now - since < OFFER_WAIT:
                return
            self._withdraw(task_id)
            self._free(node, task_id)

    def _withdraw(self, task_id: str) -> None:
        del self._offered[task_id]
        task = self._waiting[task_id]
        heapq.heappush(self._queues[task.method].heap, (-task.priority, task.seq, task.id))
        self._dirty.add(task.method)

    # ----------------------------------------------------------------------------------- announcements

    def repeats(self) -> list[Waiting]:
        """The first tasks of each method that nobody was offered, method after method in turn."""
        chosen: list[Waiting] = []
        for method in list(self._queues)[:REPEAT_LOOKS]:
            if len(chosen) >= REPEAT_MOST:
                break
            queue = self._queues.pop(method)
            self._queues[method] = queue  # to the end: the next round begins behind it
            entries = heapq.nsmallest(REPEAT_EACH, (e for e in queue.heap if self._is_open(e[2])))
            chosen.extend(self._waiting[task_id] for _, _, task_id in dict.fromkeys(entries))
        return chosen[:REPEAT_MOST]

    def _is_open(self, task_id: str) -> bool:
        return task_id in self._waiting and task_id not in self._offered

    def tasks_of(self, node: str) -> list[str]:
        """What it was offered or holds."""
        seat = self._seats.get(node)
        return [] if seat is None else sorted(seat.tasks)
