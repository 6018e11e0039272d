"""Compares the plan of a push with the operator's: a program may be more careful than the operator, and no less. Pure.

A task of ZeroTask is sent by a program, which a person has given a key once. If it could name its own rings and gates,
a program that was taken over would publish to 99 % of the agents in its first ring, past gates that nothing can fail.
"""

from __future__ import annotations

from groundwork.durations import words_of
from helen.rollout.gate_limits import Limits
from helen.rollout.rings import RingSpec, write_rings
from helen.rollout.rollout import Plan

# Gates that are stricter the lower they are (None: not compared at all), and those that are stricter the higher.
LOWER = ("errors", "changed", "missing", "run_time", "memory")
HIGHER = ("results", "window", "patience")


def looser(plan: Plan, usual: Plan) -> str | None:
    """Return a sentence if a plan tries a version less than the usual plan does, else None.

    It must have the rings of the usual one, perhaps with smaller shares before them and further shares between them,
    and each of its limits at least as strict. Where the operator has no rings, any are more careful.
    """
    if usual.rings and not _has_all(plan.rings, usual.rings):
        return (
            f"rings {write_rings(plan.rings)} leave out or come before some of {write_rings(usual.rings)}: a task may"
            " add shares between these, or smaller ones before them"
        )
    return _looser_gate(plan.limits, usual.limits) if usual.rings else None


def _has_all(rings: tuple[RingSpec, ...], usual: tuple[RingSpec, ...]) -> bool:
    """Return True if the usual rings stand among these, in their order, and all others are shares within them."""
    left = list(usual)
    for ring in rings:
        if left and ring == left[0]:
            left.pop(0)
        elif ring.share is None or not left or not _is_smaller(ring, left[0]):
            return False
    return not left


def _is_smaller(ring: RingSpec, following: RingSpec) -> bool:
    return ring.share is not None and following.share is not None and ring.share < following.share


def _looser_gate(limits: Limits, usual: Limits) -> str | None:
    for name in (*LOWER, *HIGHER):
        mine, theirs = getattr(limits, name), getattr(usual, name)
        if theirs is None or mine == theirs:
            continue
        if mine is None or (mine > theirs if name in LOWER else mine < theirs):
            shown = name.replace("_", "-")
            return f"gate {shown}={_text(name, mine)} is looser than {_text(name, theirs)}, which pushes have here"
    return None


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "off"
    if name in ("errors", "changed", "missing"):
        return f"{value * 100:g}%"
    return words_of(value) if name in ("window", "patience") else f"{value:g}"
