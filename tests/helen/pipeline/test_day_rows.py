"""Tests reports by days: rows reach the driver a few parts at a time, lie in a file, and are read by name and day."""

from __future__ import annotations

import csv
import itertools
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pyspark.sql.classic.dataframe import DataFrame

from helen.pipeline.lake.lake import Lake
from helen.pipeline.lake.local_days import local_days
from helen.pipeline.reports import availability as job
from helen.pipeline.reports import availability_inputs, report_formats
from helen.pipeline.reports import day_rows as held
from helen.pipeline.reports.availability import choose, day_rows, store
from helen.pipeline.reports.day_rows import ROW, DayRows
from helen.pipeline.reports.report_formats import FORMATS, Report, render
from helen.pipeline.reports.report_jobs import availability_report

BEGIN = 1_790_035_200.0  # 2026-09-22 00:00:00 UTC
CHECKS = 6
NAMES = {4: ("web1", "load"), 7: ("web1", "disk"), 9: ("db1", "disk")}
DAYS = local_days(date(2026, 9, 22), date(2026, 9, 23), "UTC")


def part_of(*numbers: int) -> pa.RecordBatch:
    """Return the rows of a part: a check's percentage is its number, and one more on the second day."""
    rows = [
        {"series": number, "date": day.date, "zone": "UTC", "profile": "strict", "seconds": 86400.0, "ok": 0.0,
         "bad": 0.0, "planned": 0.0, "unknown": 0.0, "no_data": 0.0, "percent": float(number + at), "outages": 0,
         "why": "{}", "from_changes": False, "version": 0}
        for number in numbers for at, day in enumerate(DAYS)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, ROW)


def three_checks() -> DayRows:
    rows = DayRows(DAYS, [np.array([4, 7], np.int32), np.array([9], np.int32)], NAMES)
    rows.add(part_of(4, 7))
    rows.add(part_of(9))
    return rows


def test_rows_come_by_name_and_day_and_as_often_as_they_are_read() -> None:
    rows = three_checks()
    expected = [(9, 22), (9, 23), (7, 22), (7, 23), (4, 22), (4, 23)]
    for _ in range(2):
        assert [(row["series"], row["date"].day) for row in rows] == expected
    assert len(rows) == 6
    assert [(row["series"], row["date"].day) for row in (rows[0], rows[-1], rows[2])] == [(9, 22), (4, 23), (7, 22)]
    assert [row["series"] for row in rows[1:4]] == [9, 7, 7]
    with pytest.raises(IndexError):
        rows[6]


@settings(deadline=None, max_examples=50)
@given(some.permutations(range(9)), some.sets(some.integers(1, 8)), some.integers(1, 9))
def test_rows_are_in_order_wherever_parts_end(order: list[int], cuts: set[int], at_once: int) -> None:
    """Rows are in the order of names and days, wherever parts end and however many are read at once."""
    names = {number: ("web", f"check{place}") for number, place in enumerate(order)}
    parts = [np.array(range(*ends), np.int32) for ends in itertools.pairwise([0, *sorted(cuts), 9])]
    rows = DayRows(DAYS, parts, names)
    for part in parts:
        rows.add(part_of(*part.tolist()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held, "ROWS_AT_ONCE", at_once)
        found = [(names[row["series"]], row["date"], row["percent"]) for row in rows]
    assert found == sorted(
        (names[number], day.date, float(number + at)) for number in range(9) for at, day in enumerate(DAYS)
    )


def test_days_and_those_that_miss_a_target() -> None:
    rows = three_checks()
    assert [(day, table["series"].to_pylist(), table["percent"].to_pylist()) for day, table in rows.by_day()] == [
        (DAYS[0].date, [4, 7, 9], [4.0, 7.0, 9.0]), (DAYS[1].date, [4, 7, 9], [5.0, 8.0, 10.0]),
    ]  # fmt: skip
    assert [rows.missing(target) for target in (4.0, 4.5, 8.0, 99.0)] == [0, 1, 3, 6]


def test_no_checks() -> None:
    rows = DayRows(DAYS, [], {})
    assert (list(rows), len(rows), rows.missing(99.0)) == ([], 0, 0)
    assert availability_report(rows, {}, True, 99.0).notes == ["0 of 0 miss 99 %."]


def test_its_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of rows has no name, so that it is gone with the process, however that ends."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = three_checks()
    assert list(tmp_path.iterdir()) == []
    assert len(list(rows)) == 6
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def lake(history: Any, take_in: Any, tmp_path: Path) -> Lake:
    """Provide a lake of six checks with a result each hour of a day, and a bad one for each in another hour."""
    history.segment(
        *(
            history.result(f"web{n}/disk", BEGIN + hour * 3600, "critical" if hour == n else "ok")
            for hour in range(24)
            for n in range(CHECKS)
        )
    )
    made = Lake(tmp_path / "lake")
    take_in(made, history.state)
    return made


def collected(spark: Any, lake: Lake, last: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], DayRows]:
    """Return the check-days of each answer of Spark, and the rows of the report from the 22nd on."""
    found: list[int] = []
    asked = DataFrame.toArrow

    def counted(frame: DataFrame) -> pa.Table:
        """Ask Spark, and count the rows that are packed in its answer."""
        answer = asked(frame)
        packs = (pa.ipc.open_stream(pack.as_buffer()).read_all() for pack in answer["rows"])
        found.append(sum(pack.num_rows for pack in packs))
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(DataFrame, "toArrow", counted)
        days = local_days(date(2026, 9, 22), date(2026, 9, last), "UTC")
        return found, day_rows(spark, lake, days, "strict", "UTC", choose(lake))


