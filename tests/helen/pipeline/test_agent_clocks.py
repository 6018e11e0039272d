"""Tests agents whose clocks are wrong: their results count when they were made, by Helen's clock."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade

T = 1_790_121_600.0  # 2026-09-23 00:00:00 UTC
HOUR = 3600


def counted(lake: Lake) -> list[float]:
    """Return when each result counts, in seconds after T, in order of arrival."""
    return [row["time"].timestamp() - T for row in sorted(lake.rows("results"), key=lambda row: row["at"])]


@pytest.mark.parametrize("hours", [-30, -1, 1])
def test_a_clock_that_is_wrong_makes_no_result_late(tmp_path: Path, history: Any, take_in: Any, hours: int) -> None:
    """Results of a connected agent with a wrong clock count on the day on which they came, also just after midnight."""
    offset = hours * HOUR
    history.segment(*(
        history.result("web1/net", T + at * 60, started=T + at * 60 + offset - 1, took_ms=900.0,
                       clock_offset_ms=offset * 1000) for at in range(5)
    ))  # fmt: skip
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    assert counted(lake) == [0.0, 60.0, 120.0, 180.0, 240.0]
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    assert [(row["day"], row["n"]) for row in lake.rows("d1")] == [(date(2026, 9, 23), 5)]


def test_what_waited_counts_when_it_ended_by_the_right_clock(tmp_path: Path, history: Any, take_in: Any) -> None:
    """Delayed results count when they ended by Helen's clock; one with an unbelievable offset counts when it
    arrived."""
    history.segment(*(
        history.result("web1/net", T + 5 * HOUR, started=T + HOUR - 600, took_ms=0.0, clock_offset_ms=offset)
        for offset in (-600_000, None, -(2**63))
    ))  # fmt: skip
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    assert counted(lake) == [HOUR, HOUR - 600, 5 * HOUR]
    assert [row["clock_offset_ms"] for row in lake.rows("results")] == [-600_000, None, -(2**63)]


def test_segments_of_an_older_version_have_no_figure(tmp_path: Path, history: Any, take_in: Any) -> None:
    history.segment(history.result("web1/net", T + 5 * HOUR, started=T, took_ms=0.0, clock_offset_ms=60_000))
    path = history.segments / "seg-00000001.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["clock_offset_ms"]), path)
    lake = Lake(tmp_path / "lake")
    take_in(lake, history.state)
    assert counted(lake) == [0.0]
    assert [row["clock_offset_ms"] for row in lake.rows("results")] == [None]
