"""Holds the state of a check as frozen values with JSON both ways: its rule, condition, flapping, notice, holds, trial.

Nothing is decided here: helen/states/machine.py steps a state, helen/states/alert_decisions.py decides about messages.
Inputs of a step are in helen/states/inputs.py, its events in helen/states/events.py. Times are unix seconds of Helen's
clock. All of it runs in Spark as well: the standard library and attrs, no clock, no I/O.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from equus_protocol.cheap_values import cheap_value
from equus_protocol.results import CRITICAL, OK, STATUS_WORDS, UNKNOWN

# Reasons that Helen itself gives for a status: nothing is known of the check.
PENDING, STALE, AWAY, RETIRED = "pending", "stale", "agent-away", "retired"
NO_DATA = frozenset((PENDING, STALE, AWAY, RETIRED))
LINK = "equus:link"  # the check_id of an agent's link, which has a state of its own
DOWNTIME, SILENCE, DEPENDENCY = "downtime", "silence", "dependency"  # kinds of hold
AWAITING = "awaiting"  # one more kind: the parent has recovered, and the next result says whether this check has, too
ROLLOUT = "rollout"  # holds back without being a hold: the version that the result comes from is being tried
Key = tuple[str, str]  # agent, check_id
SUMMARY_MOST = 200  # characters of a summary that an event carries; the whole of it is in the history


@frozen
class Rule:
    """Says how results of one check are evaluated. Times in seconds; `depends` are other checks, as AGENT/CHECK.

    With `runners` the check is run by these agents, and `quorum` of them have to see it bad: helen/states/quorum.py.
    """

    attempts: int = 3  # bad results in a row that confirm a problem
    recover: int = 1  # good results in a row that confirm a recovery
    retry: float | None = None  # seconds until the next run while a status is soft; None: the run at its usual time
    stale: float | None = None  # seconds without a result until the check is unknown; None: never
    flap_start: float | None = 30.0  # per cent of weighted changes among the last 20 results; None: no flap detection
    flap_stop: float = 15.0
    depends: tuple[str, ...] = ()
    away: float = 60.0  # seconds until a link that is down counts as away; a restart of agent or Helen takes less
    passive: bool = False  # results come from outside: a link of an agent of that name says nothing about the check
    missing: int = UNKNOWN  # the status when no result came in time
    quorum: int = 0
    runners: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields that differ from USUAL: an agent's rules are one record of the journal, and few differ."""
        changed = {name: value for name, value in items_of(self) if value != getattr(USUAL, name)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Rule:
        lists = {name: tuple(document.get(name, ())) for name in ("depends", "runners")}
        return cls(**{**document, **lists})


USUAL = Rule()


@frozen
class Condition:
    """Holds a status, since when, and how sure it is: `attempt` 0 is confirmed (hard), else its soft result's number.

    `reason` says why the status is not the check's own: one of NO_DATA, or the result's (`timeout`, `memory` ...).
    """

    status: int
    since: float
    reason: str | None = None
    attempt: int = 0

    @property
    def known(self) -> bool:
        """Return True if the status comes from a result of the check."""
        return self.reason not in NO_DATA

    def to_json(self) -> dict[str, Any]:
        """Return `status` (a word), `kind` (soft or hard), `since`, `reason` and `attempt`."""
        kind = "soft" if self.attempt else "hard"
        return {"status": STATUS_WORDS[self.status], "kind": kind, "since": self.since, "reason": self.reason,
                "attempt": self.attempt}  # fmt: skip

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Condition:
        """Read the document that `to_json` makes."""
        status = STATUS_WORDS.index(document["status"])
        return cls(status, document["since"], document["reason"], document["attempt"])


@cheap_value
class Seen:
    """Describes the newest result that counted. `ended` is the agent's time, corrected by its clock's offset."""

    at: float
    ended: float | None
    spool: str
    sequence: int
    code: str | None = None


@frozen
class Flap:
    """Describes the last results as `bits`: 1 if the status differs from that of the result before.

    The newest is bit 0.
    """

    bits: int = 0
    on: bool = False


@frozen
class Reason:
    """Describes one reason to hold back a message.

    `kind`: soft, pending, acknowledged, downtime, silence, dependency, awaiting, rollout.
    """

    kind: str
    detail: str
    ref: str = ""  # the id of a downtime or silence, the parent of a dependency, the version of a rollout


@frozen
class Notice:
    """Describes the status that people were `told` last, and the last decision about telling them more."""

    told: int = OK
    owed: str | None = None  # why they are to be told again, though nothing changed: what muted it has ended
    flapping_told: bool = False
    flapping_ended: bool = False  # the one message about its end is still to go out
    decided: tuple[str, ...] = ()  # the key of a decision to hold back; empty when nothing is held back


@frozen
class Hold:
    """Names a reason to hold back new alerts: a downtime or silence (`ref` is its id), or a broken parent."""

    kind: str
    ref: str
    detail: str = ""


@frozen
class Ack:
    """Describes an acknowledgement by `owner`.

    It ends by itself at `until`, with a confirmed change, or with recovery.
    """

    owner: str
    comment: str = ""
    until: float | None = None
    sticky: bool = False  # only recovery ends it, not warning to critical
    status: int = UNKNOWN  # the status that it was given for


@frozen
class Expected:
    """Describes a deadline for the next result, `within` seconds of `at`, instead of the rule's.

    `why`: its author's words.

    `begun`: it is the deadline of a run that has begun, and the rule's counts as well.
    """

    at: float
    within: float
    why: str = ""
    begun: bool = False


@frozen
class Trial:
    """Describes a version of the check that is being tried.

    If it is taken back, the state is `hard` again, as it was before.
    """

    ref: str  # the version
    detail: str
    hard: Condition
    flapping: bool = False
    down: bool = False  # as `down` of the state

    @property
    def was_well(self) -> bool:
        """Return True if nothing was known to be wrong before the trial."""
        return self.hard.status == OK or self.hard.reason == PENDING

    def to_json(self) -> dict[str, Any]:
        shown = {"ref": self.ref, "detail": self.detail, "hard": self.hard.to_json(), "flapping": self.flapping}
        return shown | ({"down": True} if self.down else {})

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Trial:
        return cls(**{**document, "hard": Condition.from_json(document["hard"])})


@cheap_value
class State:
    """Holds the state of one check on one agent (or of the agent's link).

    `number` counts its events: the next takes it.

    `down`: it is critical, confirmed or not, or it was when something was known of it last. It holds back its children.
    """

    shown: Condition
    hard: Condition  # the last one that was confirmed
    seen: Seen | None = None
    flap: Flap = Flap()
    notice: Notice = Notice()
    holds: tuple[Hold, ...] = ()
    ack: Ack | None = None
    lost: float | None = None  # set for a link that is down and not yet away: since when
    number: int = 0
    expected: Expected | None = None
    trial: Trial | None = None
    down: bool = False
    ack_at: float | None = None  # when `ack` was set or ended last, or the check recovered: it ends all from before

    @classmethod
    def pending(cls, at: float) -> State:
        """Make the state of a check without results yet; `at`: unix seconds."""
        pending = Condition(UNKNOWN, at, PENDING)
        return cls(pending, pending)

    def to_json(self) -> dict[str, Any]:
        """Return an object of the fields; `trial` and `ack_at` only if there is one, `down` only if it is true."""
        notice = dict(items_of(self.notice)) | {"told": STATUS_WORDS[self.notice.told]}
        return {
            "shown": self.shown.to_json(),
            "hard": self.hard.to_json(),
            "seen": plain(self.seen),
            "flap": plain(self.flap),
            "notice": notice | {"decided": list(self.notice.decided)},
            "holds": [plain(hold) for hold in self.holds],
            "ack": plain(self.ack),
            "lost": self.lost,
            "number": self.number,
            "expected": plain(self.expected),
            **({} if self.trial is None else {"trial": self.trial.to_json()}),
            **({"down": True} if self.down else {}),
            **({} if self.ack_at is None else {"ack_at": self.ack_at}),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> State:
        """Read the document that `to_json` makes, or one of an older version, which lacks `expected` and `trial`.

        Neither has `down` in an older version: it is true then for a check that is critical.
        """
        seen, ack, notice = document["seen"], document["ack"], document["notice"]
        expected, trial = document.get("expected"), document.get("trial")
        told = {"told": STATUS_WORDS.index(notice["told"]), "decided": tuple(notice["decided"])}
        shown, hard = Condition.from_json(document["shown"]), Condition.from_json(document["hard"])
        return cls(
            shown,
            hard,
            None if seen is None else Seen(**seen),
            Flap(**document["flap"]),
            Notice(**{**notice, **told}),
            tuple(Hold(**hold) for hold in document["holds"]),
            None if ack is None else Ack(**ack),
            document["lost"],
            document["number"],
            None if expected is None else Expected(**expected),
            None if trial is None else Trial.from_json(trial),
            document.get("down", CRITICAL in (shown.status, hard.status)),
            document.get("ack_at"),
        )


def items_of(value: Any) -> list[tuple[str, Any]]:
    """Return the fields of one of these values, by name: faster than attrs.asdict, which looks into each of them."""
    return [(name, getattr(value, name)) for name in value.__slots__ if name != "__weakref__"]


def plain(value: Any) -> dict[str, Any] | None:
    """Return a value as a JSON object of its fields; None for None."""
    return None if value is None else dict(items_of(value))
