"""Tests that a lake proves itself: missing, repeated or changed rows are named, and forgotten ones are no fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from helen.pipeline.commands import main
from helen.pipeline.lake.damaged_files import Damage
from helen.pipeline.lake.errors import LakeDamaged
from helen.pipeline.lake.lake import Lake
from helen.pipeline.rollup.following import cascade
from helen.pipeline.rollup.rebuild import rebuild
from helen.pipeline.upkeep import compact, expire
from helen.pipeline.verify import ProvedDay, mending, verify_days, verify_segments

T = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
DAY = 86_400


@pytest.fixture
def lake(tmp_path: Path, history: Any, take_in: Any) -> Lake:
    """Provide a lake of two days of three segments each, with all levels up to date."""
    lake = Lake(tmp_path / "lake")
    for number in range(6):
        begin = T + number // 3 * 20 * DAY + number * 3600
        history.segment(*(
            history.result(f"web{at % 2}/net", begin + at * 120, origin=at == 7, metrics=[
                {"name": "sent", "value": at * 10.0, "kind": "counter"}]) for at in range(10)
        ))  # fmt: skip
    take_in(lake, history.state)
    follow(lake)
    return lake


def follow(lake: Lake) -> None:
    lake.lock()
    cascade(None, lake)  # type: ignore[arg-type]
    lake.unlock()


def replaced(lake: Lake, table: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change the rows of a table as no part of the pipeline does."""
    lake.lock()
    rows = pa.Table.from_pylist(change(lake.rows(table)), schema=lake.tables[table].arrow)
    lake.publish(table, lake.stage_rows(table, rows), {}, lake.files(table), fresh=False)
    lake.unlock()


def without_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["at"] != min(each["at"] for each in rows)]


def first_twice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows, min(rows, key=lambda row: row["at"])]


def another_sequence(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"sequence": row["sequence"] + (row["at"] == 1)} for row in rows]


def without_segment(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["segment"] != 2]


def doubled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"n": row["n"] + (row is rows[0])} for row in rows]


def more_gained(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"increase": row["increase"] and row["increase"] + 1} for row in rows]


