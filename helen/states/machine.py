"""Steps the state of a check: `step(state, input, rule) -> (state, events)`. Pure; live and in Spark it is this one.

It knows one check (or one agent's link). helen/states/fleet_timeline.py knows parents, windows and deadlines;
helen/states/alert_decisions.py decides about messages. docs/states.rst has the rules in words.

Results are evaluated by the time at which Helen got them. Late ones (spooled while the agent was cut off) and those
older than what is known already belong to the history; the present never moves backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from equus_protocol.results import CRITICAL, OK, STATUS_WORDS, UNKNOWN
from groundwork.durations import words_of
from helen.states import alert_decisions
from helen.states.events import AckEnded, Again, Event, Transition, numbered
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
)
from helen.states.model import (
    AWAITING,
    AWAY,
    DEPENDENCY,
    PENDING,
    RETIRED,
    STALE,
    SUMMARY_MOST,
    Condition,
    Expected,
    Flap,
    Hold,
    Rule,
    Seen,
    State,
    Trial,
)

LATE_SECONDS = 600.0  # a result that took longer to arrive is history, for a check without a stale deadline
ACK_STEP = 0.001  # seconds between two changes of an acknowledgement: what Helens of a network tell apart
UNHEARD_TIMES = 3.0  # times the stale deadline: a check is stale then, however often its agent comes and goes

Stepped = tuple[State, tuple[Event, ...]]


def step(state: State, given: Input, rule: Rule) -> Stepped:
    """Return the state after this input, and the events that it causes, in order."""
    return _STEPS[type(given)](state, given, rule)


def deadline(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
    """Return the time of the next Tick, unix seconds; None: no deadline is set. `listening`, `started`: as in Tick."""
    stale = _stale_at(state, rule, listening, started)
    ack = None if state.ack is None else state.ack.until
    away = None if state.lost is None or state.hard.reason == AWAY else max(state.lost, started) + rule.away
    return min((time for time in (stale, ack, away) if time is not None), default=None)


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
    state = _turn(state, now, why, given.at, events, given)
    if now.attempt and rule.retry is not None:
        events.append(Again(given.at + rule.retry))
    return _decide(state, given.at, events)


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


# ------------------------------------------------------------------------------------------------ time


def _stale_at(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
    """Return when the check becomes stale: Helen has listened to its agent for the whole deadline without a result."""
    if state.shown.reason in (STALE, AWAY):
        return None
    ruled = _ruled_stale_at(state, rule, listening, started)
    expected = _expected_at(state, started)
    if state.expected is None or expected is None:
        return ruled
    return min(expected, ruled) if state.expected.begun and ruled is not None else expected


def _expected_at(state: State, started: float) -> float | None:
    return None if state.expected is None else max(state.expected.at, started) + state.expected.within


def _ruled_stale_at(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
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
        why = f"it has been gone for {words_of(rule.away)}"
        status = OK if rule.missing == OK else CRITICAL  # an ephemeral agent may go without a word
        state = _turn(state, Condition(status, state.lost, AWAY), why, given.at, events)
    stale_at = _stale_at(state, rule, given.listening, given.started)
    if stale_at is not None and stale_at <= given.at:
        state = _unknown(state, STALE, _silence(state, given, rule), given.at, events, rule.missing)
    return _decide(state, given.at, events)


def _silence(state: State, given: Tick, rule: Rule) -> str:
    silence = "no result yet" if state.seen is None else f"no result for {words_of(round(given.at - state.seen.at))}"
    due = _expected_at(state, given.started)
    if state.expected is None or due is None or due > given.at:
        return f"{silence}; {words_of(rule.stale or 0.0)} are allowed"
    said = f" ({state.expected.why})" if state.expected.why else ""
    return f"{silence}; it was expected within {words_of(state.expected.within)}{said}"


def _unknown(state: State, reason: str, why: str, at: float, events: list[Event], status: int = UNKNOWN) -> State:
    """Return the state of a check of which nothing is known any more: nothing waits for further results."""
    state = end_flapping(state, at, status, why, events)
    holds = tuple(hold for hold in state.holds if hold.kind != AWAITING)
    state = evolve(state, flap=Flap(), holds=holds, expected=None)
    return _turn(state, Condition(status, at, reason), why, at, events)


def _expect(state: State, given: Expect, rule: Rule) -> Stepped:
    """Set the deadline of the next result. A run that begins leaves one that comes sooner: an earlier run hangs."""
    known = state.expected
    if not given.begun or known is None:
        return evolve(state, expected=Expected(given.at, given.within, given.why, given.begun)), ()
    if known.at + known.within <= given.at + given.within:
        return state, ()
    return evolve(state, expected=Expected(given.at, given.within, given.why, known.begun)), ()


# ------------------------------------------------------------------------------------------------ links


def _link(state: State, given: Link, rule: Rule) -> Stepped:
    """Step a link that came or went. A lost one is no event before `rule.away` is over: a Tick makes it one then."""
    events: list[Event] = []
    if not given.up:
        return evolve(state, lost=given.at), ()
    state = evolve(state, lost=None)
    if state.hard.status != OK or state.hard.reason == AWAY:
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
    """Acknowledge a check, if it is broken; a second acknowledgement takes the place of the first."""
    if given.carried is not None:
        return _carry_over(state, given, given.carried)
    if state.shown.status == OK or state.hard.reason == PENDING:
        return state, ()
    ack = evolve(given.ack, status=_broken_status(state))
    return _decide(evolve(state, ack=ack, ack_at=_later(state, given.at)), given.at, [])


def _carry_over(state: State, given: Acknowledge, since: float) -> Stepped:
    """Take an acknowledgement over that another Helen has since `since`, unless something newer happened here.

    It waits for the first result, and counts for no other status than there.
    """
    if _is_newer_than(since, state):
        return state, ()
    if not state.hard.known:
        return evolve(state, ack=given.ack, ack_at=since), ()
    status = _broken_status(state)
    if state.shown.status == OK or (not given.ack.sticky and given.ack.status != status):
        return state, ()
    return _decide(evolve(state, ack=evolve(given.ack, status=status), ack_at=since), given.at, [])


def _broken_status(state: State) -> int:
    return state.shown.status if state.hard.status == OK else state.hard.status


def _later(state: State, at: float) -> float:
    """Return `at`, or a time after the one of before, which the clock of another Helen may have given."""
    return at if state.ack_at is None else max(at, state.ack_at + ACK_STEP)


def _is_newer_than(since: float, state: State) -> bool:
    return state.ack_at is not None and state.ack_at > since


def _unacknowledge(state: State, given: Unacknowledge, rule: Rule) -> Stepped:
    if state.ack is None or (given.carried is not None and _is_newer_than(given.carried, state)):
        return state, ()
    events: list[Event] = []
    state = _end_ack(state, given.at, f"taken back by {given.author}" if given.author else "taken back", events)
    if given.carried is not None:
        state = evolve(state, ack_at=given.carried)
    return _decide(state, given.at, events)


def _end_ack(state: State, at: float, why: str, events: list[Event]) -> State:
    assert state.ack is not None
    owner = state.ack.owner
    events.append(AckEnded(0, at, owner, why))
    owed = _owed(state, f"the acknowledgement by {owner} has ended: {why}")
    return evolve(state, ack=None, ack_at=_later(state, at), notice=evolve(state.notice, owed=owed))


def _retired(state: State, given: Retired, rule: Rule) -> Stepped:
    events: list[Event] = []
    state = end_flapping(state, given.at, state.hard.status, given.why, events)
    closing = alert_decisions.close(state, given.at, given.why)
    state = _turn(state, Condition(UNKNOWN, given.at, RETIRED), given.why, given.at, events)
    if closing is not None:
        events.append(closing)
    return numbered(state, events)


# ------------------------------------------------------------------------------------------------ rollouts


def _tried(state: State, given: Tried, rule: Rule) -> Stepped:
    """Keep the state from before the first of several trials in a row: the last one by an approved version."""
    held = state.trial
    trial = Trial("", "", state.hard, state.flap.on, state.down) if held is None else held
    return _decide(evolve(state, trial=evolve(trial, ref=given.ref, detail=given.detail)), given.at, [])


def _approved(state: State, given: Approved, rule: Rule) -> Stepped:
    """End the trial of a version that has passed; a message that was held back for it goes out now."""
    if state.trial is None or state.trial.ref != given.ref:
        return state, ()
    notice = state.notice
    if notice.told == OK:
        notice = evolve(notice, owed=_owed(state, given.why))
    return _decide(evolve(state, trial=None, notice=notice), given.at, [])


def _taken_back(state: State, given: TakenBack, rule: Rule) -> Stepped:
    """Restore the state from before the trial; an agent that is or was away stays so, since no version caused that."""
    trial = state.trial
    if trial is None or trial.ref != given.ref:
        return state, ()
    events: list[Event] = []
    if not trial.flapping:
        state = end_flapping(state, given.at, trial.hard.status, given.why, events)
        state = evolve(state, flap=Flap())
    state = evolve(state, trial=None)
    if state.hard.reason != AWAY and trial.hard.reason != AWAY:
        state = _turn(state, trial.hard, given.why, given.at, events)
    state = evolve(state, down=trial.down or CRITICAL in (state.shown.status, state.hard.status))
    return _decide(state, given.at, events)


# ------------------------------------------------------------------------------------------------ common


def _turn(
    state: State, now: Condition, why: str, at: float, events: list[Event], result: Result | None = None
) -> State:
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
    state = evolve(state, shown=now, hard=hard, down=_is_down(state, now, hard))
    ack = state.ack
    if now.attempt or not now.known:
        return state
    if ack is None:
        return evolve(state, ack_at=_later(state, at)) if now.status == OK else state
    if now.status != OK and (ack.sticky or now.status == ack.status):
        return state
    events.append(AckEnded(0, at, ack.owner, f"it is {STATUS_WORDS[now.status]} now"))
    return evolve(state, ack=None, ack_at=_later(state, at))


def _is_down(state: State, now: Condition, hard: Condition) -> bool:
    """Return True for a critical check, and for one without news since it was critical: it has not recovered."""
    if CRITICAL in (now.status, hard.status):
        return True
    is_open = UNKNOWN in (now.status, hard.status) or not now.known
    return state.down and is_open and now.reason != RETIRED


def _decide(state: State, at: float, events: list[Event]) -> Stepped:
    notice, decision = alert_decisions.decide(state, at)
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
