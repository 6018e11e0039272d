"""Keeps the slots of the nodes that are offered tasks, and finds the next node for a method.

Pure. Nodes take turns: the one that was given a task longest ago comes first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from attrs import define, field

from zerotask.tasks.task import WATCH_SECONDS

SHARE = 8  # a node with many free slots is offered an eighth of them in one turn: one message instead of eight


@define
class _Slots:
    """Holds the slots of one node. `tasks` were offered to it, or are held by it; `watched` are suspects among them.

    `waiting` are held, too, but take no slot: their work waits for something else.
    """

    patterns: tuple[str, ...]
    count: int
    tasks: set[str] = field(factory=set)
    watched: set[str] = field(factory=set)
    waiting: set[str] = field(factory=set)


class NodeSlots:
    """Knows which nodes serve a method, and which of them have a free slot.

    A pattern is the name of a method, or the beginning of names and `*`. `on_idle(pattern)` is called when a node that
    serves it has a free slot.
    """

    def __init__(self, on_idle: Callable[[str], None]) -> None:
        self._on_idle = on_idle
        self._slots: dict[str, _Slots] = {}
        self._idle: dict[str, OrderedDict[str, None]] = {}  # pattern -> nodes with a free slot, the next one first
        self._served: Counter[str] = Counter()  # pattern -> how many nodes have it
        self._prefixes: set[str] = set()  # patterns that end with *
        self._watches: OrderedDict[str, tuple[str, float]] = OrderedDict()  # task -> node, end in monotonic seconds

    def __bool__(self) -> bool:
        return bool(self._slots or self._idle or self._served or self._prefixes)

    def add(self, node: str, patterns: Iterable[str], count: int, tasks: Iterable[str]) -> None:
        """Add a node that serves methods with `count` slots, and works on `tasks` already."""
        slots = self._slots[node] = _Slots(tuple(patterns), count, set(tasks))
        self._served.update(slots.patterns)
        self._prefixes.update(pattern for pattern in slots.patterns if pattern.endswith("*"))
        self._update_idle(node, slots)

    def resize(self, node: str, count: int) -> None:
        """Change the number of a node's slots, if it is here. Tasks that it has beyond them stay with it."""
        if (slots := self._slots.get(node)) is not None:
            slots.count = count
            self._update_idle(node, slots)

    def remove(self, node: str) -> set[str]:
        """Remove a node if it is here; return the tasks that it was offered or holds."""
        slots = self._slots.pop(node, None)
        if slots is None:
            return set()
        self._remove_idle(node, slots)
        self._served.subtract(slots.patterns)
        for pattern in [pattern for pattern in slots.patterns if not self._served[pattern]]:
            del self._served[pattern]
            self._prefixes.discard(pattern)
        return slots.tasks

    def take(self, node: str, *task_ids: str) -> None:
        """Put tasks into slots of a node: it was offered them, or has claimed them."""
        slots = self._slots.get(node)
        if slots is not None:
            slots.tasks.update(task_id for task_id in task_ids if task_id not in slots.waiting)
            self._update_idle(node, slots)

    def set_waiting(self, node: str, task_id: str, waits: bool) -> None:
        """Let a task of a node take no slot while its work waits, or take one again, if the node has it."""
        slots = self._slots.get(node)
        if slots is None or task_id not in (slots.tasks if waits else slots.waiting):
            return
        if waits:
            self.free(node, task_id)
            slots.waiting.add(task_id)
        else:
            slots.waiting.remove(task_id)
            self.take(node, task_id)

    def watch(self, node: str, task_id: str, now: float) -> None:
        """Give a node no second suspect while it has this one, for WATCH_SECONDS. `now`: monotonic seconds."""
        slots = self._slots.get(node)
        if slots is not None and task_id in slots.tasks:
            slots.watched.add(task_id)
            self._watches[task_id] = (node, now + WATCH_SECONDS)
            self._watches.move_to_end(task_id)

    def end_watches(self, now: float) -> None:
        """Let nodes have another suspect whose present one has done no harm so far. `now`: monotonic seconds."""
        while self._watches:
            task_id, (node, until) = next(iter(self._watches.items()))
            if now < until:
                return
            del self._watches[task_id]
            slots = self._slots.get(node)
            if slots is not None and task_id in slots.watched:
                slots.watched.remove(task_id)
                self._update_idle(node, slots)

    def free(self, node: str, task_id: str) -> None:
        """Free the slot of a task, if the node has it."""
        slots = self._slots.get(node)
        if slots is None:
            return
        slots.waiting.discard(task_id)
        if task_id in slots.tasks:
            slots.tasks.remove(task_id)
            slots.watched.discard(task_id)
            self._update_idle(node, slots)

    def _update_idle(self, node: str, slots: _Slots) -> None:
        """Make a node with a free slot the last one of its patterns; take one without out of them."""
        if len(slots.tasks) >= slots.count:
            self._remove_idle(node, slots)
            return
        for pattern in slots.patterns:
            idle = self._idle.setdefault(pattern, OrderedDict())
            idle[node] = None
            idle.move_to_end(node)
            self._on_idle(pattern)

    def _remove_idle(self, node: str, slots: _Slots) -> None:
        for pattern in slots.patterns:
            idle = self._idle.get(pattern)
            if idle is not None:
                idle.pop(node, None)
                if not idle:
                    del self._idle[pattern]

    def is_served(self, method: str) -> bool:
        """Return True if a node serves a method, with a free slot or without."""
        return method in self._served or any(method.startswith(prefix[:-1]) for prefix in self._prefixes)

    def next_for(self, method: str, suspect: bool = False) -> str | None:
        """Return the node to be offered a task of a method, None if none has a free slot.

        A suspect, which has lost a node before, is for a node that has no other one: then the next loss tells which
        of them it is.
        """
        for pattern in (method, *(prefix for prefix in self._prefixes if method.startswith(prefix[:-1]))):
            for node in self._idle.get(pattern, ()):
                if not suspect or not self._slots[node].watched:
                    return node
        return None

    def share(self, node: str) -> int:
        """Return how many tasks a node may be offered in one turn."""
        slots = self._slots[node]
        return max(1, (slots.count - len(slots.tasks)) // SHARE)

    def tasks_of(self, node: str) -> list[str]:
        """Return the tasks that a node was offered or holds, sorted."""
        slots = self._slots.get(node)
        return [] if slots is None else sorted(slots.tasks | slots.waiting)

    def count_waiting(self, node: str) -> int:
        """Return how many tasks of a node wait and take no slot."""
        slots = self._slots.get(node)
        return 0 if slots is None else len(slots.waiting)
