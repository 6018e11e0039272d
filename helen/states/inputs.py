"""Holds the inputs of a step of the state machine as frozen values: results, deadlines, commands, links, rollouts.

Each has `at`, unix seconds of Helen's clock. helen/states/machine.py has one function for each.
"""

from __future__ import annotations

from attrs import frozen

from equus_protocol.cheap_values import cheap_value
from helen.states.model import Ack, Hold


@cheap_value
class Result:
    """Describes a scheduled or passive result.

    `at` is when Helen got it; `ended` when it ended, on Helen's clock, if known.
    """

    at: float
    status: int
    ended: float | None = None
    spool: str = "helen"
    sequence: int = 0
    reason: str | None = None
    code: str | None = None
    summary: str = ""


@frozen
class Tick:
    """Says that a deadline has come.

    `listening`: since when Helen has heard this agent without a break; None: it doesn't.
    """

    at: float
    listening: float | None
    started: float = 0.0  # when this Helen started


@frozen
class Acknowledge:
    """Says that an operator takes the problem over.

    `carried`: when it was done at another Helen, which had the agent before.
    """

    at: float
    ack: Ack
    carried: float | None = None


@frozen
class Unacknowledge:
    """Says that an operator takes the acknowledgement back. `carried`: when it ended at another Helen."""

    at: float
    author: str = ""
    carried: float | None = None


@frozen
class Expect:
    """Says that the sender of passive results announces the next one, within so many seconds from now.

    `begun`: a run has begun that ends by then. It may bring the deadline forward, and never moves it away.
    """

    at: float
    within: float
    why: str = ""
    begun: bool = False


@frozen
class Held:
    """Says that a hold begins: new alerts are held back from now on."""

    at: float
    hold: Hold


@frozen
class Released:
    """Says that a hold has ended. `why` goes into the message if the check is still broken."""

    at: float
    kind: str
    ref: str
    why: str = ""


@frozen
class Link:
    """Says that the agent connected or its connection ended. For the state of a link only."""

    at: float
    up: bool


@frozen
class AgentAway:
    """Says that the check's agent counts as away, so nothing is known of the check. `link` is AGENT/equus:link."""

    at: float
    link: str


@frozen
class AgentBack:
    """Says that the check's agent is connected again; the next result says how things are."""

    at: float
    link: str


@frozen
class Retired:
    """Says that the check is not run any more."""

    at: float
    why: str = "it is not scheduled any more"


@frozen
class Tried:
    """Says that a version of the check is being tried from now on: alerts that it may have caused are held back."""

    at: float
    ref: str
    detail: str


@frozen
class Approved:
    """Says that the version has passed: its results count like any others."""

    at: float
    ref: str
    why: str


@frozen
class TakenBack:
    """Says that the version is not run here any more, and its results never counted."""

    at: float
    ref: str
    why: str


Input = (
    Result | Tick | Acknowledge | Unacknowledge | Expect | Held | Released | Link | AgentAway | AgentBack | Retired
    | Tried | Approved | TakenBack
)  # fmt: skip
