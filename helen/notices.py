"""Whether people are told of a state: each decision with the reasons why, made from the state alone. Pure.

The rules, all of them:

- A recovery of what people were told of is never held back; a recovery of what nobody was told of is dropped.
- A new problem, or a change from one bad status to another, is held back while anything is in its way: it is soft,
  acknowledged, in a downtime or silence, below a broken parent, or waits for a first result.
- When a downtime, a silence or an acknowledgement has ended and it is still broken, that is told at once.
- While it flaps one message stands for all; when that ends, exactly one more says how things are.
- While a version of the check is being tried, nobody is told of what it changes, not even of a recovery; what was bad
  before goes on as usual.

A decision to hold back is recorded when its reasons change, not with each result.
"""

from __future__ import annotations

from attrs import evolve

from equus_protocol.results import OK, STATUS_WORDS
from helen.judged import PENDING, ROLLOUT, Decision, Notice, Reason, State

FLAPPING, FLAPPING_ENDED = "flapping", "flapping-ended"
_AS_SAID = "nothing is in its way"


def decide(state: State, at: float) -> tuple[Notice, Decision | None]:
    """What to do about this state now; None when there is nothing new to say or to hold back."""
    notice = _forget_what_is_over(state)
    subject = _subject(state, notice)
    if subject is None:
        return _nothing(state, notice, at)
    what, status = subject
    reasons = _rollout(state, what) if status == OK and what != FLAPPING else _reasons(state, what)
    if not reasons:
        why = notice.owed if notice.owed and status != OK else _AS_SAID
        return _told(notice, what, status), Decision(0, at, "notify", what, status, why)
    key = (what, STATUS_WORDS[status], *(f"{reason.kind} {reason.ref}" for reason in reasons))
    if key == notice.decided:
        return notice, None
    why = "; ".join(reason.detail for reason in reasons)
    return evolve(notice, decided=key), Decision(0, at, "hold", what, status, why, reasons)


def close(state: State, at: float, why: str) -> Decision | None:
    """It is watched no more: who was told of a problem hears that it is closed."""
    notice = state.notice
    if notice.told != OK or notice.flapping_told:
        return Decision(0, at, "notify", "closed", state.shown.status, why)
    return Decision(0, at, "drop", "closed", state.shown.status, why) if notice.decided else None


def _forget_what_is_over(state: State) -> Notice:
    notice, hard = state.notice, state.hard
    if notice.owed is not None and hard.status == OK and notice.told == OK:
        notice = evolve(notice, owed=None)
    if notice.flapping_ended and not notice.flapping_told and hard.status == notice.told:
        notice = evolve(notice, flapping_ended=False)
    return notice


def _subject(state: State, notice: Notice) -> tuple[str, int] | None:
    """What there is to tell, were nothing in its way."""
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
    """Everything that is in the way of a bad message, not just the first of it."""
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
    """Of a version that is being tried, if this may be of its making."""
    trial = state.trial
    if trial is None or (not trial.was_well and what in ("problem", "change", "still")):
        return ()
    return (Reason(ROLLOUT, trial.detail, trial.ref),)


def _told(notice: Notice, what: str, status: int) -> Notice:
    if what == FLAPPING:
        return Notice(notice.told, None, flapping_told=True)
    return Notice(status)


def _nothing(state: State, notice: Notice, at: float) -> tuple[Notice, Decision | None]:
    """What was held back and is over before anybody was told gets a word, too: `helen explain` answers with it."""
    if not notice.decided or state.flap.on:
        return notice, None
    what, word = notice.decided[0], STATUS_WORDS[state.hard.status]
    why = f"it is {word} again before anybody was told" if state.hard.status == OK else f"people know that it is {word}"
    return evolve(notice, decided=()), Decision(0, at, "drop", what, state.hard.status, why)
