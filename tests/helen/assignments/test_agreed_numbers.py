"""Tests limits of assignments and schedules, as docs/assignments.rst and the messages of refusals have them."""

from __future__ import annotations

from agreed_numbers import numbers_in_force

MIB = 1_048_576
KIB = 1_024
LIMITS: dict[str, dict[str, float]] = {
    "helen.assignments.assignments_file": {"MAX_FILE": 4 * MIB},
    "helen.assignments.assignments_text": {"MAX_ENTRIES": 10_000, "MAX_DEFAULTS": 1_000, "MAX_ARGS": 256 * KIB},
    "helen.assignments.password_arguments": {"MAX_DEPTH": 8, "RANDOM_LENGTH": 20, "RANDOM_BITS": 3.5},
    "helen.assignments.schedule": {
        "DEFAULT_TIMEOUT": 10.0, "SHORTEST": 1.0, "MAX_SCHEDULE": 1 * MIB, "MAX_ENTRIES": 4_096,
    },
    "helen.assignments.state_rules": {"MAX_ATTEMPTS": 100, "MAX_DEPENDS": 20, "STALE_SLACK": 30.0, "SHORTEST": 1.0},
}  # fmt: skip


def test_numbers_that_others_count_on() -> None:
    """A change of one of them is a decision about all who count on it, and changes this table, too."""
    assert numbers_in_force(LIMITS) == LIMITS
