"""Which segments may go: a pure decision. Only Helen deletes segments, always the oldest first, never the newest.

With a pipeline (a number in history/committed): those that it has published and that are older than `keep_days`.
Without: those older than `keep_days_alone`, and the oldest while all together are bigger than `most_bytes_alone`.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

DAY = 86_400.0
# Deletions per sealed WAL. Steady state needs one or two; more would let a clock that jumps delete a week at once.
MOST_AT_ONCE = 8


@frozen
class Retention:
    """The operator's settings."""

    keep_days: float = 7.0
    keep_days_alone: float = 90.0
    # 1,000 agents with 20 checks a minute write about 2 GB a day.
    most_bytes_alone: int = 50 * 1024**3


@frozen
class SegmentFile:
    """One segment: its number, size, and when it was closed (Unix seconds)."""

    number: int
    size: int
    closed: float


def deletable(files: Sequence[SegmentFile], committed: int | None, now: float, rule: Retention) -> list[int]:
    """Numbers to delete, oldest first. `files` are of one kind, in the order of their numbers.

    A segment that must stay keeps all after it, so that what is left has no holes.
    """
    doomed: list[int] = []
    total = sum(file.size for file in files)
    for file in files[:-1]:
        age = now - file.closed
        if committed is not None:
            goes = file.number <= committed and age > rule.keep_days * DAY
        else:
            goes = age > rule.keep_days_alone * DAY or total > rule.most_bytes_alone
        if not goes or len(doomed) == MOST_AT_ONCE:
            break
        doomed.append(file.number)
        total -= file.size
    return doomed


class SteadyClock:
    """Unix time that never runs ahead of the monotonic clock: a wall clock that jumps by 90 days expires nothing."""

    def __init__(self, wall: float, monotonic: float) -> None:
        self._wall = wall
        self._monotonic = monotonic

    def now(self, wall: float, monotonic: float) -> float:
        """The earlier of the wall clock and what has passed since the start."""
        return min(wall, self._wall + (monotonic - self._monotonic))
