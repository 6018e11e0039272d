"""Test limits of the protocol, on which other agents and servers rely, and which docs/protocol.rst has."""

from __future__ import annotations

from agreed_numbers import numbers_in_force

MIB = 1_048_576
KIB = 1_024
LIMITS: dict[str, dict[str, float]] = {
    "equus_protocol.codec": {"MAX_LINE": 1024, "MAX_BLOB": 1 * MIB, "MAX_STRING": 255, "MAX_KNOWN": 4096},
    "equus_protocol.conversation": {"TURN_MESSAGES": 256, "TURN_BYTES": 256 * KIB},
    "equus_protocol.freshness": {"LIFE": 86_400.0, "SKEW": 86_400.0},
    "equus_protocol.long_text": {"PIECE": 64 * KIB},
    "equus_protocol.manifest": {
        "MAX_MANIFEST": 1 * MIB, "ROOM": 64 * KIB, "MAX_FILES": 5000, "MAX_FILE": 1 * MIB, "MAX_SIGNATURES": 16,
        "MAX_RINGS": 64,
    },
    "equus_protocol.one_off": {
        "LIFE": 300.0, "MAX_LIFE": 86_400.0, "SKEW": 86_400.0, "MAX_FILES": 64, "MAX_FILES_BYTES": 128 * KIB,
        "MAX_PATTERNS": 64, "MAX_PATTERN": 255,
    },
    "equus_protocol.open_ids": {
        "MAX_CHECKS": 64, "MAX_CHECKS_RECEIVED": 1024, "MAX_REQUESTS": 64, "MAX_ENROL_BLOB": 64 * KIB,
    },
    "equus_protocol.pieces": {"PIECE": 1 * MIB},
    "equus_protocol.plugin_text": {"MAX_WORDS": 4000, "MAX_DIGITS": 300},
    "equus_protocol.ranges": {"MAX_RANGE": 128},
    "equus_protocol.result_fields": {
        "MAX_DEPTH": 64, "MAX_PARTS": 26_624, "MAX_METRICS": 1000, "MAX_REASON": 64, "END_OF_TIME": 253_402_300_800.0,
    },
    "equus_protocol.roots": {"MAX_ROOT": 8192, "MAX_ROOTS": 64},
}  # fmt: skip


def test_numbers_that_others_count_on() -> None:
    """Each number that other agents and servers rely on has its agreed value; changing one also changes this table."""
    assert numbers_in_force(LIMITS) == LIMITS
