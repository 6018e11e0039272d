"""Detects flapping: the weighted share of changes of status among the last 20 results of a check.

The newest weighs 1.2, the oldest 0.8, so that a check that settles down is believed sooner. Pure; two small tables
instead of a loop, since the share is computed for every result of a check that ever changed.
"""

from __future__ import annotations

from attrs import evolve

from helen.states.events import Event, Flapping
from helen.states.inputs import Result
from helen.states.model import Flap, Rule, State

SIZE = 20  # results that are looked at
MASK = (1 << SIZE) - 1
_HALF = SIZE // 2
_WEIGHTS = [1.2 - 0.4 * age / (SIZE - 1) for age in range(SIZE)]


def _table(weights: list[float]) -> list[float]:
    """Return the share in per cent for each pattern of ten bits."""
    return [
        100.0 / SIZE * sum(weight for bit, weight in enumerate(weights) if pattern >> bit & 1)
        for pattern in range(1 << _HALF)
    ]


_NEWER, _OLDER = _table(_WEIGHTS[:_HALF]), _table(_WEIGHTS[_HALF:])
_LOW = (1 << _HALF) - 1


def percent(bits: int) -> float:
    """Return the weighted share of changes: 0 for a check that never changes, 100 if each result is a change."""
    return _NEWER[bits & _LOW] + _OLDER[bits >> _HALF & _LOW]


def count_change(state: State, changed: bool, given: Result, rule: Rule, events: list[Event]) -> State:
    """Return the state with one more result counted; append a Flapping event if flapping begins or ends with it."""
    if rule.flap_start is None:
        return end_flapping(state, given.at, given.status, "flap detection is off", events)
    bits = (state.flap.bits << 1 | changed) & MASK
    share, on = percent(bits), state.flap.on
    if on and share < rule.flap_stop:
        why = f"{share:.0f} % of the last results were changes, below {rule.flap_stop:g} %"
        return end_flapping(evolve(state, flap=Flap(bits, True)), given.at, given.status, why, events)
    if not on and share >= rule.flap_start:
        on, why = True, f"{share:.0f} % of the last results were changes, {rule.flap_start:g} % is the limit"
        events.append(Flapping(0, given.at, True, round(share, 1), given.status, why))
        state = evolve(state, notice=evolve(state.notice, flapping_ended=False))
    return evolve(state, flap=Flap(bits, on))


def end_flapping(state: State, at: float, status: int, why: str, events: list[Event]) -> State:
    """Return the state without flapping; append one event for its end, if it flapped. `at`: unix seconds."""
    if not state.flap.on:
        return state
    share = percent(state.flap.bits)
    events.append(Flapping(0, at, False, round(share, 1), status, why))
    return evolve(state, flap=Flap(state.flap.bits), notice=evolve(state.notice, flapping_ended=True))
