"""The state machine of a check: `step(state, input, rule) -> (state, events)`. Pure; live and in Spark it is this one.

It knows one check (or one agent's link). Who is whose parent, which windows cover what, and when a deadline comes is
helen/timeline.py's; what to tell is helen/notices.py's. docs/states.rst has the rules in words.

Results are judged by when Helen got them. Those that were late (spooled while the agent was cut off) and those older
than what is known already belong to the history; the present never moves backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from equus_protocol.results import CRITICAL, OK, STATUS_WORDS, UNKNOWN
from helen import notices
from helen.flapping import MASK, percent
from helen.judged import (
    AWAITING,
    AWAY,
    DEPENDENCY,
    PENDING,
    RETIRED,
    STALE,
    SUMMARY_MOST,
    AckEnded,
    Acknowledge,
    Again,
    AgentAway,
    AgentBack,
    Approved,
    Condition,
    Event,
    Expect,
    Expected,
    Flap,
    Flapping,
    Held,
    Hold,
    Input,
    Link,
    Released,
    Result,
    Retired,
    Rule,
    Seen,
    State,
    TakenBack,
    Tick,
    Transition,
    Trial,
    Tried,
    Unacknowledge,
    numbered,
)

LATE_SECONDS = 600.0  # a result that took longer to arrive is history, where no stale deadline says it better
UNHEARD_TIMES = 3.0  # of the stale deadline: however often the agent comes and goes, then it is stale

Stepped = tuple[State, tuple[Event, ...]]


def step(state: State, given: Input, rule: Rule) -> Stepped:
    """The state after this input, and what came of it, in order."""
    return _STEPS[type(given)](state, given, rule)


def deadline(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
    """When to step a Tick next. `listening`, `started`: as in Tick."""
    stale = _stale_at(state, rule, listening, started)
    ack = None if state.ack is None else state.ack.until
    away = None if state.lost is None or state.hard.reason == AWAY else max(state.lost, started) + rule.away
    return min((time for time in (stale, ack, away) if time is not None), default=None)


def is_history(seen: Seen | None, given: Result, rule: Rule) -> bool:
    """Whether a result says nothing about the present any more."""
    if given.ended is not None and given.at - given.ended >= (rule.stale or LATE_SECONDS):
        return True
    if seen is None:
        return False
    if given.spool == seen.spool:
        return given.sequence < seen.sequence
    return given.ended is not None and seen.ended is not None and given.ended < seen.ended


# ------------------------------------------------------------------------------------------------ results


def _result(state: State, given: Result, rule: Rule) -> Stepped:
    if is_history(state.seen, given, rule):
        return state, ()
    seen = Seen(given.at, given.ended, given.spool, given.sequence, given.code)
    shown, flap = state.shown, state.flap
    calm = not (shown.attempt or flap.bits or state.notice.decided or _waits(state.holds))
    if calm and given.status == shown.status and given.reason == shown.reason:  # nearly every result ends here
        return State(
            shown,
            state.hard,
            seen,
            flap,
            state.notice,
            state.holds,
            state.ack,
            state.lost,
            state.number,
            None,
            state.trial,
        ), ()
    events: list[Event] = []
    changed = shown.known and given.status != shown.status
    holds = tuple(hold for hold in state.holds if hold.kind != AWAITING)
    now, why = _judge(state, given, rule)
    state = evolve(state, seen=seen, holds=holds, expected=None)
    state = _count_change(state, changed, given, rule, events)
    state = _turn(state, now, why, given.at, events, given)
    if now.attempt and rule.retry is not None:
        events.append(Again(given.at + rule.retry))
    return _decide(state, given.at, events)


def _judge(state: State, given: Result, rule: Rule) -> tuple[Condition, str]:
    """What this result makes of it: soft until enough of them in a row say the same."""
    hard, shown, is_ok = state.hard, state.shown, given.status == OK
    word = STATUS_WORDS[given.status]
    if hard.known and given.status == hard.status:
        why = "as before; the change was not confirmed" if shown.attempt else f"the reason is {given.reason or 'gone'}"
        return Condition(given.status, hard.since, given.reason), why
    same_way = shown.attempt > 0 and (shown.status == OK) == is_ok
    since, attempt = (shown.since, shown.attempt + 1) if same_way else (given.at, 1)
    needed = _needed(hard, is_ok, rule)
    if attempt < needed:
        return Condition(given.status, since, given.reason, attempt), f"{word}, attempt {attempt} of {needed}"
    confirmed = f"{word}, confirmed by {attempt} of {needed} results" if needed > 1 else f"the result says {word}"
    return Condition(given.status, since, given.reason), confirmed


def _needed(hard: Condition, is_ok: bool, rule: Rule) -> int:
    """Results in a row. From nothing known to ok, and from one bad status to another, the first one counts."""
    if is_ok:
        return rule.recover if hard.known else 1
    return 1 if hard.known and hard.status != OK else rule.attempts


def _count_change(state: State, changed: bool, given: Result, rule: Rule, events: list[Event]) -> State:
    if rule.flap_start is None:
        return _end_flapping(state, given.at, given.status, "flap detection is off", events)
    bits = (state.flap.bits << 1 | changed) & MASK
    share, on = percent(bits), state.flap.on
    if on and share < rule.flap_stop:
        why = f"{share:.0f} % of the last results were changes, below {rule.flap_stop:g} %"
        return _end_flapping(evolve(state, flap=Flap(bits, True)), given.at, given.status, why, events)
    if not on and share >= rule.flap_start:
        on, why = True, f"{share:.0f} % of the last results were changes, {rule.flap_start:g} % is the limit"
        events.append(Flapping(0, given.at, True, round(share, 1), given.status, why))
        state = evolve(state, notice=evolve(state.notice, flapping_ended=False))
    return evolve(state, flap=Flap(bits, on))


def _end_flapping(state: State, at: float, status: int, why: str, events: list[Event]) -> State:
    """Whatever ends it, one event says so, and one decision about its final state follows."""
    if not state.flap.on:
        return state
    share = percent(state.flap.bits)
    events.append(Flapping(0, at, False, round(share, 1), status, why))
    return evolve(state, flap=Flap(state.flap.bits), notice=evolve(state.notice, flapping_ended=True))


# ------------------------------------------------------------------------------------------------ time


def _stale_at(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
    """A check is stale when Helen has listened to its agent for the whole deadline and heard nothing of it."""
    if state.shown.reason in (STALE, AWAY):
        return None
    if state.expected is not None:
        return max(state.expected.at, started) + state.expected.within
    if rule.stale is None:
        return None
    heard = state.hard.since if state.seen is None else state.seen.at
    if state.hard.reason == PENDING:
        heard = max(heard, state.hard.since)
    latest = max(heard + UNHEARD_TIMES * rule.stale, started + rule.stale)
    return latest if listening is None else min(latest, max(heard, listening, started) + rule.stale)


def _tick(state: State, given: Tick, rule: Rule) -> Stepped:
    events: list[Event] = []
    if state.ack is not None and state.ack.until is not None and state.ack.until <= given.at:
        state = _end_ack(state, given.at, "its time is over", events)
    if state.lost is not None and state.hard.reason != AWAY and max(state.lost, given.started) + rule.away <= given.at:
        why = f"it has been gone for {rule.away:g} s"
        state = _turn(state, Condition(CRITICAL, state.lost, AWAY), why, given.at, events)
    stale_at = _stale_at(state, rule, given.listening, given.started)
    if stale_at is not None and stale_at <= given.at:
        state = _unknown(state, STALE, _silence(state, given.at, rule), given.at, events, rule.missing)
    return _decide(state, given.at, events)


def _silence(state: State, at: float, rule: Rule) -> str:
    silence = "no result yet" if state.seen is None else f"no result for {at - state.seen.at:.0f} s"
    if state.expected is None:
        return f"{silence}; {rule.stale:g} s are allowed"
    said = f" ({state.expected.why})" if state.expected.why else ""
    return f"{silence}; it was expected within {state.expected.within:g} s{said}"


def _unknown(state: State, reason: str, why: str, at: float, events: list[Event], status: int = UNKNOWN) -> State:
    """Nothing is known any more; whatever waited for further results waits no longer."""
    state = _end_flapping(state, at, status, why, events)
    holds = tuple(hold for hold in state.holds if hold.kind != AWAITING)
    state = evolve(state, flap=Flap(), holds=holds, expected=None)
    return _turn(state, Condition(status, at, reason), why, at, events)


def _expect(state: State, given: Expect, rule: Rule) -> Stepped:
    return evolve(state, expected=Expected(given.at, given.within, given.why)), ()


# ------------------------------------------------------------------------------------------------ links


def _link(state: State, given: Link, rule: Rule) -> Stepped:
    """A lost link is nobody's news before its grace is over: Tick says then that the agent is away."""
    events: list[Event] = []
    if not given.up:
        return evolve(state, lost=given.at), ()
    state = evolve(state, lost=None)
    if state.hard.status != OK:
        state = _turn(state, Condition(OK, given.at), "the agent is connected", given.at, events)
    return _decide(state, given.at, events)


