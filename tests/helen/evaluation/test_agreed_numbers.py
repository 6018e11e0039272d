"""Tests limits of the evaluation: how long a turn is, how much is kept, when states are saved."""

from __future__ import annotations

from agreed_numbers import numbers_in_force

MIB = 1_048_576
LIMITS: dict[str, dict[str, float]] = {
    "helen.evaluation.commands": {"DURABLE_SECONDS": 5.0, "MANY_A_TURN": 100, "EVALUATED_SECONDS": 2.0},
    "helen.evaluation.evaluator": {
        "STEP_SECONDS": 0.0005, "LAG_SECONDS": 2.0, "SAVE_SECONDS": 300.0, "RECENT": 20_000, "MAX_RERUNS": 10_000,
    },
    "helen.evaluation.event_log": {
        "MOST_LINES": 20_000, "MOST_BYTES": 32 * MIB, "SLACK": 1000, "MOST_FILES": 2000, "ENOUGH": 1000,
    },
    "helen.evaluation.replay": {"MOST_SEGMENTS": 500},
    "helen.evaluation.segment_footers": {"DISTANT_PAST": 0.0},
    "helen.evaluation.state_snapshot": {"FORMAT": 1, "LEVEL": 1},
}  # fmt: skip


def test_numbers_that_others_count_on() -> None:
    """A change of one of them is a decision about all who count on it, and changes this table, too."""
    assert numbers_in_force(LIMITS) == LIMITS
