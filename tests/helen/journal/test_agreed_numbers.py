"""Tests the limits of the journal: sizes on disk and in memory, which docs/results.rst promises to operators."""

from __future__ import annotations

from agreed_numbers import numbers_in_force
from attrs import asdict

from helen.journal.limits import Limits
from helen.journal.retention import Retention

MIB = 1_048_576
LIMITS: dict[str, dict[str, float]] = {
    "helen.journal.columns": {"CONVERTED_AT_ONCE": 16_384},
    "helen.journal.rows": {"BATCH_ROWS": 500, "BATCH_METRICS": 2_000, "BATCH_BYTES": 262_144},
    "helen.journal.disk": {"MODE": 0o640},
    "helen.journal.intake": {"RECORD_OVERHEAD": 512},
    "helen.journal.limits": {"MIB": 1 * MIB},
    "helen.journal.marks": {"MOST_RANGES": 1000, "MOST_SPOOLS": 64, "MOST_SEQUENCE": 2**63 - 1},
    "helen.journal.record": {"VERSION": 1, "MOST_BODY": 2 * MIB, "HEADER_SIZE": 28, "FRAME_SIZE": 12},
    "helen.journal.retention": {"DAY": 86_400.0, "MOST_AT_ONCE": 8},
    "helen.journal.segments": {"ZSTD_LEVEL": 1},
    "helen.journal.series": {"MOST_PER_AGENT": 4096, "PIECE_ROWS": 5_000},
    "helen.journal.hand_over": {"SLICE_SECONDS": 0.0005, "ACKS_OF_A_BATCH": 50},
    "helen.journal.digest": {"MARKS_OF_A_STEP": 200, "BYTES_OF_A_STEP": 32_768},
    "helen.journal.snapshot": {"FORMAT": 1},
    "helen.journal.verify": {"MOST_PROBLEMS": 1000},
}  # fmt: skip


def test_numbers_that_others_count_on() -> None:
    """The numbers on which other parts count have the values of this table. A change of one is a decision about all
    of those parts."""
    assert numbers_in_force(LIMITS) == LIMITS


def test_sizes_and_times_of_a_journal() -> None:
    """Limits and retention have these values without other settings: the most that a kill may lose, and bounds of
    memory and disk."""
    assert asdict(Limits()) == {
        "results_per_segment": 20_000, "segment_seconds": 10.0, "segment_bytes": 64 * MIB,
        "changes_per_segment": 100_000, "group_seconds": 0.010, "calm_seconds": 0.040,
        "calm_least": 4, "calm_records": 32, "calm_bytes": 65_536, "group_bytes": 4 * MIB, "group_records": 2_000,
        "batch_records": 20, "great_bytes": 16_384, "backlog_behind": 8 * MIB, "records_behind": 4_000,
        "backlog_full": 16 * MIB, "backlog_most": 64 * MIB,
        "series_per_agent": 4_096, "retry_seconds": 1.0, "sealed_in_memory": 2, "recovered_records": 40_000,
        "close_seconds": 1.5,
    }  # fmt: skip
    assert asdict(Retention()) == {"keep_days": 7.0, "keep_days_alone": 90.0, "most_bytes_alone": 50 * 1_024 * MIB}