def _agent_away(state: State, given: AgentAway, rule: Rule) -> Stepped:
    events: list[Event] = []
    hold = Hold(DEPENDENCY, given.link, "its agent is away")
    state = evolve(state, holds=_with(state.holds, hold))
    state = _unknown(state, AWAY, "its agent is away", given.at, events)
    return _decide(state, given.at, events)


def _agent_back(state: State, given: AgentBack, rule: Rule) -> Stepped:
    events: list[Event] = []
    state = evolve(state, holds=_without(state.holds, DEPENDENCY, given.link))
    if state.hard.reason == AWAY:
        state = _turn(state, Condition(UNKNOWN, given.at, PENDING), "its agent is back", given.at, events)
    return _decide(state, given.at, events)


# ------------------------------------------------------------------------------------------------ commands


def _held(state: State, given: Held, rule: Rule) -> Stepped:
    return _decide(evolve(state, holds=_with(state.holds, given.hold)), given.at, [])


def _released(state: State, given: Released, rule: Rule) -> Stepped:
    if not any(hold.kind == given.kind and hold.ref == given.ref for hold in state.holds):
        return state, ()
    holds, notice = _without(state.holds, given.kind, given.ref), state.notice
    if given.kind == DEPENDENCY:
        if state.shown.status != OK:  # it may be better since: the next result says
            holds = _with(holds, Hold(AWAITING, given.ref, f"{given.ref} is back: the next result counts"))
    else:
        notice = evolve(notice, owed=_owed(state, given.why))
    return _decide(evolve(state, holds=holds, notice=notice), given.at, [])


