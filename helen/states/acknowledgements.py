"""Steps acknowledgements: taken, carried over from another Helen, taken back and ended. Pure."""

from __future__ import annotations

from attrs import evolve

from equus_protocol.results import OK
from helen.states.condition_changes import Stepped, decide, later, owed
from helen.states.events import AckEnded, Event
from helen.states.inputs import Acknowledge, Unacknowledge
from helen.states.model import PENDING, Rule, State


def acknowledge(state: State, given: Acknowledge, rule: Rule) -> Stepped:
    """Acknowledge a check, if it is broken; a second acknowledgement takes the place of the first."""
    if given.carried is not None:
        return _carry_over(state, given, given.carried)
    if state.shown.status == OK or state.hard.reason == PENDING:
        return state, ()
    ack = evolve(given.ack, status=_broken_status(state))
    return decide(evolve(state, ack=ack, ack_at=later(state, given.at)), given.at, [])


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
    return decide(evolve(state, ack=evolve(given.ack, status=status), ack_at=since), given.at, [])


def _broken_status(state: State) -> int:
    return state.shown.status if state.hard.status == OK else state.hard.status


def _is_newer_than(since: float, state: State) -> bool:
    return state.ack_at is not None and state.ack_at > since


def unacknowledge(state: State, given: Unacknowledge, rule: Rule) -> Stepped:
    """End an acknowledgement, unless it is newer than the end that another Helen tells of."""
    if state.ack is None or (given.carried is not None and _is_newer_than(given.carried, state)):
        return state, ()
    events: list[Event] = []
    state = end_ack(state, given.at, f"taken back by {given.author}" if given.author else "taken back", events)
    if given.carried is not None:
        state = evolve(state, ack_at=given.carried)
    return decide(state, given.at, events)


def end_ack(state: State, at: float, why: str, events: list[Event]) -> State:
    """End the acknowledgement that a check has; if the check is broken, a message is owed. `at`: unix seconds."""
    assert state.ack is not None
    owner = state.ack.owner
    events.append(AckEnded(0, at, owner, why))
    reason = owed(state, f"the acknowledgement by {owner} has ended: {why}")
    return evolve(state, ack=None, ack_at=later(state, at), notice=evolve(state.notice, owed=reason))
