"""Holds the events of a step of the state machine as frozen values: transitions, flapping, decisions.

`KIND` is the kind of the journal's record that an event becomes, `to_json` its document. Times are unix seconds of
Helen's clock.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import evolve, frozen

from equus_protocol.results import STATUS_WORDS
from helen.states.model import Condition, Reason, State, items_of, plain


@frozen
class Transition:
    """Says that the status, its reason, or how sure it is has changed."""

    KIND: ClassVar[str] = "transition"
    number: int
    at: float
    was: Condition
    now: Condition
    why: str
    summary: str = ""
    code: str | None = None
    spool: str = ""
    sequence: int = 0

    def to_json(self) -> dict[str, Any]:
        return dict(items_of(self)) | {"was": self.was.to_json(), "now": self.now.to_json()}


@frozen
class Flapping:
    """Says that flapping has begun, or has ended with `status` as the final one."""

    KIND: ClassVar[str] = "flap"
    number: int
    at: float
    on: bool
    percent: float
    status: int
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(items_of(self)) | {"status": STATUS_WORDS[self.status]}


@frozen
class Decision:
    """Describes a decision about a message.

    `action`: notify, hold (because of `reasons`), or drop (nothing is left to tell).

    `what`: problem, change (from one bad status to another), still (what muted it has ended), recovery, flapping,
    flapping-ended, closed (it is watched no more).
    """

    KIND: ClassVar[str] = "decision"
    number: int
    at: float
    action: str
    what: str
    status: int
    why: str
    reasons: tuple[Reason, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return an object of the fields; `status` as a word, `reasons` as objects of kind, detail and ref."""
        reasons = [plain(reason) for reason in self.reasons]
        return dict(items_of(self)) | {"status": STATUS_WORDS[self.status], "reasons": reasons}


@frozen
class AckEnded:
    """Says that an acknowledgement counts no more. It is recorded as a decision, with the action `ack-ended`."""

    KIND: ClassVar[str] = "decision"
    number: int
    at: float
    owner: str
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"action": "ack-ended", **dict(items_of(self))}


@frozen
class Again:
    """Describes a request to run the check at `at` rather than at its usual time.

    Not recorded: it is a wish, not a fact.
    """

    KIND: ClassVar[str] = ""
    at: float


Event = Transition | Flapping | Decision | AckEnded | Again


def numbered(state: State, events: list[Event]) -> tuple[State, tuple[Event, ...]]:
    """Number the events of one step; return the state with the next number, and the events."""
    number, given = state.number, []
    for event in events:
        if not isinstance(event, Again):
            event = evolve(event, number=number)
            number += 1
        given.append(event)
    return (state if number == state.number else evolve(state, number=number)), tuple(given)