def _owed(state: State, why: str) -> str | None:
    broken = state.hard.status != OK and state.hard.reason != PENDING
    return why if broken else state.notice.owed


def _acknowledge(state: State, given: Acknowledge, rule: Rule) -> Stepped:
    """What is not broken can't be acknowledged; a second acknowledgement takes the place of the first."""
    if state.shown.status == OK or state.hard.reason == PENDING:
        return state, ()
    status = state.shown.status if state.hard.status == OK else state.hard.status
    return _decide(evolve(state, ack=evolve(given.ack, status=status)), given.at, [])


def _unacknowledge(state: State, given: Unacknowledge, rule: Rule) -> Stepped:
    if state.ack is None:
        return state, ()
    events: list[Event] = []
    state = _end_ack(state, given.at, f"taken back by {given.who}" if given.who else "taken back", events)
    return _decide(state, given.at, events)


def _end_ack(state: State, at: float, why: str, events: list[Event]) -> State:
    assert state.ack is not None
    owner = state.ack.owner
    events.append(AckEnded(0, at, owner, why))
    owed = _owed(state, f"the acknowledgement by {owner} has ended: {why}")
    return evolve(state, ack=None, notice=evolve(state.notice, owed=owed))


def _retired(state: State, given: Retired, rule: Rule) -> Stepped:
    events: list[Event] = []
    state = _end_flapping(state, given.at, state.hard.status, given.why, events)
    closing = notices.close(state, given.at, given.why)
    state = _turn(state, Condition(UNKNOWN, given.at, RETIRED), given.why, given.at, events)
    if closing is not None:
        events.append(closing)
    return numbered(state, events)