def test_no_more_rows_at_a_time_for_more_days(spark: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver gets at most PARTS_AT_ONCE parts of a core at a time, however many days there are, and all rows."""
    monkeypatch.setattr(job, "LITTLE_ROWS", -1)  # or the driver itself would do it
    at_once, whole = collected(spark, lake, 30, monkeypatch)
    assert at_once == [CHECKS * 9]  # that little is one answer
    monkeypatch.setattr(availability_inputs, "CHECK_DAYS_PER_PART", 10)
    monkeypatch.setattr(job, "PARTS_AT_ONCE", 2)
    few, _ = collected(spark, lake, 24, monkeypatch)
    many, rows = collected(spark, lake, 30, monkeypatch)
    assert (few, many) == ([CHECKS * 3], [18, 18, 18])  # two parts: of three checks and 3 days, of one check and 9
    assert list(rows) == list(whole)
    assert sum(row["bad"] for row in rows) == CHECKS * 3600.0


def test_reports_are_the_same_from_a_file_and_from_a_list(spark: Any, lake: Lake) -> None:
    """Reports from a file of rows equal those from a list, by days and added up, in each format."""
    series = choose(lake)
    rows = day_rows(spark, lake, DAYS, "strict", "UTC", series)
    for each_day, missed in ((True, "12 of 12 miss 99.9 %."), (False, "6 of 6 miss 99.9 %.")):
        one, other = (availability_report(of, series, each_day, 99.9) for of in (rows, list(rows)))
        assert one.notes == [missed]
        for form in FORMATS:
            assert render(one, form) == render(other, form)
    lines = render(availability_report(rows, series, True, None), "csv").splitlines()
    assert [line.split(",")[:2] for line in lines[1:4]] == [
        ["web0/disk", "2026-09-22"], ["web0/disk", "2026-09-23"], ["web1/disk", "2026-09-22"],
    ]  # fmt: skip


def test_days_are_kept_from_a_file(spark: Any, lake: Lake) -> None:
    """The same days stored twice make no new version, and a day of another profile is another day."""
    series = choose(lake)
    lake.lock()
    strict, icinga = (day_rows(spark, lake, DAYS, profile, "UTC", series) for profile in ("strict", "icinga"))
    assert [store(lake, strict), store(lake, strict), store(lake, icinga)] == [12, 0, 12]
    changed = [{**row, "percent": None} for row in strict if row["series"] == 0]
    assert [store(lake, changed), store(lake, changed), store(lake, strict)] == [2, 0, 2]
    lake.unlock()
    kept = [row for row in lake.rows("availability_daily") if row["series"] == 0 and row["profile"] == "strict"]
    assert sorted((row["date"].day, row["version"], row["percent"] is None) for row in kept) == [
        (22, 0, False), (22, 1, True), (22, 2, False), (23, 0, False), (23, 1, True), (23, 2, False),
    ]  # fmt: skip
    assert {row["day"] for row in kept} == {row["date"] for row in kept}


def test_rows_are_made_once_for_each_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each format reads the rows of a report once, also if their cells do not fit into memory."""
    monkeypatch.setattr(report_formats, "CELLS_IN_MEMORY", 64)
    made: list[int] = []

    class Counted(DayRows):
        """Count how often its rows are read."""

        def __iter__(self) -> Any:
            made.append(len(self))
            return super().__iter__()

    rows = Counted(DAYS, [np.array([4, 7, 9], np.int32)], NAMES)
    rows.add(part_of(4, 7, 9))
    report = Report("t", ["series", "percent"], rows, ["a note"])
    found = {form: render(report, form) for form in FORMATS}
    assert made == [6] * len(FORMATS)
    assert found["text"].splitlines() == [
        "series  percent", "     9      9 %", "     9     10 %", "     7      7 %", "     7      8 %",
        "     4      4 %", "     4      5 %", "a note",
    ]  # fmt: skip
    assert list(csv.reader(found["csv"].splitlines()))[:3] == [["series", "percent"], ["9", "9.0"], ["9", "10.0"]]
    assert found["html"].count("<tr>") == 7
    document = json.loads(found["json"])
    assert [row["series"] for row in document["rows"]] == [9, 9, 7, 7, 4, 4]
    plainly = {"title": "t", "rows": [dict(row) for row in rows], "notes": ["a note"]}
    assert found["json"] == json.dumps(plainly, indent=2, default=str) + "\n"
