"""Steps the state of a check: `step(state, input, rule) -> (state, events)`. Pure; live and in Spark it is this one.

It knows one check (or one agent's link): results, links and holds. silence.py, acknowledgements.py and
trial_steps.py step the other inputs. helen/states/fleet_timeline.py knows parents, windows and deadlines;
helen/states/alert_decisions.py decides about messages. docs/states.rst has the rules in words.

Results are evaluated by the time at which Helen got them. Late ones (spooled while the agent was cut off) and those
older than what is known already belong to the history; the present never moves backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from equus_protocol.results import OK, STATUS_WORDS, UNKNOWN
from helen.states import alert_decisions
from helen.states.acknowledgements import acknowledge, unacknowledge
from helen.states.condition_changes import Stepped, become_unknown, decide, owed, turn, with_hold, without_hold
from helen.states.events import Again, Event, numbered
from helen.states.flapping import count_change, end_flapping
from helen.states.inputs import (
    Acknowledge,
    AgentAway,
    AgentBack,
    Approved,
    Expect,
    Held,
    Input,
    Link,
    Released,
    Result,
    Retired,
    TakenBack,
    Tick,
    Tried,
    Unacknowledge,
)  # fmt: skip
from helen.states.model import AWAITING, AWAY, DEPENDENCY, PENDING, RETIRED, Condition, Hold, Rule, Seen, State
from helen.states.silence import expect, tick
from helen.states.trial_steps import approve, take_back, try_version

LATE_SECONDS = 600.0  # a result that took longer to arrive is history, for a check without a stale deadline


def step(state: State, given: Input, rule: Rule) -> Stepped:
    """Return the state after this input, and the events that it causes, in order."""
    return _STEPS[type(given)](state, given, rule)


def is_history(seen: Seen | None, given: Result, rule: Rule) -> bool:
    """Return True if a result says nothing about the present: it came too late, or a newer one is known."""
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
            state.down,
            state.ack_at,
        ), ()
    events: list[Event] = []
    changed = shown.known and given.status != shown.status
    holds = tuple(hold for hold in state.holds if hold.kind != AWAITING)
    now, why = _condition_after(state, given, rule)
    state = evolve(state, seen=seen, holds=holds, expected=None)
    state = count_change(state, changed, given, rule, events)
    state = turn(state, now, why, given.at, events, given)
    if now.attempt and rule.retry is not None:
        events.append(Again(given.at + rule.retry))
    return decide(state, given.at, events)


def _condition_after(state: State, given: Result, rule: Rule) -> tuple[Condition, str]:
    """Return the condition after this result, and why: it is soft until enough results in a row say the same."""
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
    """Return how many results in a row confirm: one from nothing known to ok, and from one bad status to another."""
    if is_ok:
        return rule.recover if hard.known else 1
    return 1 if hard.known and hard.status != OK else rule.attempts


# ------------------------------------------------------------------------------------------------ links


def _link(state: State, given: Link, rule: Rule) -> Stepped:
    """Step a link that came or went. A lost one is no event before `rule.away` is over: a Tick makes it one then."""
    events: list[Event] = []
    if not given.up:
        return evolve(state, lost=given.at), ()
    state = evolve(state, lost=None)
    if state.hard.status != OK or state.hard.reason == AWAY:
        state = turn(state, Condition(OK, given.at), "the agent is connected", given.at, events)
    return decide(state, given.at, events)


def _agent_away(state: State, given: AgentAway, rule: Rule) -> Stepped:
    events: list[Event] = []
    hold = Hold(DEPENDENCY, given.link, "its agent is away")
    state = evolve(state, holds=with_hold(state.holds, hold))
    state = become_unknown(state, AWAY, "its agent is away", given.at, events)
    return decide(state, given.at, events)


def _agent_back(state: State, given: AgentBack, rule: Rule) -> Stepped:
    events: list[Event] = []
    state = evolve(state, holds=without_hold(state.holds, DEPENDENCY, given.link))
    if state.hard.reason == AWAY:
        state = turn(state, Condition(UNKNOWN, given.at, PENDING), "its agent is back", given.at, events)
    return decide(state, given.at, events)


# ------------------------------------------------------------------------------------------------ commands


def _held(state: State, given: Held, rule: Rule) -> Stepped:
    return decide(evolve(state, holds=with_hold(state.holds, given.hold)), given.at, [])


def _released(state: State, given: Released, rule: Rule) -> Stepped:
    if not any(hold.kind == given.kind and hold.ref == given.ref for hold in state.holds):
        return state, ()
    holds, notice = without_hold(state.holds, given.kind, given.ref), state.notice
    if given.kind == DEPENDENCY:
        if state.shown.status != OK:  # it may be better since: the next result says
            holds = with_hold(holds, Hold(AWAITING, given.ref, f"{given.ref} is back: the next result counts"))
    else:
        notice = evolve(notice, owed=owed(state, given.why))
    return decide(evolve(state, holds=holds, notice=notice), given.at, [])


def _retired(state: State, given: Retired, rule: Rule) -> Stepped:
    events: list[Event] = []
    state = end_flapping(state, given.at, state.hard.status, given.why, events)
    closing = alert_decisions.close(state, given.at, given.why)
    state = turn(state, Condition(UNKNOWN, given.at, RETIRED), given.why, given.at, events)
    if closing is not None:
        events.append(closing)
    return numbered(state, events)


def _waits(holds: tuple[Hold, ...]) -> bool:
    return bool(holds) and any(hold.kind == AWAITING for hold in holds)


_STEPS: dict[type[Any], Callable[[State, Any, Rule], Stepped]] = {
    Result: _result, Tick: tick, Acknowledge: acknowledge, Unacknowledge: unacknowledge, Expect: expect,
    Held: _held, Released: _released, Link: _link, AgentAway: _agent_away, AgentBack: _agent_back, Retired: _retired,
    Tried: try_version, Approved: approve, TakenBack: take_back,
}  # fmt: skip
