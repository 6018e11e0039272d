"""Reports in each format, with names that an attacker would choose."""

from __future__ import annotations

import json

import pytest

from helen.pipeline.errors import PipelineError
from helen.pipeline.reports import added_up, budget_left, flapped
from helen.pipeline.shown import Report, bars, line, render

NASTY = "=cmd|'<script>\x1b[2J"
REPORT = Report(
    "A <b>", ["check", "percent", "why"],
    [{"check": "web1/disk", "percent": 99.5, "why": {"stale": 60.0}}, {"check": NASTY, "percent": None, "why": {}}],
    ["A note & more."], lambda row: bars([("ok", 3, "red"), ("bad", 1, "blue")]),
)  # fmt: skip


def test_text_is_a_table() -> None:
    """Numbers to the right, and nothing that moves the cursor."""
    assert render(REPORT, "text").splitlines() == [
        "check                  percent  why",
        "web1/disk                 99.5  stale 60",
        "=cmd|'<script>\\x1b[2J",
        "A note & more.",
    ]


def test_json_has_everything() -> None:
    """Whole values, and the notes."""
    document = json.loads(render(REPORT, "json"))
    assert document == {"title": "A <b>", "rows": [dict(row) for row in REPORT.rows], "notes": ["A note & more."]}


def test_csv_is_no_program() -> None:
    """What a spreadsheet would compute is quoted."""
    assert render(REPORT, "csv") == (
        'check,percent,why\nweb1/disk,99.5,"{""stale"": 60.0}"\n\'=cmd|\'<script>\x1b[2J,,{}\n'
    )


def test_html_needs_nothing_else() -> None:
    """One page, no script, no link to anywhere, names escaped, a plot in each row."""
    page = render(REPORT, "html")
    assert "<script" not in page
    assert "http" not in page
    assert "&lt;script&gt;" in page
    assert "<h1>A &lt;b&gt;</h1><p>A note &amp; more.</p>" in page
    assert page.count('<rect x="0.00" width="180.00"') == 2


def test_lines_and_wrong_formats() -> None:
    """A curve fits its box; a format that isn't there is named with those that are."""
    assert 'points="0.0,39.0 120.0,1.0 240.0,39.0"' in line([1.0, 5.0, 1.0])
    assert line([1.0]) == ""
    with pytest.raises(PipelineError, match="no format 'xml': text, json, csv, html"):
        render(REPORT, "xml")


def test_flapping_is_cut_to_the_days() -> None:
    """What began before counts from the first moment, what hasn't ended until the last; an end alone is nothing."""

    def told(series: int, at: float, on: bool, percent: float = 0.0) -> dict[str, object]:
        return {"series": series, "at": round(at * 1e6), "document": json.dumps({"on": on, "percent": percent})}

    changes = [told(1, 50, True, 40.0), told(2, 60, False), told(1, 120, False, 10.0), told(3, 150, True, 35.5),
               told(1, 180, True, 61.0), told(1, 190, False)]  # fmt: skip
    assert flapped(changes, 100_000_000, 200_000_000) == {
        1: {"times": 2, "seconds": 30.0, "worst_percent": 61.0, "percent_of_time": 30.0},
        3: {"times": 1, "seconds": 50.0, "worst_percent": 35.5, "percent_of_time": 50.0},
    }


def test_days_are_added_and_divided_once() -> None:
    """Per cents are never averaged; the budget is what may still be bad."""
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
