"""Puts a new condition of a check in place. Pure.

`turn` adds the transition and ends an acknowledgement, `decide` adds the decision about a message.
"""

from __future__ import annotations

from attrs import evolve

from equus_protocol.results import CRITICAL, OK, STATUS_WORDS, UNKNOWN
from helen.states import alert_decisions
from helen.states.events import AckEnded, Event, Transition, numbered
from helen.states.flapping import end_flapping
from helen.states.inputs import Result
from helen.states.model import AWAITING, PENDING, RETIRED, SUMMARY_MOST, Condition, Flap, Hold, State

ACK_STEP = 0.001  # seconds between two changes of an acknowledgement: what Helens of a network tell apart

Stepped = tuple[State, tuple[Event, ...]]


def turn(state: State, now: Condition, why: str, at: float, events: list[Event], result: Result | None = None) -> State:
    """Put a condition in place; append a Transition if the status, its reason or how sure it is has changed."""
    was = state.shown
    if now == was:
        return state
    if (now.status, now.reason, now.attempt > 0) != (was.status, was.reason, was.attempt > 0):
        said = ("", None, "", 0) if result is None else (
            result.summary[:SUMMARY_MOST], result.code, result.spool, result.sequence
        )  # fmt: skip
        events.append(Transition(0, at, was, now, why, *said))
    hard = state.hard if now.attempt else now
    state = evolve(state, shown=now, hard=hard, down=is_down(state, now, hard))
    ack = state.ack
    if now.attempt or not now.known:
        return state
    if ack is None:
        return evolve(state, ack_at=later(state, at)) if now.status == OK else state
    if now.status != OK and (ack.sticky or now.status == ack.status):
        return state
    events.append(AckEnded(0, at, ack.owner, f"it is {STATUS_WORDS[now.status]} now"))
    return evolve(state, ack=None, ack_at=later(state, at))


def is_down(state: State, now: Condition, hard: Condition) -> bool:
    """Return True for a critical check, and for one without news since it was critical: it has not recovered."""
    if CRITICAL in (now.status, hard.status):
        return True
    is_open = UNKNOWN in (now.status, hard.status) or not now.known
    return state.down and is_open and now.reason != RETIRED


def become_unknown(state: State, reason: str, why: str, at: float, events: list[Event], status: int = UNKNOWN) -> State:
    """Return the state of a check of which nothing is known any more: nothing waits for further results."""
    state = end_flapping(state, at, status, why, events)
    holds = tuple(hold for hold in state.holds if hold.kind != AWAITING)
    state = evolve(state, flap=Flap(), holds=holds, expected=None)
    return turn(state, Condition(status, at, reason), why, at, events)


def decide(state: State, at: float, events: list[Event]) -> Stepped:
    """Decide whether this is a time for a message; return the state and its events, numbered. `at`: unix seconds."""
    notice, decision = alert_decisions.decide(state, at)
    if decision is not None:
        events.append(decision)
    if notice is not state.notice:
        state = evolve(state, notice=notice)
    return numbered(state, events)


def owed(state: State, why: str) -> str | None:
    """Return why a message is owed: `why` if the check is broken, or else the reason of before."""
    broken = state.hard.status != OK and state.hard.reason != PENDING
    return why if broken else state.notice.owed


def later(state: State, at: float) -> float:
    """Return `at`, or a time after the one of before, which the clock of another Helen may have given."""
    return at if state.ack_at is None else max(at, state.ack_at + ACK_STEP)


def with_hold(holds: tuple[Hold, ...], hold: Hold) -> tuple[Hold, ...]:
    """Return the holds with this one, in place of one of the same kind and reference."""
    return (*without_hold(holds, hold.kind, hold.ref), hold)


def without_hold(holds: tuple[Hold, ...], kind: str, ref: str) -> tuple[Hold, ...]:
    """Return the holds without the one of this kind and reference."""
    return tuple(hold for hold in holds if not (hold.kind == kind and hold.ref == ref))
