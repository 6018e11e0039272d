"""Tests counters of forgotten days: rows for a gap add what a walk through all raw values gives, and no more."""

from __future__ import annotations

import random
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.steps import CARRIED
from helen.pipeline.upkeep import compact, expire

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
HOUR, DAY, FIRST = 3600, 86_400, date(2026, 9, 22)
KEEP = {"results": 30, "m5": 90, "h1": 400}
Piece = list[tuple[float, float]]  # (time, value) of one counter, in one segment


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def write(history: Any, piece: Piece) -> None:
    """Write a segment that Helen got when its values were measured."""
    history.segment(*(
        history.result("web1/net", at, metrics=[{"name": "sent", "value": value, "kind": "counter", "unit": "B"}])
        for at, value in piece
    ))  # fmt: skip


def walked(values: Piece) -> tuple[float, float]:
    """Return the gain of a counter, value by value, and the seconds of these steps."""
    gain = seconds = 0.0
    for (at, before), (then, value) in pairwise(sorted(values)):
        if then - at <= CARRIED / 1e6:
            gain += value - before if value >= before else value
            seconds += then - at
    return gain, seconds


def in_lake(lake: Lake, level: str) -> tuple[float, float]:
    """Return the gain of the counter and its seconds by all rows of a level."""
    rows = [row for row in lake.rows(level) if row["metric"] == "sent"]
    return sum(row["increase"] for row in rows), sum(row["increase_s"] for row in rows)


def levels_that_keep(days: int) -> list[str]:
    return [level for level in ("m5", "h1", "d1") if days <= KEEP.get(level, 10**9)]


def keep_up(lake: Lake, rng: random.Random, days: int) -> None:
    """Run the upkeep that may be due by now, or not."""
    lake.lock()
    today = FIRST + timedelta(days=days)
    if rng.random() < 0.5:
        cascade(None, lake)  # type: ignore[arg-type]
    if rng.random() < 0.5:
        compact(None, lake, all_days=rng.random() < 0.5)  # type: ignore[arg-type]
    if rng.random() < 0.7:
        expire(lake, today, KEEP)
    lake.unlock()


def begun_again(rng: random.Random, pieces: list[Piece], late: set[int]) -> list[Piece]:
    """Return the pieces with a counter that begins again at times: never in a late one, nor beside one."""
    taken = 0.0
    for at, piece in enumerate(pieces):
        for place, (time, value) in enumerate(piece):
            is_near = {at, at - 1} & late if place == 0 else {at} & late
            if not is_near and rng.random() < 0.1:
                taken = value - rng.randrange(9)
            piece[place] = (time, value - taken)
    return pieces


def cut(rng: random.Random, begin: float, end: float) -> list[Piece]:
    """Return the values of a counter that grows, in segments of any length."""
    pieces: list[Piece] = [[]]
    at, total = begin, float(rng.randrange(1000))
    while at < end:
        pieces[-1].append((at, total))
        if rng.random() < 0.25:
            pieces.append([])
        at += rng.choice((10, 60, 60, 300, 900, 5000, 40_000 if rng.random() < 0.3 else 60))
        total += rng.randrange(1000)
    return [piece for piece in pieces if piece]


@pytest.mark.parametrize("days", [40, 92, 100, 401, 500])
@pytest.mark.parametrize("seed", range(2))
def test_gaps_in_which_no_counter_began_again(lake: Lake, history: Any, take_in: Any, seed: int, days: int) -> None:
    """Sums are right whichever tables have forgotten the days of the gaps, and however far upkeep is."""
    rng = random.Random(f"{seed} {days}")
    pieces = cut(rng, T + rng.uniform(0, DAY), T + 3 * DAY)
    late = {at for at in range(len(pieces)) if rng.random() < 0.4}
    pieces = begun_again(rng, pieces, late)
    for at, piece in enumerate(pieces):
        if at not in late:
            write(history, piece)
    take_in(lake, history.state)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    expire(lake, FIRST + timedelta(days=days), KEEP)
    lake.unlock()
    newest = [(T + days * DAY, 7.0)]
    write(history, newest)
    take_in(lake, history.state)
    for at in rng.sample(sorted(late), len(late)):
        write(history, pieces[at])
        if rng.random() < 0.6:
            take_in(lake, history.state, most=rng.choice((1, 5)))
            keep_up(lake, rng, days)
    take_in(lake, history.state)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    expected = walked([value for piece in [*pieces, newest] for value in piece])
    for level in levels_that_keep(days):
        assert in_lake(lake, level) == pytest.approx(expected, rel=1e-9), level


@pytest.mark.parametrize(("days", "gap"), [(100, HOUR), (500, DAY)])
def test_a_counter_that_began_again_in_a_gap_of_whole_rows(
    lake: Lake, history: Any, take_in: Any, days: int, gap: int
) -> None:
    """A counter that began again in a gap of whole hours or days has the gain of all values, by the rows around the
    gap."""
    rng = random.Random(days)
    values = [(T + n * gap / 4, float(rng.randrange(100))) for n in range(16)]
    pieces = [values[at : at + 4] for at in range(0, 16, 4)]
    for at in (0, 3):
        write(history, pieces[at])
    write(history, [(T + days * DAY, 7.0)])
    take_in(lake, history.state)
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    expire(lake, FIRST + timedelta(days=days), KEEP)
    lake.unlock()
    for at in (2, 1):
        write(history, pieces[at])
        take_in(lake, history.state)
        lake.lock()
        cascade(None, lake)  # type: ignore[arg-type]
        lake.unlock()
    assert in_lake(lake, "d1") == walked(values)


def test_a_counter_that_began_again_in_a_gap_of_one_row(lake: Lake, history: Any, take_in: Any) -> None:
    """A counter that began again within one row has too small a gain, since no row says at which value."""
    write(history, [(T, 100.0), (T + 600, 200.0), (T + 1200, 50.0)])
    write(history, [(T + 100 * DAY, 7.0)])
    take_in(lake, history.state)
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    expire(lake, FIRST + timedelta(days=100), KEEP)
    lake.unlock()
    write(history, [(T + 700, 250.0), (T + 800, 10.0), (T + 900, 30.0)])
    take_in(lake, history.state)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    assert in_lake(lake, "h1") == (100 + 50, 1200.0)
    assert walked([(0, 100.0), (600, 200.0), (700, 250.0), (800, 10.0), (900, 30.0), (1200, 50.0)])[0] == 200


@pytest.mark.parametrize("days", [100, 500])
@pytest.mark.parametrize("most", [1, 9])
def test_late_rows_where_m5_has_nothing_newer(lake: Lake, history: Any, take_in: Any, days: int, most: int) -> None:
    """Rows of a gap count once where m5 has forgotten all that it had, and where it has late rows of that day alone."""
    values: Piece = [(0, 100.0), (600, 200.0), (1200, 300.0), (4000, 500.0), (4600, 600.0)]
    write(history, [(T + at, value) for at, value in values])
    take_in(lake, history.state)
    lake.lock()
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    expire(lake, FIRST + timedelta(days=days), KEEP)
    lake.unlock()
    assert lake.files("m5") == []
    late: list[Piece] = [[(700, 210.0), (800, 220.0)], [(1500, 320.0), (1800, 330.0)], [(4200, 540.0)]]
    for piece in late:
        write(history, [(T + at, value) for at, value in piece])
    take_in(lake, history.state, most=most)
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    assert in_lake(lake, "d1") == walked([*values, *(value for piece in late for value in piece)]) == (500, 4600)
