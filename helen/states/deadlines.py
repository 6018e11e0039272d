"""Orders the deadlines of checks and the edges of windows by time: a heap in which checks change their place cheaply.

A deadline that moves to a later time keeps its old entry: the check is looked at then, and planned anew. Only an
earlier deadline is a new entry, and the entry that it supersedes is passed over.
"""

from __future__ import annotations

import heapq

from helen.states.model import Key

NEVER = float("inf")
_EDGE, _CHECK = 0, 1  # at equal times windows come first, so that a problem confirmed then meets their holds


class Deadlines:
    """Holds entries. `next` is the time of the earliest one, unix seconds; NEVER if there is none.

    `planned` has the time of the earliest entry of each check; NEVER: it has none and needs none.
    """

    def __init__(self) -> None:
        self.next = NEVER
        self._heap: list[tuple[float, int, str, str]] = []
        self.planned: dict[Key, float] = {}

    def __contains__(self, key: Key) -> bool:
        """Return True if `plan` was called for this check."""
        return key in self.planned

    def plan(self, key: Key, due: float | None) -> None:
        """Look at a check at `due`, unix seconds, or earlier, if it has an entry already; None: no deadline is set."""
        planned = self.planned.get(key, NEVER)
        if due is None or due >= planned:
            self.planned.setdefault(key, NEVER)
            return
        self.planned[key] = due
        self._push((due, _CHECK, *key))

    def plan_edge(self, window_id: str, at: float) -> None:
        """Look at a window at `at`, unix seconds."""
        self._push((at, _EDGE, window_id, ""))

    def forget(self, key: Key) -> None:
        """Drop the deadline of a check that is no more; its entry is passed over."""
        self.planned.pop(key, None)

    def first(self) -> tuple[float, Key | str | None]:
        """Return the earliest entry: its time (unix seconds), and the check or the window's id. None: superseded."""
        time, kind, name, check_id = self._heap[0]
        if kind == _EDGE:
            return time, name
        key = name, check_id
        return time, key if self.planned.get(key) == time else None

    def pop(self) -> tuple[float, Key | str | None]:
        """Take the earliest entry out, and return it as `first` does."""
        time, due = self.first()
        heapq.heappop(self._heap)
        self.next = self._heap[0][0] if self._heap else NEVER
        if isinstance(due, tuple):
            del self.planned[due]
        return time, due

    def _push(self, entry: tuple[float, int, str, str]) -> None:
        heapq.heappush(self._heap, entry)
        self.next = self._heap[0][0]
