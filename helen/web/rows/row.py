"""Describes a row of a board and of `helen top`: one check on one agent, of its state and latest result. Pure.

helen/web/rows/filters.py picks rows, row_feed.py keeps those of the whole fleet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

Key = tuple[str, str]  # agent, check

LETTERS = {"ok": "OK", "warning": "WA", "critical": "CR", "unknown": "UN"}
ORDER = {"critical": 0, "unknown": 1, "warning": 2, "ok": 3}  # the worst first
LINK, LINK_SHOWN = "equus:link", "(link)"  # the state of an agent's connection is that of a check of this name
TEXT_OF_REASON = {
    "agent-away": "the agent is away", "stale": "no result for too long",
    "pending": "no result yet",
}  # fmt: skip
SORTS = ("problems", "agent", "check", "since", "heard")


def shown_check(check: str) -> str:
    """Return the name of a check as the rows show it."""
    return LINK_SHOWN if check == LINK else check


@frozen
class Row:
    """Hold one check on one agent. `marks`: A acknowledged, D downtime, S silence, P parent bad, F flapping, R tried.

    `since` and `heard` are unix seconds: the last change of the state, and the last result.
    """

    agent: str
    check: str
    status: str
    since: float
    heard: float | None = None
    summary: str = ""
    reason: str | None = None
    soft: str = ""  # `1/3` while it is not confirmed
    marks: str = ""
    labels: Mapping[str, str] = field(factory=dict)
    result: Mapping[str, Any] = field(factory=dict)
    state: Mapping[str, Any] = field(factory=dict)
    at: int = 0  # of the record at which it last changed; 0 where that is not known
    look: int = 0  # of a feed that found it so

    @property
    def key(self) -> Key:
        return self.agent, self.check

    @property
    def shown_check(self) -> str:
        return shown_check(self.check)

    @property
    def name(self) -> str:
        return f"{self.agent}/{self.shown_check}"


def is_unwell(row: Row) -> bool:
    """Return True for a row that a board of problems shows: it is not ok, or not confirmed, or flaps."""
    return row.status != "ok" or bool(row.soft) or "F" in row.marks


def row_of(key: Key, result: Mapping[str, Any], state: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    """Return the row of a check; result or state may be empty.

    A check that is ok has no state here, an agent that is away no result.
    """
    status = state.get("status") or result.get("status") or "unknown"
    reason = state.get("reason") or result.get("reason")
    summary = result.get("summary") or ""
    text = TEXT_OF_REASON.get(reason or "")
    if text is not None:
        summary = f"{text}; before: {summary}" if summary else text
    elif result.get("kept"):
        summary = "kept from before Helen's start"
    soft = f"{state['attempt']}/{state['attempts']}" if state.get("kind") == "soft" else ""
    since = state.get("since") or result.get("since") or 0.0
    return Row(
        *key, status, since, result.get("received"), summary, reason, soft, marks_of(state), labels, result, state
    )


def marks_of(state: Mapping[str, Any]) -> str:
    """Return the letters beside a state, see Row."""
    letters = {"downtime": "D", "silence": "S", "dependency": "P", "rollout": "R"}
    held = {letters.get(hold["kind"], "") for hold in state.get("held_by") or ()}
    marks = ["A" if state.get("acknowledged") else "", *sorted(held), "F" if state.get("flapping") else ""]
    return "".join(marks)


def shown_time(at: float) -> float:
    """Return a moment (unix seconds) as rows show it: orders are of what is shown, or a page would order rows anew."""
    return round(at, 3)


SORT_KEYS: dict[str, Callable[[Row], Any]] = {
    "problems": lambda row: (
        ORDER[row.status], row.marks[:1] in tuple("ADSP"), -shown_time(row.since), row.agent, row.check
    ),
    "agent": lambda row: (row.agent, row.check),
    "check": lambda row: (row.check, row.agent),
    "since": lambda row: (-shown_time(row.since), row.agent, row.check),
    "heard": lambda row: (shown_time(row.heard or 0.0), row.agent, row.check),
}  # fmt: skip
