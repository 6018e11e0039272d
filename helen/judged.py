"""What judgement is about, as frozen values with JSON both ways: a check's state, what is done to it, what comes of it.

Nothing is decided here: helen/states.py steps a state, helen/notices.py decides who hears of it. Times are unix seconds
of Helen's clock. All of it runs in Spark as well: the standard library and attrs, no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from attrs import evolve, frozen

from equus_protocol.results import OK, STATUS_WORDS, UNKNOWN

# Reasons of ours: nothing is known of the check itself.
PENDING, STALE, AWAY, RETIRED = "pending", "stale", "agent-away", "retired"
NO_DATA = frozenset((PENDING, STALE, AWAY, RETIRED))
LINK = "equus:link"  # the check_id under which an agent's being there is a state of its own
DOWNTIME, SILENCE, DEPENDENCY = "downtime", "silence", "dependency"  # kinds of hold
AWAITING = "awaiting"  # one more: the parent has recovered, and the next result says whether this has, too
ROLLOUT = "rollout"  # what holds back without being a hold: the version that says so is being tried
SUMMARY_MOST = 200  # characters of a summary that an event carries; the whole of it is in the history


@frozen
class Rule:
    """How one check is judged. Seconds and counts; `depends` are other checks, as AGENT/CHECK."""

    attempts: int = 3  # bad results in a row that confirm a problem
    recover: int = 1  # good ones that confirm a recovery
    retry: float | None = None  # while it is not confirmed, the next run comes so soon; None: at its usual time
    stale: float | None = None  # without a result for so long it is unknown; None: never
    flap_start: float | None = 30.0  # per cent of weighted changes among the last 20 results; None: no flap detection
    flap_stop: float = 15.0
    depends: tuple[str, ...] = ()
    away: float = 60.0  # of a link: an agent that is gone for so long is away; a restart of it or of Helen is shorter
    passive: bool = False  # its results come from outside: whether an agent of that name is there says nothing of it
    missing: int = UNKNOWN  # what it is when no result came in time

    def to_json(self) -> dict[str, Any]:
        """Without what is as usual: an agent's rules are a record of the journal, and most are as usual."""
        said = {name: value for name, value in _items(self) if value != getattr(USUAL, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Rule:
        return cls(**{**document, "depends": tuple(document.get("depends", ()))})


USUAL = Rule()


@frozen
class Condition:
    """A status, since when, and how sure we are: `attempt` 0 is confirmed (hard), else the number of the soft result.

    `reason` says why the status is not the check's own: one of NO_DATA, or the result's (`timeout`, `memory` ...).
    """

    status: int
    since: float
    reason: str | None = None
    attempt: int = 0

    @property
    def known(self) -> bool:
        """Whether the check itself has said so."""
        return self.reason not in NO_DATA

    def to_json(self) -> dict[str, Any]:
        kind = "soft" if self.attempt else "hard"
        return {"status": STATUS_WORDS[self.status], "kind": kind, "since": self.since, "reason": self.reason,
                "attempt": self.attempt}  # fmt: skip

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Condition:
        status = STATUS_WORDS.index(document["status"])
        return cls(status, document["since"], document["reason"], document["attempt"])


@frozen
class Seen:
    """The newest result that counted. `ended` is the agent's time, corrected by its clock's offset."""

    at: float
    ended: float | None
    spool: str
    sequence: int
    code: str | None = None


@frozen
class Flap:
    """`bits`: for each of the last results whether its status was another than the one before; the newest is bit 0."""

    bits: int = 0
    on: bool = False


@frozen
class Reason:
    """Why nobody is told: soft, pending, flapping, acknowledged, downtime, silence, dependency, awaiting, rollout."""

    kind: str
    detail: str
    ref: str = ""  # of a downtime or silence its id, of a dependency the parent, of a rollout the version


@frozen
class Notice:
    """What people believe (`told`, a status), and what was decided last about telling them more."""

    told: int = OK
    owed: str | None = None  # why they are to be told again, though nothing changed: what muted it has ended
    flapping_told: bool = False
    flapping_ended: bool = False  # the one message about its end is still to go out
    decided: tuple[str, ...] = ()  # the key of a decision to hold back; empty when nothing is held back


@frozen
class Hold:
    """Something that holds back new alerts: a downtime or silence (`ref` is its id), or a parent that is broken."""

    kind: str
    ref: str
    detail: str = ""


@frozen
class Ack:
    """Somebody has taken the problem over. It ends by itself at `until`, with a confirmed change, or with recovery."""

    owner: str
    comment: str = ""
    until: float | None = None
    sticky: bool = False  # only recovery ends it, not warning to critical
    status: int = UNKNOWN  # that it was given for


@frozen
class Expected:
    """The next result has to come `within` so many seconds of `at`, whatever the rule says. `why`: who said so."""

    at: float
    within: float
    why: str = ""


@frozen
class Trial:
    """A version of the check that is being tried. Without it the state is again what was confirmed before (`hard`)."""

    ref: str  # the version
    detail: str
    hard: Condition
    flapping: bool = False

    @property
    def was_well(self) -> bool:
        """Whether nothing was wrong before, as far as anybody knew."""
        return self.hard.status == OK or self.hard.reason == PENDING

    def to_json(self) -> dict[str, Any]:
        return {"ref": self.ref, "detail": self.detail, "hard": self.hard.to_json(), "flapping": self.flapping}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Trial:
        return cls(**{**document, "hard": Condition.from_json(document["hard"])})


@frozen
class State:
    """One check on one agent (or the agent's link). `number` counts its events: the next one takes it."""

    shown: Condition
    hard: Condition  # the last one that was confirmed
    seen: Seen | None = None
    flap: Flap = Flap()
    notice: Notice = Notice()
    holds: tuple[Hold, ...] = ()
    ack: Ack | None = None
    lost: float | None = None  # of a link: since when it is down and not yet called away
    number: int = 0
    expected: Expected | None = None
    trial: Trial | None = None

    @classmethod
    def born(cls, at: float) -> State:
        """Nothing has been heard of it."""
        pending = Condition(UNKNOWN, at, PENDING)
        return cls(pending, pending)

    def to_json(self) -> dict[str, Any]:
        notice = dict(_items(self.notice)) | {"told": STATUS_WORDS[self.notice.told]}
        return {
            "shown": self.shown.to_json(),
            "hard": self.hard.to_json(),
            "seen": _plain(self.seen),
            "flap": _plain(self.flap),
            "notice": notice | {"decided": list(self.notice.decided)},
            "holds": [_plain(hold) for hold in self.holds],
            "ack": _plain(self.ack),
            "lost": self.lost,
            "number": self.number,
            "expected": _plain(self.expected),
            **({} if self.trial is None else {"trial": self.trial.to_json()}),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> State:
        seen, ack, notice = document["seen"], document["ack"], document["notice"]
        expected, trial = document.get("expected"), document.get("trial")  # states of older versions have none
        told = {"told": STATUS_WORDS.index(notice["told"]), "decided": tuple(notice["decided"])}
        return cls(
            Condition.from_json(document["shown"]),
            Condition.from_json(document["hard"]),
            None if seen is None else Seen(**seen),
            Flap(**document["flap"]),
            Notice(**{**notice, **told}),
            tuple(Hold(**hold) for hold in document["holds"]),
            None if ack is None else Ack(**ack),
            document["lost"],
            document["number"],
            None if expected is None else Expected(**expected),
            None if trial is None else Trial.from_json(trial),
        )


# ------------------------------------------------------------------------------------------------ inputs


@frozen
class Result:
    """A scheduled or passive result. `at` is when Helen got it; `ended` when it ended, on Helen's clock, if known."""

    WORD: ClassVar[str] = "result"
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
    """A deadline has come. `listening`: since when Helen has heard this agent without a break; None: she doesn't."""

    WORD: ClassVar[str] = "tick"
    at: float
    listening: float | None
    started: float = 0.0  # when this Helen started


@frozen
class Acknowledge:
    WORD: ClassVar[str] = "ack"
    at: float
    ack: Ack


@frozen
class Unacknowledge:
    WORD: ClassVar[str] = "unack"
    at: float
    who: str = ""


@frozen
class Expect:
    """The next result has to come within so many seconds from now: what brings it has said so."""

    WORD: ClassVar[str] = "expect"
    at: float
    within: float
    why: str = ""


@frozen
class Held:
    """From now on this holds back new alerts."""

    WORD: ClassVar[str] = "held"
    at: float
    hold: Hold


@frozen
class Released:
    """It holds nothing back any more. `why` is told when the check is still broken."""

    WORD: ClassVar[str] = "released"
    at: float
    kind: str
    ref: str
    why: str = ""


@frozen
class Link:
    """Of a link: the agent came or went."""

    WORD: ClassVar[str] = "link"
    at: float
    up: bool


@frozen
class AgentAway:
    """Of a check: its agent is called away, so nothing is known of it. `link` is AGENT/equus:link."""

    WORD: ClassVar[str] = "agent-away"
    at: float
    link: str


@frozen
class AgentBack:
    """Of a check: its agent is there again; the next result says how things are."""

    WORD: ClassVar[str] = "agent-back"
    at: float
    link: str


@frozen
class Retired:
    """Nothing runs it any more."""

    WORD: ClassVar[str] = "retired"
    at: float
    why: str = "it is not scheduled any more"


@frozen
class Tried:
    """From now on a version is being tried here: nobody is told of what it changes."""

    WORD: ClassVar[str] = "tried"
    at: float
    ref: str
    detail: str


@frozen
class Approved:
    """The version has passed: what it says counts like anything else."""

    WORD: ClassVar[str] = "approved"
    at: float
    ref: str
    why: str


@frozen
class TakenBack:
    """The version is not run here any more: whatever it said never counted."""

    WORD: ClassVar[str] = "taken-back"
    at: float
    ref: str
    why: str


Input = (
    Result | Tick | Acknowledge | Unacknowledge | Expect | Held | Released | Link | AgentAway | AgentBack | Retired
    | Tried | Approved | TakenBack
)  # fmt: skip
_INPUTS: dict[str, type[Any]] = {
    each.WORD: each
    for each in (
        Result, Tick, Acknowledge, Unacknowledge, Expect, Held, Released, Link, AgentAway, AgentBack, Retired, Tried,
        Approved, TakenBack,
    )
}  # fmt: skip
_PARTS: dict[str, Callable[..., Any]] = {"ack": Ack, "hold": Hold}  # fields that are values of ours


def input_to_json(given: Input) -> dict[str, Any]:
    parts = {name: _plain(value) if name in _PARTS else value for name, value in _items(given)}
    return {"input": given.WORD, **parts}


def input_from_json(document: dict[str, Any]) -> Input:
    """Raises KeyError or TypeError for what no version of ours has written."""
    rest = {name: _PARTS[name](**value) if name in _PARTS else value for name, value in document.items()}
    made: Input = _INPUTS[rest.pop("input")](**rest)
    return made


# ------------------------------------------------------------------------------------------------ events


@frozen
class Transition:
    """The status, its reason, or how sure we are of it has changed."""

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
        return dict(_items(self)) | {"was": self.was.to_json(), "now": self.now.to_json()}


@frozen
class Flapping:
    """It has begun to flap, or has ended, with this as its final status."""

    KIND: ClassVar[str] = "flap"
    number: int
    at: float
    on: bool
    percent: float
    status: int
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(_items(self)) | {"status": STATUS_WORDS[self.status]}


@frozen
class Decision:
    """Whether people are told, decided now. `action`: notify, hold (because of `reasons`), or drop (nothing is left).

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
        reasons = [_plain(reason) for reason in self.reasons]
        return dict(_items(self)) | {"status": STATUS_WORDS[self.status], "reasons": reasons}


@frozen
class AckEnded:
    """An acknowledgement counts no more."""

    KIND: ClassVar[str] = "decision"
    number: int
    at: float
    owner: str
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"action": "ack-ended", **dict(_items(self))}


@frozen
class Again:
    """Run it again at this time rather than at its usual one. Not recorded: it is a wish, not a fact."""

    KIND: ClassVar[str] = ""
    at: float


Event = Transition | Flapping | Decision | AckEnded | Again


def numbered(state: State, events: list[Event]) -> tuple[State, tuple[Event, ...]]:
    """Give the events of one step their numbers."""
    number, given = state.number, []
    for event in events:
        if not isinstance(event, Again):
            event = evolve(event, number=number)
            number += 1
        given.append(event)
    return (state if number == state.number else evolve(state, number=number)), tuple(given)


def _items(value: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(value, name)) for name in value.__slots__ if name != "__weakref__"]


def _plain(value: Any) -> dict[str, Any] | None:
    return None if value is None else dict(_items(value))
