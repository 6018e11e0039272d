"""Holds the first queued tasks of one method, in the order of work.

Pure. The store may have more of them, in which case `more` is true: then each task that is not here comes behind
`horizon`, so that a task that comes before it belongs here, whatever waits outside.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from attrs import define, field

from zerotask.storage.task_table import QueuedTask

Rank = tuple[int, int, str]  # priority, -seq, id: the largest one is next
FIRST: Rank = (10, 0, "")  # comes before every task's


def rank_of(task: QueuedTask) -> Rank:
    """Return the place of a task in the order of work; a larger one comes first."""
    return task.priority, -task.seq, task.id


@define
class ReadyQueue:
    """Holds the tasks of one method; those that are offered to a node are only counted.

    Suspects have lost a node: they are kept apart, because a node is given one of them at a time.
    """

    count: int = 0  # tasks here, and offered ones
    more: bool = False  # the store has tasks that are not here, all of them behind `horizon`
    horizon: Rank = FIRST
    filling: bool = False
    late: dict[str, QueuedTask] = field(factory=dict)  # came while the queue was being filled
    _plain: list[Rank] = field(factory=list)  # ascending, so that the next one is the last
    _suspects: list[Rank] = field(factory=list)
    _cursor: Rank = FIRST  # the last task that was repeated behind the head

    def put(self, task: QueuedTask) -> None:
        """Add a task that is not here."""
        insort(self._ranks(task), rank_of(task))

    def take(self, task: QueuedTask) -> None:
        """Remove a task, if it is here."""
        ranks, rank = self._ranks(task), rank_of(task)
        place = bisect_left(ranks, rank)
        if place < len(ranks) and ranks[place] == rank:
            del ranks[place]

    def _ranks(self, task: QueuedTask) -> list[Rank]:
        return self._suspects if task.suspect else self._plain

    def head(self, suspects: bool) -> Rank | None:
        """Return the next task among the suspects, or among the others; None if there is none."""
        ranks = self._suspects if suspects else self._plain
        return ranks[-1] if ranks else None

    def worst(self) -> Rank | None:
        """Return the last task in the order of work, None if all are offered."""
        return min((ranks[0] for ranks in (self._plain, self._suspects) if ranks), default=None)

    def is_outside(self, task: QueuedTask) -> bool:
        """Return True if a task comes behind the horizon: then it waits in the store."""
        return self.more and rank_of(task) <= self.horizon

    def leave_outside(self, rank: Rank) -> None:
        """Note a task that waits in the store alone."""
        self.horizon = max(self.horizon, rank) if self.more else rank
        self.more = True

    def expect_more(self) -> None:
        """Note that the store may have more tasks than are here."""
        if not self.more:
            self.more, self.horizon = True, self.worst() or FIRST

    def to_repeat(self, most: int) -> list[str]:
        """Return the ids of tasks to announce: half from the head, half from a window that moves on by each call."""
        ranks = sorted(self._plain + self._suspects) if self._suspects else self._plain
        head = len(ranks) - most // 2
        if head <= 0:
            return [rank[2] for rank in reversed(ranks)]
        end = min(bisect_left(ranks, self._cursor), head) or head
        moving = ranks[max(0, end - (most - most // 2)) : end]
        self._cursor = moving[0]
        return [rank[2] for rank in reversed(moving + ranks[head:])]
