"""Decides whether a state is worth a message, with the reasons why. Each decision is made from the state alone. Pure.

The rules, all of them:

- A recovery is never held back if the problem was told; if it was not, the recovery is dropped.
- A new problem, or a change from one bad status to another, is held back while anything is in its way: it is soft,
  acknowledged, in a downtime or silence, below a broken parent, or waits for a first result.
- When a downtime, a silence or an acknowledgement has ended and the check is still broken, that is told at once.
- While a check flaps one message stands for all; when that ends, exactly one more says how things are.
- While a version of the check is being tried, messages about its changes are held back, even about a recovery; a
  problem from before goes on as usual.

A decision to hold back is recorded when its reasons change, not with each result.
"""

from __future__ import annotations

from attrs import evolve

from equus_protocol.results import OK, STATUS_WORDS
from helen.states.events import Decision
from helen.states.model import PENDING, ROLLOUT, Notice, Reason, State

FLAPPING, FLAPPING_ENDED = "flapping", "flapping-ended"
AS_SAID = "nothing is in its way"  # a reason to tell it, and none of the problem itself


def decide(state: State, at: float) -> tuple[Notice, Decision | None]:
    """Return the notice after this state, and a decision; None if there is nothing new to tell or to hold back.

    `at`: unix seconds, goes into the decision.
    """
    notice = _without_past(state)
    subject = _subject(state, notice)
    if subject is None:
        return _nothing(state, notice, at)
    what, status = subject
    reasons = _rollout(state, what) if status == OK and what != FLAPPING else _reasons(state, what)
    if not reasons:
        why = notice.owed if notice.owed and status != OK else AS_SAID
        return _told(notice, what, status), Decision(0, at, "notify", what, status, why)
    key = (what, STATUS_WORDS[status], *(f"{reason.kind} {reason.ref}" for reason in reasons))
    if key == notice.decided:
        return notice, None
    why = "; ".join(reason.detail for reason in reasons)
    return evolve(notice, decided=key), Decision(0, at, "hold", what, status, why, reasons)


def is_handled(state: State | None) -> bool:
    """Return True if the problem of a state need not be repeated: it is acknowledged, or in a downtime or silence."""
    return state is not None and (state.ack is not None or bool(state.holds))


def close(state: State, at: float, why: str) -> Decision | None:
    """Return the last decision about a check that is retired: a problem that was told is closed, one held is dropped.

    `at`: unix seconds, goes into the decision.
    """
    notice = state.notice
    if notice.told != OK or notice.flapping_told:
        return Decision(0, at, "notify", "closed", state.shown.status, why)
    return Decision(0, at, "drop", "closed", state.shown.status, why) if notice.decided else None


def _without_past(state: State) -> Notice:
    """Return the notice without what is over: a message owed about a recovered check, or about an end of flapping."""
    notice, hard = state.notice, state.hard
    if notice.owed is not None and hard.status == OK and notice.told == OK:
        notice = evolve(notice, owed=None)
    if notice.flapping_ended and not notice.flapping_told and hard.status == notice.told:
        notice = evolve(notice, flapping_ended=False)
    return notice


def _subject(state: State, notice: Notice) -> tuple[str, int] | None:
    """Return what there is to tell if nothing is in its way, and the status; None for nothing."""
    hard, shown = state.hard, state.shown
    if state.flap.on:
        return None if notice.flapping_told else (FLAPPING, shown.status)
    if notice.flapping_ended:
        return FLAPPING_ENDED, hard.status
    if hard.status == OK and notice.told != OK:
        return "recovery", OK
    if shown.attempt and shown.status != OK and (hard.status == OK or not hard.known):
        return "problem", shown.status
    if hard.status == OK or (hard.reason == PENDING and notice.told == OK and not notice.decided):
        return None
    if hard.status != notice.told:
        return "problem" if notice.told == OK else "change", hard.status
    return ("still", hard.status) if notice.owed else None


def _reasons(state: State, what: str) -> tuple[Reason, ...]:
    """Return everything that is in the way of a message about a problem, not just the first reason."""
    found = []
    if state.shown.attempt and what != FLAPPING:
        found.append(Reason("soft", f"attempt {state.shown.attempt}, not confirmed yet"))
    if state.hard.reason == PENDING and not state.shown.attempt:
        found.append(Reason("pending", "the first result is still to come"))
    if state.ack is not None:
        found.append(Reason("acknowledged", f"{state.ack.owner} has acknowledged it", state.ack.owner))
    found += [Reason(hold.kind, hold.detail or f"{hold.kind} {hold.ref}", hold.ref) for hold in state.holds]
    return (*found, *_rollout(state, what))


def _rollout(state: State, what: str) -> tuple[Reason, ...]:
    """Return the reason of a version that is being tried, if it may have caused what there is to tell."""
    trial = state.trial
    if trial is None or (not trial.was_well and what in ("problem", "change", "still")):
        return ()
    return (Reason(ROLLOUT, trial.detail, trial.ref),)


def _told(notice: Notice, what: str, status: int) -> Notice:
    if what == FLAPPING:
        return Notice(notice.told, None, flapping_told=True)
    return Notice(status)


def _nothing(state: State, notice: Notice, at: float) -> tuple[Notice, Decision | None]:
    """Drop a message that was held back and is over now: a decision says so, since `helen explain` answers with it."""
    if not notice.decided or state.flap.on:
        return notice, None
    what, word = notice.decided[0], STATUS_WORDS[state.hard.status]
    why = f"it is {word} again before anybody was told" if state.hard.status == OK else f"people know that it is {word}"
    return evolve(notice, decided=()), Decision(0, at, "drop", what, state.hard.status, why)
