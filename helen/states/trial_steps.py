"""Steps one check through the trial of a version of its file: tried, approved or taken back. Pure.

rollout_trials.py tells which checks a version is tried on.
"""

from __future__ import annotations

from attrs import evolve

from equus_protocol.results import CRITICAL, OK
from helen.states.condition_changes import Stepped, decide, owed, turn
from helen.states.events import Event
from helen.states.flapping import end_flapping
from helen.states.inputs import Approved, TakenBack, Tried
from helen.states.model import AWAY, Flap, Rule, State, Trial


def try_version(state: State, given: Tried, rule: Rule) -> Stepped:
    """Keep the state from before the first of several trials in a row: the last one by an approved version."""
    held = state.trial
    trial = Trial("", "", state.hard, state.flap.on, state.down) if held is None else held
    return decide(evolve(state, trial=evolve(trial, ref=given.ref, detail=given.detail)), given.at, [])


def approve(state: State, given: Approved, rule: Rule) -> Stepped:
    """End the trial of a version that has passed; a message that was held back for it goes out now."""
    if state.trial is None or state.trial.ref != given.ref:
        return state, ()
    notice = state.notice
    if notice.told == OK:
        notice = evolve(notice, owed=owed(state, given.why))
    return decide(evolve(state, trial=None, notice=notice), given.at, [])


def take_back(state: State, given: TakenBack, rule: Rule) -> Stepped:
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
        state = turn(state, trial.hard, given.why, given.at, events)
    state = evolve(state, down=trial.down or CRITICAL in (state.shown.status, state.hard.status))
    return decide(state, given.at, events)
