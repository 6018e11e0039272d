"""Finds runs of a check that did not happen, by the times of those that did, and says why as far as records tell. Pure.

No record says "it did not run". An agent counts such runs for itself, so Helen infers them from the interval, and the
reason from what else is known of that time: the schedule, gap records, other checks of the agent, its connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from attrs import frozen

from equus_protocol.result_fields import GAP_CHECK_ID
from groundwork.counts import count
from groundwork.durations import words_of
from helen.evaluation.replay import HistoryRecord

SLACK = 0.5  # of the interval, by which a run may be late before the one before it counts as missed


@frozen
class Missed:
    """Counts the runs that are missing between two moments, unix seconds; `is_over`: a run came after them."""

    begin: float
    end: float
    count: int
    is_over: bool = True


def missed_runs(times: Iterable[float], every: float, until: float) -> list[Missed]:
    """Return where runs are missing; `times` are those of all runs up to `until`, unix seconds; `every`: seconds."""
    ordered = sorted(times)
    found = [Missed(one, other, count) for one, other in pairwise(ordered) if (count := _between(one, other, every))]
    if ordered and (count := _between(ordered[-1], until, every)):
        found.append(Missed(ordered[-1], until, count, False))
    return found


def _between(one: float, other: float, every: float) -> int:
    return max(0, int((other - one) / every + SLACK) - 1)


def why_missed(
    missed: Missed, agent: str, check_id: str, changes: Sequence[HistoryRecord], runs: Sequence[HistoryRecord]
) -> Iterator[str]:
    """Give the reasons, the likeliest first: `changes` of the time, `runs` of all checks of the agent."""
    between = [record for record in changes if missed.begin <= record.received <= missed.end]
    if _was_unscheduled(agent, check_id, changes, missed):
        yield "it was not scheduled there"
    gaps = [each for each in runs if each.check_id == GAP_CHECK_ID and each.received >= missed.begin]
    if gaps:
        summary = gaps[0].result.summary if gaps[0].result is not None else ""
        yield f"the agent had to drop results{f': {summary}' if summary else ''}"
    others = sum(
        missed.begin < moment_of(each) < missed.end for each in runs if each.check_id not in (check_id, GAP_CHECK_ID)
    )
    if others:
        yield (
            f"other checks of the agent ran ({count(others, 'result')}), so this one was left out: a run of it was"
            " still going on, or it was taken off the schedule for a while"
        )
    elif missed.is_over:
        yield "the agent ran nothing in that time: it was stopped, stalled or asleep, or its machine was"
    else:
        yield "nothing has come from the agent since then: it is stopped or stalled, or its results wait in its spool"
    if any(_says(record, agent, "down") for record in between):
        yield "its connection ended in that time"
    if any(record.kind == "helen_stop" for record in between):
        yield "Helen was stopped in that time"


def sentence_of(missed: Missed, reasons: Iterable[str]) -> str:
    """Return a sentence such as `71 runs did not happen from here on, in 102 s: the agent ran nothing ...`."""
    runs, lasting = count(missed.count, "run"), words_of(round(missed.end - missed.begin))
    return f"{runs} did not happen from here on, in {lasting}: {'; '.join(reasons)}"


def moment_of(record: HistoryRecord) -> float:
    """Return when a run ended by its agent's clock, or when its result came, if it doesn't say: unix seconds."""
    ended = None if record.result is None else record.result.ended
    return record.received if ended is None else ended


def _says(record: HistoryRecord, agent: str, event: str) -> bool:
    if record.kind != "link":
        return False
    said = json.loads(record.document)
    return bool(said.get("agent") == agent and said["event"] == event)


def _was_unscheduled(agent: str, check_id: str, changes: Iterable[HistoryRecord], missed: Missed) -> bool:
    """Return True if a rule in force at some moment of the gap lacked the check."""
    lacking = False
    for record in changes:
        if record.kind != "rule" or record.received > missed.end:
            continue
        said = json.loads(record.document)
        if said.get("agent") != agent:
            continue
        lacking = check_id not in said["checks"] or (lacking and record.received >= missed.begin)
    return lacking