SEGMENTS: dict[str, tuple[str, Callable[..., Any], list[str]]] = {
    "missing": ("results", without_first, []),  # as its day may be: results of the days before are forgotten
    "twice": ("results", first_twice, ["segment 1 of Helen 0: 11 results instead of 10: some are there twice"]),
    "changed": (
        "results", another_sequence,
        ["segment 1 of Helen 0: another checksum of 10 results than when they came"],
    ),
    "not listed": (
        "segments", without_segment,
        ["segment 2 of Helen 0: 10 results, and the list doesn't have it", "segments 2 to 2 of Helen 0 aren't listed"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEGMENTS)
def test_what_is_wrong_with_segments_is_named(lake: Lake, name: str) -> None:
    table, change, sentences = SEGMENTS[name]
    assert verify_segments(lake) == []
    replaced(lake, table, change)
    assert verify_segments(lake) == sentences


def test_a_result_that_can_not_be_forgotten_is_missing(lake: Lake) -> None:
    """Results are missing only as long as they cannot have been forgotten with their day."""
    replaced(lake, "results", lambda rows: [row for row in rows if row["segment"] != 5 or row["at"] % 2])
    assert verify_segments(lake) == ["segment 5 of Helen 0: 5 results instead of 10"]
    lake.lock()
    assert expire(lake, date(2026, 10, 22), {"results": 30})["results"] == 0
    assert len(verify_segments(lake)) == 1
    assert expire(lake, date(2026, 10, 22), {"results": 15})["results"] == 1
    lake.unlock()
    assert verify_segments(lake) == []


SUMS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "m5": ("m5", doubled, "m5: series 0: n is "),
    "h1": ("h1", doubled, "h1: series 0: n is "),
    "d1": ("d1", more_gained, "d1: series 0, sent: increase is "),
    "lost": ("m5", lambda rows: [row for row in rows if row["series"]], "m5: series 0 is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_that_differ_are_named(lake: Lake, name: str) -> None:
    """Sums that differ are named by day and table, and a sound day has no faults."""
    assert [(each.day, each.counts, each.faults) for each in verify_days(lake)] == [
        (date(2026, 9, 22), {"results": 27, "m5": 27, "h1": 27, "d1": 27}, []),
        (date(2026, 10, 12), {"results": 27, "m5": 27, "h1": 27, "d1": 27}, []),
    ]
    table, change, sentence = SUMS[name]
    replaced(lake, table, change)
    found = [fault for each in verify_days(lake, date(2026, 9, 22), date(2026, 9, 22)) for fault in each.faults]
    assert found[0].startswith(sentence)
    assert {fault.split(":")[0] for fault in found} == {table}


def test_a_level_that_has_not_followed_yet_is_left_out(lake: Lake, history: Any, take_in: Any) -> None:
    """A level that has not followed yet has no count and no fault, and is compared once it has."""
    history.segment(*(history.result("web0/net", T + 40 * DAY + at) for at in range(4)))
    take_in(lake, history.state)
    newest = list(verify_days(lake))[-1]
    assert (newest.counts, newest.faults) == ({"results": 4, "m5": 4, "h1": None, "d1": None}, [])
    follow(lake)
    assert list(verify_days(lake))[-1].counts == {"results": 4, "m5": 4, "h1": 4, "d1": 4}


def test_the_command_says_so_with_its_status(lake: Lake) -> None:
    """`verify` says the result in words and by its status, as text and JSON, for chosen days."""
    words = ["verify", "--lake", str(lake.folder)]
    told = CliRunner().invoke(main, words)
    assert (told.exit_code, "Everything is there once." in told.stdout) == (0, True)
    replaced(lake, "results", first_twice)
    told = CliRunner().invoke(main, [*words, "--to", "2026-09-22", "--output", "json"])
    assert told.exit_code == 1
    assert "segment 1 of Helen 0: 11 results instead of 10: some are there twice" in told.stderr
    found = json.loads(told.stdout)
    assert [row["results"] for row in found["rows"]] == [28]


def test_the_command_that_makes_wrong_sums_anew_is_said(lake: Lake) -> None:
    """`verify` names the rebuild of the first wrong level of a day, and none if raw results are wrong."""
    words = ["verify", "--lake", str(lake.folder)]
    replaced(lake, "d1", doubled)
    replaced(lake, "m5", more_gained)
    told = CliRunner().invoke(main, words)
    said = [line.strip() for line in told.stdout.splitlines() if "rebuild" in line]
    days = (date(2026, 9, 22), date(2026, 10, 12))
    assert said == [f"To make them anew: `helen pipeline rebuild m5 --from {day} --to {day}`" for day in days]
    lake.lock()
    rebuild(None, lake, "m5", days)  # type: ignore[arg-type]
    lake.unlock()
    assert CliRunner().invoke(main, words).exit_code == 0
    replaced(lake, "m5", doubled)
    replaced(lake, "results", first_twice)
    told = CliRunner().invoke(main, words)
    assert (told.exit_code, "rebuild" in told.stdout) == (1, False)


def test_days_that_follow_each_other_are_one_command() -> None:
    """Adjacent days are one command, and a day whose files cannot be read is mended by its own sentence."""
    counts = {"results": 1, "m5": 1, "h1": 1}

    def proved(number: int, *faults: str) -> ProvedDay:
        return ProvedDay(date(2026, 9, number), counts, list(faults))

    days = [
        proved(1, "h1: x"), proved(2, "m5: x", "h1: x"), proved(3, "m5: x"), proved(4), proved(5, "m5: y"),
        ProvedDay(date(2026, 9, 6), {}, ["a file can't be read (m5: x)"]),
    ]  # fmt: skip
    assert mending(days) == [
        "helen pipeline rebuild h1 --from 2026-09-01 --to 2026-09-01",
        "helen pipeline rebuild m5 --from 2026-09-02 --to 2026-09-03",
        "helen pipeline rebuild m5 --from 2026-09-05 --to 2026-09-05",
    ]


def damaged(lake: Lake, table: str, place: int) -> Path:
    """Cut one of the files of a table in half."""
    path = lake.path(table) / lake.files(table)[place].path
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def test_a_damaged_file_holds_back_its_own_day_alone(lake: Lake, history: Any, take_in: Any) -> None:
    """A damaged file holds back its own day alone; the error names the rebuild that mends it."""
    history.segment(*(history.result("web0/net", T + 41 * DAY + at) for at in range(4)))
    take_in(lake, history.state, most=1)
    bad = damaged(lake, "m5", -1)
    assert bad.parent.name == "day=2026-11-02"
    for number in range(2):  # results come in meanwhile
        history.segment(*(history.result("web0/net", T + 40 * DAY + number * 600 + at) for at in range(2)))
        take_in(lake, history.state, most=1)
    lake.lock()
    sentence = f"{bad} can't be read .*, or make its day anew: `helen pipeline rebuild m5 --from 2026-11-02`"
    with pytest.raises(LakeDamaged, match=sentence):
        compact(None, lake, all_days=True)  # type: ignore[arg-type]
    assert cascade(None, lake) == {"h1": 0, "d1": 0}  # type: ignore[arg-type]
    lake.unlock()
    proved = {each.day: each for each in verify_days(lake)}
    assert proved[date(2026, 11, 1)].counts == {"results": 4, "m5": 4, "h1": 4, "d1": 4}
    assert "can't be read" in proved[date(2026, 11, 2)].faults[0]
    assert len([file for file in lake.files("m5") if file.day == date(2026, 11, 1)]) == 1
    lake.lock()
    rebuild(None, lake, "m5", [date(2026, 11, 2)])  # type: ignore[arg-type]
    compact(None, lake, all_days=True)  # type: ignore[arg-type]
    lake.unlock()
    assert [each.faults for each in verify_days(lake)] == [[]] * 4
    bad = damaged(lake, "results", 0)
    assert verify_segments(lake)[0].startswith(f"{bad} can't be read (")


def test_an_error_that_no_file_explains_is_raised(lake: Lake) -> None:
    """An error that no file explains, such as a full disk, is raised as it is."""
    with pytest.raises(OSError, match="No space"):
        Damage().without(lake, "m5", lake.files("m5"), full)


def full(files: Any) -> None:
    raise OSError(28, "No space left on device")
