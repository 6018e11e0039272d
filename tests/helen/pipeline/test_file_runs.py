"""Tests that late results do not have a whole day written again, only about as many rows as came for it."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.file_runs import ENOUGH_FILES, together, worth_rewriting
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.log_entries import File
from helen.pipeline.rollup.following import cascade
from helen.pipeline.upkeep import compact
from helen.pipeline.verify import verify_days, verify_segments

T, DAY = 1_790_035_200.0, 86_400  # 2026-09-22 00:00:00 UTC
PER_FILE = 4_000


def file(rows: int, version: int, fresh: bool = True) -> File:
    letter = "b" if fresh else "c"
    return File(f"{letter}{version}-{random.random()}", rows * 40, rows, date(2026, 9, 22), version, fresh, {}, {})


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([], 0),
        ([(100, 1)], 0),
        ([(10, 1)] * 7, 0),  # too few
        ([(10, 1)] * 8, 8),
        ([(10, 1)] * 8 + [(1000, 1)], 8),  # the day stays as it is
        ([(10, 1)] * 8 + [(80, 1)], 9),
        ([(10, 1)] * 8 + [(81, 1)], 8),
        ([(10, 1)] * 4 + [(41, 3)], 0),  # four small ones aren't worth it, and the other one has more than they
        ([(10, 1)] * 5 + [(50, 3)], 6),
        ([(4000, 1)] * 20, 0),  # as many as would be needed anyway
    ],
)
def test_what_is_worth_it(sizes: list[tuple[int, int]], count: int) -> None:
    assert together(sizes, PER_FILE) == count


@pytest.mark.parametrize(
    ("there", "portion", "each"), [(400_000, 10, 1), (400_000, 10, 8), (20_000, 100, 3), (0, 7, 5)]
)
def test_rows_are_written_again_as_often_as_their_number_doubles(there: int, portion: int, each: int) -> None:
    """Rows are rewritten about as often as their number doubles, over 600 portions, and the number of files stays
    bounded."""
    files = [file(PER_FILE, 0, fresh=False) for _ in range(there // PER_FILE)]
    assert sum(one.rows for one in files) == there
    again, most_files, late = 0, 0, 0
    for version in range(1, 601):
        files.append(file(portion, version))
        late += portion
        if version % each == 0:
            chosen = worth_rewriting(files, PER_FILE)
            gone, rows = {one.path for one in chosen}, sum(one.rows for one in chosen)
            again += rows
            files = [one for one in files if one.path not in gone]
            files += [file(min(PER_FILE, rows - at), version, fresh=False) for at in range(0, rows, PER_FILE)]
        most_files = max(most_files, len(files))
    assert sum(one.rows for one in files) == there + late
    doublings = math.ceil(math.log2(late / portion))
    assert 0 < again <= late * doublings + (there if late >= there else 0) * 2
    assert most_files <= (there + late) // PER_FILE * 2 + ENOUGH_FILES * 3 + doublings


def test_a_large_day_is_never_written_again_for_few_rows() -> None:
    """The whole files of a large day are not rewritten for a few rows, in whatever order files are listed."""
    rng = random.Random(1)
    files = [file(PER_FILE, 0, fresh=False) for _ in range(7)] + [file(20, version) for version in range(1, 40)]
    rng.shuffle(files)
    chosen = worth_rewriting(files, PER_FILE)
    assert sorted(one.version for one in chosen) == list(range(1, 40))
    assert [one for one in files if one in chosen] == chosen


def written_again(lake: Lake, table: str) -> int:
    """Count the rows of files that entries of compaction have named as rewritten."""
    found = 0
    for entry in sorted((lake.path(table) / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in entry.read_text().splitlines()]
        adds = [action["add"] for action in actions if "add" in action]
        found += sum(json.loads(add["stats"])["numRecords"] for add in adds if not add["dataChange"])
    return found


def some(helen: Any, rng: random.Random, begin: float, count: int, late: float = 0.0, every: float = 60.0) -> None:
    records = []
    for n in range(count):
        ended = begin + n * every
        metrics = [{"name": "load", "value": rng.random()}]
        records.append(helen.result(f"web1/c{n % 4}", ended + late, "ok", metrics=metrics, started=ended))
    helen.segment(*records)


def test_late_results_of_an_old_day(history: Any, take_in: Any, tmp_path: Path) -> None:
    """Forty late results of an old day are compacted without rewriting its 1,440 others each time, and all sums are
    right."""
    lake, rng, now = Lake(tmp_path / "lake"), random.Random(1), datetime.fromtimestamp(T + 3 * DAY, UTC)
    for part in range(9):
        some(history, rng, T + part * 9600, 160)
    take_in(lake, history.state, most=1)
    lake.lock()
    compact(None, lake, now)  # type: ignore[arg-type]
    assert (len(lake.files("results")), written_again(lake, "results")) == (1, 1440)
    (whole,) = lake.files("results")
    hour = lake.files("m5")
    for portion in range(40):
        some(history, rng, T + portion * 300 + 7, 1, late=2 * DAY)
        lake.unlock()
        take_in(lake, history.state)
        lake.lock()
        if portion % 8 == 7:
            compact(None, lake, now)  # type: ignore[arg-type]
    assert whole.path in {each.path for each in lake.files("results")}
    assert hour[0].path in {each.path for each in lake.files("m5")}
    late = written_again(lake, "results") - 1440
    assert 0 < late <= 40 * math.ceil(math.log2(40)) < 1440
    files = [each for each in lake.files("results") if each.day == date(2026, 9, 22)]
    assert len(files) <= 1 + ENOUGH_FILES
    assert sum(each.rows for each in files) == 1480
    cascade(None, lake)  # type: ignore[arg-type]
    for level in ("m5", "h1", "d1"):
        assert sum(row["n"] for row in lake.rows(level) if row["metric"] == "") == 1480
    assert verify_segments(lake) == []
    assert [day.faults for day in verify_days(lake, date(2026, 9, 22), date(2026, 9, 22))] == [[]]
    compact(None, lake, now, all_days=True)  # type: ignore[arg-type]
    assert len(lake.files("results")) == 1
    lake.unlock()
