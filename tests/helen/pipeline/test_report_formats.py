"""Tests reports in each format, with names that an attacker would choose."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from attrs import evolve

from helen.pipeline.lake.errors import PipelineError
from helen.pipeline.reports.command_options import write_report
from helen.pipeline.reports.flapping import flapped
from helen.pipeline.reports.report_formats import AVAILABILITY, Report, Row, bars, line, plain, render
from helen.pipeline.reports.report_jobs import added_up, budget_left

NASTY = "=cmd|'<script>\x1b[2J"
REPORT = Report(
    "A <b>", ["check", "percent", "why"],
    [{"check": "web1/disk", "percent": 99.5, "why": {"stale": 60.0}}, {"check": NASTY, "percent": None, "why": {}}],
    ["A note & more."], lambda row: bars([("ok", 3, "red"), ("bad", 1, "blue")]), {"why": "s"},
)  # fmt: skip


def test_text_is_a_table() -> None:
    """A report as text is a table with numbers to the right, and has no control characters."""
    assert render(REPORT, "text").splitlines() == [
        "check                  percent  why",
        "web1/disk               99.5 %  stale 60 s",
        "=cmd|'<script>\\x1b[2J",
        "A note & more.",
    ]


class Breaking(list[Row]):
    """Yield rows and then raise an OSError, as a full disk under them does."""

    def __iter__(self) -> Iterator[Row]:
        yield from super().__iter__()
        raise OSError(errno.EIO, os.strerror(errno.EIO), "/tmp/rows")


def test_a_report_that_breaks_off_leaves_the_older_file(tmp_path: Path) -> None:
    """A report that breaks off leaves the older file; a whole one replaces it with its rights, and a device is
    written to."""
    out = tmp_path / "report.csv"
    out.write_text("older\n")
    out.chmod(0o640)
    (tmp_path / "link.csv").symlink_to(out)
    with pytest.raises(OSError, match="Input/output error: '/tmp/rows'"):
        write_report(evolve(REPORT, rows=Breaking(REPORT.rows)), "csv", out)
    assert (out.read_text(), sorted(os.listdir(tmp_path))) == ("older\n", ["link.csv", "report.csv"])
    write_report(REPORT, "csv", tmp_path / "link.csv")
    assert (out.read_text(), out.stat().st_mode & 0o777) == (render(REPORT, "csv"), 0o640)
    assert (tmp_path / "link.csv").is_symlink()
    with pytest.raises(PipelineError, match=r"none/report\.csv can't be written: No such file or directory"):
        write_report(REPORT, "csv", tmp_path / "none" / "report.csv")
    with pytest.raises(PipelineError, match="/dev/full can't be written: No space left on device"):
        write_report(REPORT, "csv", Path("/dev/full"))
    write_report(REPORT, "csv", Path(os.devnull))
    assert Path(os.devnull).is_char_device()


FIGURES = Report(
    "Figures", ["metric", "unit", "now", "per_day", "days", "cpu_seconds", "cpu_ms_per_run", "peak_kib",
                "delay_s_tried", "worst_percent", "seconds", "runs", "at", "met"],
    [{"metric": "free", "unit": "B", "now": 24_151_139_669.3333, "per_day": -88_080_384.5, "days": 12.25,
      "cpu_seconds": 4_512.25, "cpu_ms_per_run": 12.3456, "peak_kib": 21_504, "delay_s_tried": 93_600.0,
      "worst_percent": 99.98765, "seconds": 30.0, "runs": 1_048_576, "at": 1_764_284_400_125_000, "met": True}],
    hidden=frozenset(("unit",)),
)  # fmt: skip


def test_figures_are_for_people_in_text_and_pages() -> None:
    """Figures in text and pages are in readable units, by the row's metric or by the column's name (J16)."""
    names = ["metric", "now", "per day", "days", "cpu", "cpu per run", "peak", "delay tried", "worst percent",
             "seconds", "runs", "at", "met"]  # fmt: skip
    cells = ["free", "22.5 GiB", "-84 MiB", "12.25", "1 h 15 min", "12.3 ms", "21 MiB", "26 h", "99.988 %", "30 s",
             "1048576", "1764284400125000", "True"]  # fmt: skip
    head, row = render(FIGURES, "text").splitlines()
    assert [re.split(r" {2,}", each) for each in (head.strip(), row.strip())] == [names, cells]
    page = render(FIGURES, "html")
    assert re.findall("<th(?: [^>]*)?>([^<]*)", page) == names
    assert re.findall("<td[^>]*>([^<]*)", page) == cells


def test_availability_is_told_to_four_decimals() -> None:
    """Availability is written with up to four decimals: 2.0833 % is not 2.1 %."""
    assert [plain(value, AVAILABILITY) for value in (2.083333, 99.99, 100.0, 0.0, None)] == [
        "2.0833 %", "99.99 %", "100 %", "0 %", ""
    ]  # fmt: skip


def test_figures_are_exact_for_programs() -> None:
    """JSON and CSV have each value exactly, and the columns that tables leave out."""
    (row,) = FIGURES.rows
    assert json.loads(render(FIGURES, "json"))["rows"] == [dict(row)]
    head, cells = csv.reader(render(FIGURES, "csv").splitlines())
    assert dict(zip(head, cells, strict=True)) == {name: str(row[name]) for name in FIGURES.columns}


def test_json_has_everything() -> None:
    """JSON has whole values and the notes."""
    document = json.loads(render(REPORT, "json"))
    assert document == {"title": "A <b>", "rows": [dict(row) for row in REPORT.rows], "notes": ["A note & more."]}


@pytest.mark.adversary(70)
def test_csv_is_no_program() -> None:
    """A CSV cell that a spreadsheet would compute is quoted."""
    assert render(REPORT, "csv") == (
        'check,percent,why\nweb1/disk,99.5,"{""stale"": 60.0}"\n\'=cmd|\'<script>\\x1b[2J,,{}\n'
    )


def test_html_needs_nothing_else() -> None:
    """An HTML report is one page without scripts and links, with names escaped and a plot in each row."""
    page = render(REPORT, "html")
    assert "<script" not in page
    assert "http" not in page
    assert "&lt;script&gt;" in page
    assert "<h1>A &lt;b&gt;</h1><p>A note &amp; more.</p>" in page
    assert page.count('<rect x="0.00" width="180.00"') == 2


def test_lines_and_wrong_formats() -> None:
    """A curve fits its box, and an unknown format is refused with the known ones."""
    assert 'points="0.0,39.0 120.0,1.0 240.0,39.0"' in line([1.0, 5.0, 1.0])
    assert line([1.0]) == ""
    with pytest.raises(PipelineError, match="no format 'xml': text, json, csv, html"):
        render(REPORT, "xml")


def test_flapping_is_cut_to_the_days() -> None:
    """Flapping is cut to the days: from the first moment if it began before, to the last if it goes on."""

    def told(series: int, at: float, on: bool, percent: float = 0.0) -> dict[str, object]:
        return {"series": series, "at": round(at * 1e6), "document": json.dumps({"on": on, "percent": percent})}

    changes = [told(1, 50, True, 40.0), told(2, 60, False), told(1, 120, False, 10.0), told(3, 150, True, 35.5),
               told(1, 180, True, 61.0), told(1, 190, False)]  # fmt: skip
    assert flapped(changes, 100_000_000, 200_000_000) == {
        1: {"times": 2, "seconds": 30.0, "worst_percent": 61.0, "percent_of_time": 30.0},
        3: {"times": 1, "seconds": 50.0, "worst_percent": 35.5, "percent_of_time": 50.0},
    }


def test_days_are_added_and_divided_once() -> None:
    """Days are added up and divided once, and the budget left is the time that may still be bad."""
    day = {"series": 1, "profile": "strict", "date": "d", "outages": 1, "planned": 0.0, "unknown": 0.0, "no_data": 0.0}
    short = {**day, "ok": 100.0, "bad": 0.0, "why": {"stale": 1.0}}
    long = {**day, "ok": 800.0, "bad": 100.0, "why": {"stale": 2.0}}
    (row,) = added_up([short, long])
    assert (row["percent"], row["ok"], row["bad"], row["outages"], row["why"]) == (
        90.0,
        900.0,
        100.0,
        2,
        {"stale": 3.0},
    )
    assert budget_left(row, 80.0) == 100.0
    assert budget_left(row, 95.0) == -50.0


# What an agent may call itself, a check, or write as a summary -> its cell. A spreadsheet with semicolons between cells
# takes what follows one for a cell of its own.
CELLS = {
    "=1+2": "'=1+2",
    "+1": "'+1",
    "-1": "'-1",
    "@SUM(A1)": "'@SUM(A1)",
    " =1": "' =1",
    "\n=1": "'\n'=1",
    "\t\t-1": "'\t\t'-1",
    "a\t \t@x": "a\t \t'@x",
    "a\n\t=1": "a\n\t'=1",
    '"=1': "'\"=1",
    'a;"=1+2;"': 'a;\'"=1+2;"',
    'a; "" -1': 'a;\' "" -1',
    "'=1": "'=1",
    "\ufe661": "'\ufe661",  # small = + - @
    "\ufe621": "'\ufe621",
    "\ufe631": "'\ufe631",
    "a;\ufe6b1": "a;'\ufe6b1",
    "\u22121": "'\u22121",  # the minus of mathematics
    "\tplain": "'\tplain",
    "\r=1": "\\r=1",  # an escape, as of all that isn't printable: no line end is left
    "\uff1d1": "'\uff1d1",  # full-width = + - @
    "\uff0b1": "'\uff0b1",
    "\uff0d1": "'\uff0d1",
    "\uff201": "'\uff201",
    "\xa0=1": "\\xa0=1",
    "\u3000=1": "\\u3000=1",
    "a;=cmd|' /C calc'!A0": "a;'=cmd|' /C calc'!A0",
    "a; b;\t@x;+": "a; b;\t'@x;'+",
    "a\n=1": "a\n'=1",
    "a\x1b[2Jb": "a\\x1b[2Jb",
    "\u202e=1": "\\u202e=1",
    "5 - 3 = 2; fine": "5 - 3 = 2; fine",
    "load is 3, -1 less": "load is 3, -1 less",
    "": "",
}


@pytest.mark.adversary(70)
@pytest.mark.parametrize(("text", "shown"), CELLS.items())
def test_cells_of_agents(text: str, shown: str) -> None:
    """A CSV cell of an agent's text begins no formula and has no control characters (F66)."""
    rendered = render(Report("t", ["check"], [{"check": text}]), "csv")
    assert list(csv.reader(io.StringIO(rendered)))[1:] == [[shown] if shown else [""]]


def test_maps_and_lists_are_text_of_agents_too() -> None:
    """Maps, lists and heads of columns in CSV are quoted as an agent's texts are."""
    nasty = "a;=cmd|' /C calc'!A0"
    row = {"m": {nasty: 1.0}, "l": [nasty, "\x1b[2J"], "t": (nasty,), "d": date(2026, 11, 29), "n": Decimal("-1.5")}
    rendered = render(Report("t", [*row, "=1"], [row]), "csv")
    heads, cells = csv.reader(io.StringIO(rendered))
    assert heads == ["m", "l", "t", "d", "n", "'=1"]
    quoted = "a;'=cmd|' /C calc'!A0"
    assert cells == [
        f'{{"{quoted}": 1.0}}', f'["{quoted}", "\\u001b[2J"]', f'["{quoted}"]', "2026-11-29", "-1.5", "",
    ]  # fmt: skip


def test_figures_are_no_formulas() -> None:
    """Numbers below zero are not quoted as formulas."""
    assert render(Report("t", ["a", "b"], [{"a": -1.5, "b": -2}]), "csv") == "a,b\n-1.5,-2\n"
