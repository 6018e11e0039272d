"""Tests limits of states, windows and expressions, as docs/states.rst and the messages of refusals have them."""

from __future__ import annotations

from agreed_numbers import numbers_in_force

LIMITS: dict[str, dict[str, float]] = {
    "helen.states.clock_offset": {
        "TOLERANCE": 2.0, "DOUBT_SECONDS": 60.0, "DOUBT_RESULTS": 3, "NEW_SECONDS": 5.0, "STEADY": 8.0,
    },
    "helen.states.clock_steps": {
        "BACK_SECONDS": 2.0, "SETTLE_SECONDS": 3600.0, "FROM_NOW_SECONDS": 60.0, "PAUSE_STATES": 100,
    },
    "helen.states.condition_changes": {"ACK_STEP": 0.001},
    "helen.states.deadlines": {"NEVER": float("inf")},
    "helen.states.downtimes": {"MAX_KEYS": 1000, "MAX_PATTERNS": 1000, "MAX_COMMENT": 2000},
    "helen.states.flapping": {"SIZE": 20, "MASK": 1_048_575},
    "helen.states.fleet_states": {"MOST_STATES": 1000, "ENDED_KEPT": 200, "PAUSE_KEYS": 50},
    "helen.states.fleet_timeline": {"RETIRED_KEPT": 20_000},
    "helen.states.linear_regex": {"MAX_STEPS": 2000, "MAX_TIMES": 200, "MAX_DEPTH": 50},
    "helen.states.machine": {"LATE_SECONDS": 600.0},
    "helen.states.matchers": {"MAX_MATCHERS": 50, "MAX_VALUE": 1000},
    "helen.states.model": {"SUMMARY_MOST": 200},
    "helen.states.silence": {"UNHEARD_TIMES": 3.0},
}  # fmt: skip


def test_numbers_that_others_count_on() -> None:
    """A change of one of them is a decision about all who count on it, and changes this table, too."""
    assert numbers_in_force(LIMITS) == LIMITS
