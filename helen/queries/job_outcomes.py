"""Keeps the outcomes of a job's targets, as far as they fit into a file and into ZeroTask. Pure.

Every target has one outcome in the end, the first that is told: answered, failed, refused, offline or expired.
helen/jobs/fleet_tasks.py asks agents, helen/queries/answer_file.py keeps the outcomes on disk.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from helen.queries.live_queries import OUTCOMES

ANSWER_MOST = 16 * 1024  # bytes of one outcome in its file; the journal has the whole of every answer
RESULT_MOST = 1024 * 1024  # bytes of all outcomes together, in memory and in ZeroTask: JSON of some milliseconds
LEAST = 80  # bytes of the shortest outcome, besides the agent's name
RECENT = 20  # outcomes in a partial status, which has to fit into 64 KiB
BRIEF = 200  # characters of a summary or a reason that has to be short

Outcome = dict[str, Any]  # agent, outcome, result, and why if there is a reason


def check_targets(targets: Iterable[str]) -> None:
    """Raises ValueError if the outcomes of so many agents would not fit, however short."""
    names = list(targets)
    if sum(len(name) + LEAST for name in names) > RESULT_MOST:
        raise ValueError(f"{len(names)} agents are too many for one question: ask them in parts")


def share(targets: int) -> int:
    """Return the bytes that one outcome may have, where those of so many targets have to fit."""
    return RESULT_MOST // max(1, targets)


@define(eq=False)
class JobOutcomes:
    """Holds the targets of a job and the outcome of each, shortened so that all fit into RESULT_MOST."""

    targets: tuple[str, ...]
    outcomes: dict[str, Outcome] = field(factory=dict)
    _known: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._known = frozenset(self.targets)

    def settle(self, outcome: Outcome) -> bool:
        """Take an outcome; the first of each target counts. Return False for a later one, or for no target."""
        agent = outcome["agent"]
        if agent in self.outcomes or agent not in self._known:
            return False
        self.outcomes[agent] = fit(outcome, share(len(self._known)))
        return True

    @property
    def open(self) -> list[str]:
        """Return the targets without an outcome."""
        return [agent for agent in self.targets if agent not in self.outcomes]

    @property
    def is_over(self) -> bool:
        """Return True if every target has its outcome."""
        return len(self.outcomes) == len(self._known)

    def give_up(self, why: str) -> list[Outcome]:
        """Expire all targets that are open, and return these outcomes."""
        made = [{"agent": agent, "outcome": "expired", "result": None, "why": why} for agent in self.open]
        return [outcome for outcome in made if self.settle(outcome)]

    def counts(self) -> dict[str, int]:
        """Return the number of targets by OUTCOMES, and of `open` ones; they add up to all targets."""
        counted = Counter(outcome["outcome"] for outcome in self.outcomes.values())
        return {word: counted[word] for word in OUTCOMES} | {"open": len(self._known) - len(self.outcomes)}

    def status(self) -> dict[str, Any]:
        """Return a partial status: `targets`, `counts`, and `recent`, the last few outcomes in brief."""
        recent = list(self.outcomes.values())[-RECENT:]
        return {"targets": len(self._known), "counts": self.counts(), "recent": [brief(each) for each in recent]}

    def result(self) -> dict[str, Any]:
        """Return `targets`, which are all outcomes in the order of names, and `counts`."""
        counts = self.counts()
        del counts["open"]
        return {"targets": [self.outcomes[agent] for agent in sorted(self.outcomes)], "counts": counts}


def line(document: dict[str, Any]) -> bytes:
    """Return a document as a line of JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def fit(outcome: Outcome, most: int, written: Callable[[Outcome], bytes] = line) -> Outcome:
    """Return the outcome within so many bytes: without its output, in brief, or with its status alone.

    `written` makes what `line` makes, perhaps in another way.
    """
    output = (outcome.get("result") or {}).get("output") or ""
    if len(output) > most:  # a text has a byte for each character at least: no need to write a MiB to know it
        outcome = _without_output(outcome)
    for shorter in (_whole, _without_output, brief, _status_only):
        fitting = shorter(outcome)
        if len(written(fitting)) <= most:
            return fitting
    return fitting


def _whole(outcome: Outcome) -> Outcome:
    return outcome


def _without_output(outcome: Outcome) -> Outcome:
    result = outcome.get("result")
    if not result:
        return outcome
    return outcome | {"result": {k: v for k, v in result.items() if k != "output"} | {"shortened": True}}


def brief(outcome: Outcome) -> Outcome:
    """Return an outcome as a list shows it: `agent`, `outcome`, `result`, and `why` if there is a reason."""
    made = {"agent": outcome["agent"], "outcome": outcome["outcome"], "result": None}
    if result := outcome.get("result"):
        kept = {key: str(result[key])[:BRIEF] for key in ("status", "summary", "reason") if result.get(key)}
        made["result"] = kept | {"shortened": True}
    if outcome.get("why"):
        made["why"] = str(outcome["why"])[:BRIEF]
    return made


def _status_only(outcome: Outcome) -> Outcome:
    result = outcome.get("result")
    status = None if not result else {"status": result.get("status")}
    return {"agent": outcome["agent"], "outcome": outcome["outcome"], "result": status}
