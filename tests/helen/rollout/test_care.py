"""Tests plans of programs beside the operator's: a more careful one passes, and a less careful one does not."""

from __future__ import annotations

import pytest

from helen.rollout.care import HIGHER, LOWER, looser
from helen.rollout.gate_limits import NAMES, Limits, read_limits
from helen.rollout.rings import USUAL, read_rings
from helen.rollout.rollout import AT_ONCE, USUAL_PLAN, Plan


def plan(rings: str = USUAL, usual: Limits = USUAL_PLAN.limits, **gates: str) -> Plan:
    return Plan(read_rings(rings), read_limits({name.replace("_", "-"): text for name, text in gates.items()}, usual))


@pytest.mark.parametrize(
    ("usual", "rings", "passes"),
    [
        ("1%,10%,100%", "1%,10%,100%", True), ("1%,10%,100%", "0.5%,1%,10%,50%,100%", True),
        ("1%,10%,100%", "1%,5%,10%", True), ("1%,10%,100%", "off", False), ("1%,10%,100%", "100%", False),
        ("1%,10%,100%", "99%,100%", False), ("1%,10%,100%", "1%,100%", False), ("1%,10%,100%", "1%,99%,100%", False),
        ("1%,10%,100%", "role=web,1%,10%,100%", False), ("1%,10%,100%", "1%,os=*,10%,100%", False),
        ("role=canary,10%,100%", "role=canary,10%,100%", True), ("role=canary,10%,100%", "role=canary,5%,10%", True),
        ("role=canary,10%,100%", "1%,role=canary,10%", False), ("role=canary,10%,100%", "role=c*,10%,100%", False),
        ("role=canary,10%,100%", "10%,role=canary,100%", False), ("role=canary,100%", "role=canary,1%,100%", True),
        ("off", "off", True), ("off", "50%,100%", True), ("100%", "1%,100%", True),
    ],
)  # fmt: skip
def test_rings_of_a_program(usual: str, rings: str, passes: bool) -> None:
    """A program's rings have all of the operator's, in their order; a label may be the whole fleet, so only shares come
    between.
    """
    assert (looser(plan(rings), plan(usual)) is None) is passes


@pytest.mark.parametrize(
    ("name", "stricter", "looser_one"),
    [
        ("errors", "0%", "6%"), ("changed", "4.9%", "100%"), ("missing", "1%", "5.1%"), ("run_time", "1.5", "2.5"),
        ("run_time", "1", "off"), ("memory", "1", "1000"), ("memory", "1.2", "off"), ("results", "30", "2"),
        ("window", "2m", "1s"), ("patience", "20m", "9m"),
    ],
)  # fmt: skip
def test_gates_of_a_program(name: str, stricter: str, looser_one: str) -> None:
    """A gate may be stricter than the operator's and not looser, and the sentence names it."""
    assert looser(plan(**{name: stricter}), USUAL_PLAN) is None
    why = looser(plan(**{name: looser_one}), USUAL_PLAN)
    assert why is not None and f"gate {name.replace('_', '-')}=" in why


def test_every_gate_has_a_direction() -> None:
    """Every gate has a direction, so that one that is added later is compared, too."""
    assert {name.replace("_", "-") for name in (*LOWER, *HIGHER)} == set(NAMES)


def test_a_gate_that_the_operator_has_taken_off() -> None:
    """Nothing is looser than off, and where there are no rings there are no gates."""
    assert looser(plan(memory="1000"), plan(memory="off")) is None
    assert looser(plan("off", errors="100%"), AT_ONCE) is None
