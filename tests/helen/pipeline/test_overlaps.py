"""Tests values of one counter that came out of order in several batches: the lake has the gain of a walk through
them."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from plainly import PlainBatch, refuse_once, sink_of

from helen.pipeline.ingest import batch as ingestion
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.overlaps import Overlap, overlapping
from helen.pipeline.rollup.steps import Stretch
from helen.pipeline.verify import verify_days

T = 1_790_121_600.0  # 2026-09-23 00:00:00 UTC
Values = dict[int, list[tuple[float, float]]]  # segment -> (time, value)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


def write(history: Any, values: Values) -> None:
    for number in sorted(values):
        history.segment(*(
            history.result("web1/net", T + 7 * 86_400, started=at, metrics=[
                {"name": "sent", "value": value, "kind": "counter"}]) for at, value in values[number]
        ))  # fmt: skip


def increases(lake: Lake) -> dict[float, float]:
    found: dict[float, float] = defaultdict(float)
    for row in lake.rows("m5"):
        if row["metric"] == "sent":
            found[row["bucket"].timestamp() - T] += row["increase"]
    return dict(found)


@pytest.mark.parametrize("little", [0, 2])
def test_a_counter_that_began_again_between_values_of_a_bucket(
    lake: Lake, history: Any, little: int, monkeypatch: pytest.MonkeyPatch, take_in: Any
) -> None:
    """A counter that began again between late values of a bucket gains 200 in that bucket and 7 in the next."""
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", little)
    write(
        history,
        {
            1: [(T, 500.0), (T + 60, 600.0), (T + 240, 100.0)],
            2: [(T + 310, 107.0)],
            3: [(T + 120, 4.0), (T + 180, 10.0)],
        },
    )
    take_in(lake, history.state, most=1)
    assert increases(lake) == {0: 200.0, 300: 7.0}
    seconds = [row["increase_s"] for row in lake.rows("m5") if row["metric"] == "sent"]
    assert sum(seconds) == 310.0


@pytest.mark.parametrize("seed", range(5))
def test_every_sum_is_proved(lake: Lake, history: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day of counters out of order is proved, over midnight, with equal times, large steps and restarted
    writers."""
    rng, total, at, values = random.Random(seed), 0.0, T - 3000, defaultdict(list)
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", rng.choice((0, 2)))
    for number in range(60):
        values[rng.randrange(4) + number // 20 * 3].append((at, total))
        at += rng.choice((0, 61, 61, 61, 420))
        total = rng.random() * 9 if rng.random() < 0.15 else total + rng.random() * rng.choice((100, 1e9))
    write(history, values)
    sink = sink_of(lake, history.state)
    while not (batch := PlainBatch(sink, rng.choice((1, 3)))).is_empty:
        if rng.random() < 0.4:
            with pytest.MonkeyPatch.context() as patched:
                refuse_once(patched, lake, rng.choice(("m5", "results")))
                with pytest.raises(OSError, match="No space"):
                    sink.take(batch)
            sink = sink_of(lake, history.state)
            continue
        sink.take(batch)
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()
    proved = {each.day: (each.counts["d1"], each.faults) for each in verify_days(lake)}
    assert [faults for _, faults in proved.values()] == [[], []]
    assert sum(count or 0 for count, _ in proved.values()) == 60


def test_without_raw_values_the_steps_count(lake: Lake, history: Any, take_in: Any) -> None:
    """Late values of a gap add nothing once raw values are forgotten: the bucket keeps the sum of its rows."""
    write(history, {1: [(T, 500.0), (T + 240, 700.0)], 2: [(T + 120, 600.0), (T + 180, 610.0)]})
    take_in(lake, history.state, most=1)
    assert increases(lake) == {0: 200.0}
    lake.lock()
    lake.publish("results", [], {}, lake.files("results", (date(2026, 9, 23), date(2026, 9, 23))))
    lake.unlock()
    write(history, {1: [(T + 130, 605.0), (T + 200, 650.0)]})
    take_in(lake, history.state)
    assert increases(lake) == {0: 200.0}


def stretch(begin: float, end: float, value: float = 0.0) -> Stretch:
    return Stretch(round(begin * MICROS), round(end * MICROS), value, value)


def test_which_buckets_are_made_exact() -> None:
    """The buckets made exact are that with the overlap, the one behind it, and one put behind an earlier overlap."""
    first, second, third, fourth = (number * 300 * MICROS for number in range(4))
    apart = [stretch(0, 100), stretch(310, 320), stretch(900, 910)]
    assert overlapping(apart) == set()
    assert overlapping([*apart, stretch(100, 120)]) == {first}
    assert Overlap(apart, [stretch(700, 710)]).buckets() == (set(), set())
    assert Overlap(apart, [stretch(50, 60)]).buckets() == ({first, second}, {first, second})
    assert Overlap([*apart, stretch(50, 60)], [stretch(700, 710)]).buckets() == (set(), set())
    there = [stretch(0, 100), stretch(50, 100), stretch(900, 910)]
    assert Overlap(there, [stretch(310, 320)]).buckets() == ({second, fourth}, {first, second, fourth})
    assert third not in Overlap(there, [stretch(310, 320)]).buckets()[1]


@pytest.mark.parametrize("damaged", range(5))
def test_a_damaged_file_of_sums_beside_an_overlap(
    lake: Lake, history: Any, damaged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file of sums beside an overlap loses the exact steps, and the batch comes in all the same."""
    monkeypatch.setattr(ingestion, "LITTLE_SEGMENTS", 0)
    values = [[(T, 500.0), (T + 240, 700.0)], [(T + 120, 600.0)], [(T + 600, 900.0)], [(T + 660, 950.0)]]
    write(history, dict(enumerate([*values, [(T + 310, 710.0)]])))
    sink = sink_of(lake, history.state)
    for _ in values:
        sink.take(PlainBatch(sink, 1))
    files = sorted(str(lake.path("m5") / file.path) for file in lake.files("m5"))
    for path in files[damaged : damaged + 1]:
        Path(path).write_bytes(Path(path).read_bytes()[:-20])
    sink = sink_of(lake, history.state)
    sink.take(PlainBatch(sink, 1))
    assert len(lake.rows("results")) == 6
    lake.unlock()
