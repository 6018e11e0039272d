"""Reads changes of the past from the newest back, as far as a page can wait for, and says how far that was.

`PastChanges` goes forward in time, and a page of it reads a few hundred files: in a busy fleet that is less than a day.
So the time is taken in spans that grow, the last hour first, up to the first span that is more than one page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from helen.evaluation.event_log import Line
from helen.queries.past_changes import Question
from helen.web.routes.changes import past_changes
from helen.web.web_parts import WebParts

HOUR, DAY = 3_600.0, 86_400.0
STEPS = (HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 30 * DAY)
MOST = 1_000  # changes of one step


@frozen
class NewestChanges:
    """Holds changes in their order, and since when all of them are here; `since` is in unix seconds."""

    lines: Sequence[Line]
    since: float


async def newest_changes(
    parts: WebParts, kinds: Sequence[str], fits: Callable[[Line], bool], seconds: float, now: float
) -> NewestChanges:
    """Return the changes of these kinds that fit, of the last `seconds` at most. `now`: unix seconds. Raises Problem.

    `fits` is called in a thread.
    """
    found: dict[int, Line] = {}
    since = now

    def of_kinds(line: Line) -> bool:
        return line.kind in kinds and fits(line)

    for age in (*(step for step in STEPS if step < seconds), seconds):
        begin = max(0.0, now - age)
        page = await past_changes(parts, Question(begin, since, MOST, of_kinds, kinds))
        if page.next is not None:
            break
        found.update((line.at, line) for line in page.lines)
        if page.known_from is None or page.known_from >= begin:
            since = since if page.known_from is None else min(since, page.known_from)
            break
        since = begin
    return NewestChanges(_in_order(found.values()), since)


def _in_order(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.at)
