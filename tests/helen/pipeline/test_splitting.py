"""Tests that tasks with a range of series each get every row of a rollup once, and that a file is decoded once."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helen.pipeline.lake import lake_files, places
from helen.pipeline.lake.errors import LakeDamaged
from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.lake_files import MOST, Held, held, read
from helen.pipeline.lake.schema import SUMS
from helen.pipeline.rollup import job, splitting
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.job import bounds_of
from helen.pipeline.rollup.splitting import groups_of, split
from helen.pipeline.verify import verify_days

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
SERIES = 40


@pytest.fixture
def lake(tmp_path: Path, history: Any, take_in: Any) -> Lake:
    """Provide a lake with five segments of forty series, each a file of m5."""
    lake, rng = Lake(tmp_path / "lake"), random.Random(3)
    for turn in range(5):
        history.segment(*(
            history.result(f"web{rng.randrange(SERIES)}/net", T + turn * 2400 + n * 20, metrics=[
                {"name": "sent", "value": turn * 1000.0 + n, "kind": "counter"}]) for n in range(120)
        ))  # fmt: skip
        take_in(lake, history.state)
    return lake


def follow(lake: Lake) -> dict[str, int]:
    lake.lock()
    try:
        return cascade(None, lake)  # type: ignore[arg-type]
    finally:
        lake.unlock()


def count_opened(monkeypatch: pytest.MonkeyPatch, task: type, name: str, counted: Counter[str]) -> None:
    """Have a method, which is a generator, count the files of Parquet that it opens, but for those it makes."""
    work, dataset, inside = getattr(task, name), lake_files.dataset, [False]

    def opened(table: Any, paths: Any, words: Any = ()) -> Any:
        counted.update(path for path in paths if inside[0] and path.endswith(".parquet"))
        return dataset(table, paths, words)

    def worked(self: Any, number: int) -> Any:
        inside[0] = True
        try:
            yield from work(self, number)
        finally:
            inside[0] = False

    monkeypatch.setattr(lake_files, "dataset", opened)
    monkeypatch.setattr(task, name, worked)


def rows_of(lake: Lake, table: str) -> list[dict[str, Any]]:
    return sorted(({**row, "version": 0} for row in lake.rows(table)), key=repr)


def test_each_row_is_in_the_piece_of_its_part(lake: Lake) -> None:
    """Each row is in one piece of its part, new rows in new pieces, and the pieces go when the work is done."""
    files = held(lake, "m5", lake.files("m5"))
    new, bounds, folder = files[2:4], bounds_of(SUMS, files, 7), lake.staging("m5")
    whole = read(SUMS, [file.path for file in files], SUMS.columns.names, None).to_pylist()
    late = read(SUMS, [file.path for file in new], SUMS.columns.names, None).to_pylist()
    with split(None, SUMS, files, new, bounds, folder, rows_per_group=300) as parts:
        assert len(parts.files) > len(bounds) == 7
        found, fresh = [], []
        for piece in parts.files:
            rows = read(SUMS, [piece.path], SUMS.columns.names, None).to_pylist()
            assert len(rows) == piece.rows
            assert {piece.lowest <= row["series"] <= piece.highest for row in rows} == {True}
            assert (piece.lowest, piece.highest) in bounds
            found += rows
        for piece in parts.fresh or ():
            assert piece in parts.files
            fresh += read(SUMS, [piece.path], SUMS.columns.names, None).to_pylist()
        for rows, right in ((found, whole), (fresh, late)):
            assert Counter(map(repr, rows)) == Counter(map(repr, right))
        assert [*places.files_below(folder, ".arrow")] != []
    assert not folder.exists()


def test_few_parts_read_the_files_themselves(lake: Lake) -> None:
    """Two ranges of series are read from the files as they lie, since copies of them would cost more."""
    files = held(lake, "m5", lake.files("m5"))
    with split(None, SUMS, files, None, [(0, 9), (10, MOST)], lake.staging("m5")) as parts:
        assert (parts.files, parts.fresh) == (files, None)


def test_levels_are_the_same_in_any_number_of_parts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours and days that many tasks make are those that one makes, and no task decodes a file of the source."""
    one = Lake(lake.folder.with_name("one"))
    shutil.copytree(lake.folder, one.folder)
    follow(one)
    monkeypatch.setattr(job, "ROWS_PER_PART", 100)
    split_files, task_files = Counter[str](), Counter[str]()
    count_opened(monkeypatch, splitting.SplitTask, "_pieces", split_files)
    count_opened(monkeypatch, job.Task, "_part", task_files)
    sources = {str(lake.path("m5") / file.path) for file in lake.files("m5")}
    follow(lake)
    for table in ("h1", "d1"):
        assert rows_of(lake, table) == rows_of(one, table) != []
    assert {path: split_files[path] for path in sources} == dict.fromkeys(sources, 1)
    assert not sources & {*task_files}
    assert [each.faults for each in verify_days(lake)] == [[]]


def test_late_rows_of_many_parts(lake: Lake, history: Any, take_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that come late are in the hours and days that many tasks make anew, once."""
    monkeypatch.setattr(job, "ROWS_PER_PART", 60)
    follow(lake)
    for turn in range(3):
        history.segment(*(
            history.result(f"web{n % SERIES}/net", T + 2 * 86_400 + turn * 60 + n, started=T + turn * 900 + n)
            for n in range(50)
        ))  # fmt: skip
        take_in(lake, history.state)
        follow(lake)
        for table in ("m5", "h1", "d1"):
            assert sum(row["n"] for row in rows_of(lake, table) if row["metric"] == "") == 600 + 50 * (turn + 1)
    assert {fault for each in verify_days(lake) for fault in each.faults} == set()


def test_a_file_that_cannot_be_split_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged file of the source is named with the command that mends it, however many tasks there are."""
    monkeypatch.setattr(job, "ROWS_PER_PART", 100)
    bad = lake.path("m5") / lake.files("m5")[1].path
    bad.write_bytes(bad.read_bytes()[:200])
    with pytest.raises(LakeDamaged, match=f"{bad} can't be read .*helen pipeline rebuild m5 --from 2026-09-22`"):
        follow(lake)
    assert [*places.files_below(lake.path("h1"), ".arrow", recursive=True)] == []


@pytest.mark.parametrize(
    ("rows", "new", "groups"),
    [
        ([5, 5, 5], "", [("ab", False), ("c", False)]),
        ([5, 5, 5], "b", [("a", False), ("b", True), ("c", False)]),
        ([50, 1, 9], "abc", [("a", True), ("bc", True)]),
        ([], "", []),
    ],
)
def test_groups_keep_the_order_of_files(rows: list[int], new: str, groups: list[tuple[str, bool]]) -> None:
    """Files are split in groups of at most ten rows, in their order, and never new ones with others."""
    files = [Held(name, count, 0, MOST) for name, count in zip("abc", rows, strict=False)]
    found = groups_of(files, {*new}, 10)
    assert [("".join(file.path for file in group), is_new) for group, is_new in found] == groups
