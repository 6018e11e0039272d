"""Tests limits of notifications: how often a channel is tried, how much is kept, how long texts may be."""

from __future__ import annotations

from agreed_numbers import numbers_in_force

KIB = 1_024
LIMITS: dict[str, dict[str, float]] = {
    "helen.notify.attempt": {"MAX_ANSWER": 500, "MAX_READ": 64 * KIB},
    "helen.notify.channels.alertmanager": {"ENDS_SECONDS": 240.0},
    "helen.notify.channels.apprise": {"MAX_URLS": 20},
    "helen.notify.channels.apprise_child": {"MAX_WARNING": 300},
    "helen.notify.channels.command": {"MAX_ARGUMENTS": 100},
    "helen.notify.child_program": {"LOOK_SECONDS": 0.05},
    "helen.notify.config": {"MAX_CHANNELS": 1000, "MAX_RULES": 10_000, "MAX_DEPTH": 20, "DAY": 86_400.0},
    "helen.notify.group": {"RETRY_SECONDS": 5.0},
    "helen.notify.group_messages": {"MAX_ALERTS": 2000},
    "helen.notify.http_post": {"LONGEST_RETRY": 3600.0},
    "helen.notify.message_text": {"MAX_ALERTS": 100, "MAX_SUBJECT": 200},
    "helen.notify.notices": {"FAILED_NOTES": 1},
    "helen.notify.notifier": {"PRUNE_SECONDS": 3600.0, "RETRY_SECONDS": 1.0},
    "helen.notify.outbox": {
        "MAX_WAITING": 10_000, "AT_ONCE": 4, "FIRST_RETRY": 5.0, "LONGEST_RETRY": 900.0, "LONGEST_API_RETRY": 60.0,
        "JITTER": 0.25, "MAX_TRIES": 20,
    },
    "helen.notify.rows": {"KEPT_SENT": 86_400.0, "MAX_DEAD": 10_000, "SHOWN": 200},
    "helen.notify.secrets": {"MAX_SECRET": 16_384, "SHORTEST_PART": 6, "SHORTEST_MASKED": 4},
}  # fmt: skip


def test_numbers_that_others_count_on() -> None:
    """A change of one of them is a decision about all who count on it, and changes this table, too."""
    assert numbers_in_force(LIMITS) == LIMITS
