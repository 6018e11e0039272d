"""Finds numbers that are missing in a history.

Helen numbers its segments without holes, and deletes none that is not committed. So if the next one is missing while
later ones are there, it isn't visible just now (a network file system, a restore that goes on), or it is lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from groundwork.presence import is_there
from helen.pipeline.ingest.histories import CHANGES, RESULTS, History
from helen.pipeline.lake.errors import MissingSegments

RESTORE = "restore them, or accept that they are lost: `helen pipeline accept-loss`"


def check(history: History, results: Mapping[str, int], changes: int) -> None:
    """Raise MissingSegments if the next segment is missing; `results` is {TABLE: ITS LAST SEGMENT}."""
    gap = behind(history, results)
    if gap:
        least, most = (choose(results, key=results.__getitem__) for choose in (min, max))
        raise MissingSegments(
            f"The table {least} lacks {named(history, RESULTS, gap)}, which {most} has, and {history.segments} doesn't"
            f" have any more: {RESTORE}"
        )
    for kind, number in ((RESULTS, max(results.values())), (CHANGES, changes)):
        hole = history.hole_after(kind, number)
        if hole:
            raise MissingSegments(
                f"{history.segments} lacks {named(history, kind, hole)}, and has later ones; Helen deletes none that"
                f" the lake doesn't have: {RESTORE}"
            )


def behind(history: History, results: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the first and last segment that one table has, another needs next, and the history keeps no more."""
    first, most = min(results.values()) + 1, max(results.values())
    last = first - 1
    while last < most and not is_there(history.path(RESULTS, last + 1)):
        last += 1
    return (first, last) if last >= first else None


def named(history: History, kind: str, span: tuple[int, int]) -> str:
    """Return the names of the segments from the first to the last of a span."""
    first, last = (history.path(kind, number).name for number in span)
    return first if first == last else f"{first} to {last}"
