"""Chooses the buckets to which late rows of a source are only added, so that few rows have no large file written again.

A bucket is made anew whole as a rule, and taken out of the file that has it. That writes up to 1,000,000 rows again for
one late result. All sums add up, so a bucket that is over gets a row more instead, as long as its day has many rows and
all that is new only adds to what was there. Compaction makes one row of them. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import date
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import pyarrow.compute as pc
from attrs import frozen

from helen.pipeline.lake.lake_files import Held, instant
from helen.pipeline.lake.levels import DAY_SECONDS, Level
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.lake.log_entries import File

ADD_FROM = 20_000  # rows of a day that has its late rows added: fewer are written again as quickly
DAY = DAY_SECONDS * MICROS
_EPOCH = date(1970, 1, 1)

Array = Any  # of numpy
Span = tuple[int, int]


@frozen
class Adding:
    """Holds the times, microseconds since 1970, in which rows are only added; `days` are all of such a time."""

    spans: tuple[Span, ...] = ()
    days: frozenset[date] = frozenset()

    def hold(self, times: Array) -> Array:
        """Return True for each of these times that lies in one of them."""
        found = np.zeros(len(times), bool)
        for begin, end in self.spans:
            found |= (times >= begin) & (times < end)
        return found

    def wanted(self) -> Any:
        """Return the condition for rows whose buckets lie in them."""
        within = [
            (pc.field("bucket") >= instant(begin)) & (pc.field("bucket") < instant(end)) for begin, end in self.spans
        ]
        return reduce(or_, within)

    def touches(self, file: Held) -> bool:
        """Return True if a file may have rows in them."""
        return any(file.begin < end and file.end >= begin for begin, end in self.spans)

    def rest(self, file: Held) -> Span | None:
        """Return the first and the last time of a file that don't lie in them, as far as its ranges say; None: none."""
        begin, end = file.begin, file.end
        for first, behind in sorted(self.spans):
            if first <= begin < behind:
                begin = behind
        for first, behind in sorted(self.spans, reverse=True):
            if first <= end < behind:
                end = first - 1
        return (begin, end) if begin <= end else None


NOWHERE = Adding()


def choose(
    level: Level, fresh: Sequence[File], newest: int, old: Sequence[File], since: date = date.min,
    partial: Collection[date] = (),
) -> Adding:  # fmt: skip
    """Return where new files of a source are only added to a level, whose files of the same days are `old`.

    `newest` is the highest time in the source. The two newest buckets are made anew: they still go on. Rows of days
    before `since` are added in any case, because the source has forgotten what else those days had. So are those of
    `partial` days, of which files of the source can't be read, unless they come in place of others.
    """
    adds: dict[date, list[bool]] = defaultdict(list)
    for file in fresh:
        adds[level.days_near(file.day or date.min)[0]].append(file.adds)
    there, behind = Counter[date](), level.time(level.place(newest) - 1)
    for file in old:
        there[file.day or date.min] += file.rows
    spans, days = [], set[date]()
    for day in sorted(adds):
        begin = (day - _EPOCH).days * DAY
        end = begin + max(DAY, level.step)
        if day < since or (day in partial and all(adds[day])):
            spans.append((begin, end))
            days.add(day)
            continue
        if not all(adds[day]) or there[day] < max(1, ADD_FROM) or begin >= behind:
            continue
        spans.append((begin, min(end, behind)))
        days |= {day} if end <= behind else set()
    return Adding(tuple(spans), frozenset(days))


def only_added(paths: Collection[Any], adding: Adding) -> set[Any]:
    """Return the staged files of whole days to which rows were only added."""
    names = {f"day={day}" for day in adding.days}
    return {path for path in paths if path.parent.name in names}
