"""Decides which segments may be deleted. Pure. Only Helen deletes segments, the oldest first, never the newest.

With a pipeline (a number in history/committed) those go that it has published and that are older than `keep_days`.
Without one those older than `keep_days_alone` go, and the oldest while all together exceed `most_bytes_alone`.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

DAY = 86_400.0
# Deletions per sealed WAL. Steady state needs one or two; more would let a clock that jumps delete a week at once.
MOST_AT_ONCE = 8


@frozen
class Retention:
    """Holds the operator's settings."""

    keep_days: float = 7.0
    keep_days_alone: float = 90.0
    # 1,000 agents with 20 checks a minute write about 2 GB a day.
    most_bytes_alone: int = 50 * 1024**3


@frozen
class SegmentFile:
    """Describes one segment: its number, size, and when it was closed (unix seconds)."""

    number: int
    size: int
    closed: float


def deletable(files: Sequence[SegmentFile], committed: int | None, now: float, rule: Retention) -> list[int]:
    """Return the numbers to delete, oldest first. `files` are of one kind, in order; `now` is unix seconds.

    A segment that must stay keeps all after it, so that the rest has no holes.
    """
    expired: list[int] = []
    total = sum(file.size for file in files)
    for file in files[:-1]:
        age = now - file.closed
        if committed is not None:
            goes = file.number <= committed and age > rule.keep_days * DAY
        else:
            goes = age > rule.keep_days_alone * DAY or total > rule.most_bytes_alone
        if not goes or len(expired) == MOST_AT_ONCE:
            break
        expired.append(file.number)
        total -= file.size
    return expired
