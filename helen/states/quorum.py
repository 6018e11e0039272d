"""Judges a check that several agents run: so many of them have to see it bad. Pure; live and in Spark it is this one.

One round is one run of each. The status of a round is the worst one that enough of them saw, or a worse one: of ok,
critical and critical with two needed it is critical, of ok, warning and critical it is warning. A round steps the state
once, as soon as those that are still to come can't change its status; so `attempts` are counted in intervals, as ever.
When one runs again before the round was sure, the round ends with what is known: the last that each has said counts as
long as it would if it ran alone, and one of which nothing is known decides nothing. Without as many as are needed there
is no status, and the check becomes stale.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import evolve, frozen

from equus_protocol.cheap_values import cheap_value
from equus_protocol.results import CRITICAL, OK, UNKNOWN, WARNING
from helen.states.inputs import Result
from helen.states.machine import LATE_SECONDS, is_history
from helen.states.model import SUMMARY_MOST, Rule, Seen, plain

MOST_RUNNERS = 9
FROM_BEST = (OK, WARNING, UNKNOWN, CRITICAL)
_BADNESS = {status: place for place, status in enumerate(FROM_BEST)}


@cheap_value
class View:
    """Describes the last that one agent saw: when Helen heard it, and when it ended, on Helen's clock."""

    status: int
    at: float
    ended: float | None
    spool: str
    sequence: int
    reason: str | None = None
    code: str | None = None
    summary: str = ""

    @property
    def seen(self) -> Seen:
        """Return what tells whether another result of the agent is newer."""
        return Seen(self.at, self.ended, self.spool, self.sequence)


@frozen
class Round:
    """Holds the views of a check by agent.

    `heard` are the agents that have run it in this round; `is_done` says that the round has stepped the state.
    """

    views: Mapping[str, View]
    heard: frozenset[str] = frozenset()
    is_done: bool = False

    def moved(self, silent: float, stepped: float) -> Round:
        """Return the same round after Helen's clock was set: times of Helen's by `silent`, of runs by `stepped`."""
        views = {
            name: evolve(view, at=view.at + silent, ended=None if view.ended is None else view.ended + stepped)
            for name, view in self.views.items()
        }
        return evolve(self, views=views)

    def to_json(self) -> dict[str, Any]:
        views = {name: plain(view) for name, view in self.views.items()}
        return {"views": views, "heard": sorted(self.heard), "done": self.is_done}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Round:
        """Read the document that `to_json` makes."""
        views = {name: View(**view) for name, view in document["views"].items()}
        return cls(views, frozenset(document["heard"]), document["done"])


NO_ROUND = Round({})


def status_of(statuses: Iterable[int], needed: int, missing: int = 0) -> int | None:
    """Return the worst status that `needed` of these saw, or a worse one; `missing` more have not said anything.

    None: those that are missing decide it, or there are fewer than needed.
    """
    known = [_BADNESS[status] for status in statuses]
    if len(known) + missing < needed:
        return None
    at_best = sorted(known + [0] * missing, reverse=True)[needed - 1]
    at_worst = sorted(known + [len(FROM_BEST) - 1] * missing, reverse=True)[needed - 1]
    return FROM_BEST[at_best] if at_best == at_worst else None


def take(before: Round, runner: str, given: Result, rule: Rule) -> tuple[Round, Result | None]:
    """Return the round after one more result, and what is to step the state now; None: nothing is to.

    A result by an agent that is not of the rule, or one of the past, changes nothing: the same round is returned.
    """
    known = before.views.get(runner)
    if runner not in rule.runners or is_history(None if known is None else known.seen, given, rule):
        return before, None
    views = _fresh(before.views, given.at, rule) | {runner: _view_of(given)}
    heard = before.heard & views.keys()
    if runner in heard:  # the next round begins, and one that was not sure ends with what is known
        judged = None if before.is_done else _judged(views, views, given, rule, 0)
        return Round(views, frozenset((runner,))), judged
    heard |= {runner}
    judged = None if before.is_done else _judged(views, heard, given, rule, len(rule.runners) - len(heard))
    return Round(views, heard, before.is_done or judged is not None), judged


def _fresh(views: Mapping[str, View], now: float, rule: Rule) -> dict[str, View]:
    limit = now - (rule.stale or LATE_SECONDS)
    return {name: view for name, view in views.items() if name in rule.runners and view.at > limit}


def _view_of(given: Result) -> View:
    return View(
        given.status, given.at, given.ended, given.spool, given.sequence, given.reason, given.code,
        given.summary[:SUMMARY_MOST],
    )  # fmt: skip


def _judged(
    views: Mapping[str, View], counted: Collection[str], given: Result, rule: Rule, missing: int
) -> Result | None:
    """Return the result that stands for those of all: its status, in the words of one that saw it.

    `missing`: how many are waited for; none at the end of a round, else one that never reports would decide for ever.
    """
    statuses = [views[name].status for name in counted]
    status = status_of(statuses, rule.quorum, missing)
    if status is None:
        return None
    told = max((views[name] for name in counted if views[name].status == status), key=lambda view: view.at)
    ended = [view.ended for view in views.values() if view.ended is not None]
    saw = sum(_BADNESS[each] >= _BADNESS[status] for each in statuses)
    by = f"{saw} of {len(rule.runners)} see it: " if status != OK else ""
    return Result(
        given.at, status, max(ended, default=None), given.spool, given.sequence, told.reason, told.code,
        f"{by}{told.summary}",
    )  # fmt: skip
