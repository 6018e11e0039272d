"""Computes how a check spent a stretch of time: ok, bad, planned and unknown seconds that add up to all of it. Pure.

Confirmed conditions count. Time in a downtime is planned whatever the check said; time in which nothing was known is
unknown, by its reason; time in which Helen did not run is unknown, too (`helen-down`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import field, frozen

from equus_protocol.results import OK, UNKNOWN
from helen.states.downtimes import Span
from helen.states.events import Transition
from helen.states.model import PENDING, Condition

HELEN_DOWN, UNSAID = "helen-down", "said-unknown"


@frozen
class Coverage:
    """Counts the seconds of each kind in a span. `unknown` is by reason; `said-unknown` is the check's own word."""

    ok: float
    bad: float
    planned: float
    unknown: dict[str, float] = field(factory=dict)

    @property
    def total(self) -> float:
        return self.ok + self.bad + self.planned + sum(self.unknown.values())


def cover(
    transitions: Iterable[Transition], begin: float, end: float, planned: Sequence[Span] = (),
    absences: Sequence[Span] = (),
) -> Coverage:  # fmt: skip
    """Return the time between `begin` and `end`, unix seconds, from all transitions of one check in their order."""
    stretches = list(_stretches(transitions, begin, end))
    edges = sorted({begin, end, *_within(begin, end, (*planned, *absences)), *(each[0] for each in stretches)})
    spent = {"ok": 0.0, "bad": 0.0, "planned": 0.0}
    unknown: dict[str, float] = {}
    at = 0
    for start, stop in pairwise(edges):
        while at + 1 < len(stretches) and stretches[at + 1][0] <= start:
            at += 1
        name, why = _kind(stretches[at][1], start, planned, absences)
        if why:
            unknown[why] = unknown.get(why, 0.0) + stop - start
        else:
            spent[name] += stop - start
    return Coverage(spent["ok"], spent["bad"], spent["planned"], unknown)


def _stretches(transitions: Iterable[Transition], begin: float, end: float) -> Iterable[tuple[float, Condition]]:
    """Yield from when on which condition was the confirmed one; nothing was known before the first."""
    held = Condition(UNKNOWN, begin, PENDING)
    later = []
    for transition in transitions:
        if transition.now.attempt or transition.at >= end:
            continue
        if transition.at <= begin:
            held = transition.now
        else:
            later.append((transition.at, transition.now))
    return [(begin, held), *later]


def _within(begin: float, end: float, spans: Iterable[Span]) -> list[float]:
    return [edge for span in spans for edge in span if begin < edge < end]


def _kind(condition: Condition, at: float, planned: Sequence[Span], absences: Sequence[Span]) -> tuple[str, str]:
    if any(begin <= at < end for begin, end in planned):
        return "planned", ""
    if any(begin <= at < end for begin, end in absences):
        return "unknown", HELEN_DOWN
    if condition.status == UNKNOWN or not condition.known:
        return "unknown", condition.reason or UNSAID
    return ("ok" if condition.status == OK else "bad"), ""