# ------------------------------------------------------------------------------------------------ rollouts


def _tried(state: State, given: Tried, rule: Rule) -> Stepped:
    """Before the first of several trials in a row was the last time that an approved version said how things are."""
    held = state.trial
    hard, flapping = (state.hard, state.flap.on) if held is None else (held.hard, held.flapping)
    return _decide(evolve(state, trial=Trial(given.ref, given.detail, hard, flapping)), given.at, [])


def _approved(state: State, given: Approved, rule: Rule) -> Stepped:
    """Whatever was held back for it is told now."""
    if state.trial is None or state.trial.ref != given.ref:
        return state, ()
    notice = state.notice
    if notice.told == OK:
        notice = evolve(notice, owed=_owed(state, given.why))
    return _decide(evolve(state, trial=None, notice=notice), given.at, [])


def _taken_back(state: State, given: TakenBack, rule: Rule) -> Stepped:
    """As it was; but what is said of the agent's absence is no word of that version's."""
    trial = state.trial
    if trial is None or trial.ref != given.ref:
        return state, ()
    events: list[Event] = []
    if not trial.flapping:
        state = _end_flapping(state, given.at, trial.hard.status, given.why, events)
        state = evolve(state, flap=Flap())
    state = evolve(state, trial=None)
    if state.hard.reason != AWAY and trial.hard.reason != AWAY:
        state = _turn(state, trial.hard, given.why, given.at, events)
    return _decide(state, given.at, events)


# ------------------------------------------------------------------------------------------------ common


def _turn(
    state: State, now: Condition, why: str, at: float, events: list[Event], result: Result | None = None
) -> State:
    """Put a condition in place; it is an event when the status, its reason or how sure we are of it has changed."""
    was = state.shown
    if now == was:
        return state
    if (now.status, now.reason, now.attempt > 0) != (was.status, was.reason, was.attempt > 0):
        said = ("", None, "", 0) if result is None else (
            result.summary[:SUMMARY_MOST], result.code, result.spool, result.sequence
        )  # fmt: skip
        events.append(Transition(0, at, was, now, why, *said))
    state = evolve(state, shown=now, hard=state.hard if now.attempt else now)
    ack = state.ack
    if ack is None or now.attempt or not now.known or (now.status != OK and (ack.sticky or now.status == ack.status)):
        return state
    events.append(AckEnded(0, at, ack.owner, f"it is {STATUS_WORDS[now.status]} now"))
    return evolve(state, ack=None)


def _decide(state: State, at: float, events: list[Event]) -> Stepped:
    notice, decision = notices.decide(state, at)
    if decision is not None:
        events.append(decision)
    if notice is not state.notice:
        state = evolve(state, notice=notice)
    return numbered(state, events)


def _waits(holds: tuple[Hold, ...]) -> bool:
    return bool(holds) and any(hold.kind == AWAITING for hold in holds)


def _with(holds: tuple[Hold, ...], hold: Hold) -> tuple[Hold, ...]:
    return (*_without(holds, hold.kind, hold.ref), hold)


def _without(holds: tuple[Hold, ...], kind: str, ref: str) -> tuple[Hold, ...]:
    return tuple(hold for hold in holds if not (hold.kind == kind and hold.ref == ref))


_STEPS: dict[type[Any], Callable[[State, Any, Rule], Stepped]] = {
    Result: _result, Tick: _tick, Acknowledge: _acknowledge, Unacknowledge: _unacknowledge, Expect: _expect,
    Held: _held, Released: _released, Link: _link, AgentAway: _agent_away, AgentBack: _agent_back, Retired: _retired,
    Tried: _tried, Approved: _approved, TakenBack: _taken_back,
}  # fmt: skip
