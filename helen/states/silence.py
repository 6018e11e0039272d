"""Steps a check when nothing comes: deadlines of results, of agents that are away, of acknowledgements. Pure."""

from __future__ import annotations

from attrs import evolve

from equus_protocol.results import CRITICAL, OK
from groundwork.durations import words_of
from helen.states.acknowledgements import end_ack
from helen.states.condition_changes import Stepped, become_unknown, decide, turn
from helen.states.events import Event
from helen.states.inputs import Expect, Tick
from helen.states.model import AWAY, PENDING, STALE, Condition, Expected, Rule, State

UNHEARD_TIMES = 3.0  # times the stale deadline: a check is stale then, however often its agent comes and goes


def deadline(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
    """Return the time of the next Tick, unix seconds; None: no deadline is set. `listening`, `started`: as in Tick."""
    stale = stale_at(state, rule, listening, started)
    ack = None if state.ack is None else state.ack.until
    away = None if state.lost is None or state.hard.reason == AWAY else max(state.lost, started) + rule.away
    return min((time for time in (stale, ack, away) if time is not None), default=None)


def stale_at(state: State, rule: Rule, listening: float | None, started: float) -> float | None:
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


def tick(state: State, given: Tick, rule: Rule) -> Stepped:
    """Step the time: end an acknowledgement, and tell that an agent is away or a check is stale, once that is due."""
    events: list[Event] = []
    if state.ack is not None and state.ack.until is not None and state.ack.until <= given.at:
        state = end_ack(state, given.at, "its time is over", events)
    if state.lost is not None and state.hard.reason != AWAY and max(state.lost, given.started) + rule.away <= given.at:
        why = f"it has been gone for {words_of(rule.away)}"
        status = OK if rule.missing == OK else CRITICAL  # an ephemeral agent may go without a word
        state = turn(state, Condition(status, state.lost, AWAY), why, given.at, events)
    silent_at = stale_at(state, rule, given.listening, given.started)
    if silent_at is not None and silent_at <= given.at:
        state = become_unknown(state, STALE, _silence(state, given, rule), given.at, events, rule.missing)
    return decide(state, given.at, events)


def _silence(state: State, given: Tick, rule: Rule) -> str:
    silence = "no result yet" if state.seen is None else f"no result for {words_of(round(given.at - state.seen.at))}"
    due = _expected_at(state, given.started)
    if state.expected is None or due is None or due > given.at:
        return f"{silence}; {words_of(rule.stale or 0.0)} are allowed"
    said = f" ({state.expected.why})" if state.expected.why else ""
    return f"{silence}; it was expected within {words_of(state.expected.within)}{said}"


def expect(state: State, given: Expect, rule: Rule) -> Stepped:
    """Set the deadline of the next result. A run that begins leaves one that comes sooner: an earlier run hangs."""
    known = state.expected
    if not given.begun or known is None:
        return evolve(state, expected=Expected(given.at, given.within, given.why, given.begun)), ()
    if known.at + known.within <= given.at + given.within:
        return state, ()
    return evolve(state, expected=Expected(given.at, given.within, given.why, known.begun)), ()
