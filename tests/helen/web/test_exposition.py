"""Tests the text format of metrics letter for letter, and counters and histograms."""

from __future__ import annotations

import pytest

from helen.telemetry import MOST_WORDS, Histogram, Words
from helen.web.figures.exposition import LINES_A_PIECE, Family, by_word, histogram, one, write


def test_the_older_format() -> None:
    """The older format names counters and infos with their endings, escapes text, and writes only the head of a
    missing value."""
    families = [
        Family("helen_build", "info", "Version.", [("", {"version": '1 "a"\n\\'}, 1)]),
        by_word("helen_results", "counter", "Results\nof all.", "status", {"ok": 3, "critical": 0.5}),
        one("helen_version", "gauge", "None yet.", None),
    ]
    assert "".join(write(families)).splitlines() == [
        "# HELP helen_build_info Version.",
        "# TYPE helen_build_info gauge",
        r'helen_build_info{version="1 \"a\"\n\\"} 1',
        r"# HELP helen_results_total Results\nof all.",
        "# TYPE helen_results_total counter",
        'helen_results_total{status="ok"} 3',
        'helen_results_total{status="critical"} 0.5',
        "# HELP helen_version None yet.",
        "# TYPE helen_version gauge",
    ]


def test_open_metrics() -> None:
    """OpenMetrics names families without the ending of counters, and has an end mark."""
    families = [one("helen_results", "counter", "All.", 3), Family("helen_build", "info", "V.", [("", {}, 1)])]
    assert "".join(write(families, is_open=True)).splitlines() == [
        "# HELP helen_results All.", "# TYPE helen_results counter", "helen_results_total 3",
        "# HELP helen_build V.", "# TYPE helen_build info", "helen_build_info 1", "# EOF",
    ]  # fmt: skip


def test_a_histogram() -> None:
    """A histogram's bucket counts the values up to its bound, and the last one all."""
    figures = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 2.0):
        figures.observe(value)
    assert "".join(write([histogram("x_seconds", "X.", figures)])).splitlines() == [
        "# HELP x_seconds X.", "# TYPE x_seconds histogram", 'x_seconds_bucket{le="0.1"} 2',
        'x_seconds_bucket{le="1"} 3', 'x_seconds_bucket{le="+Inf"} 4', "x_seconds_sum 2.65", "x_seconds_count 4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "1"), (0, "0"), (3.0, "3"), (1764284400.125, "1764284400.125"), (1e300, "1e+300"), (-0.25, "-0.25")],
)
def test_numbers(value: float, text: str) -> None:
    """Whole numbers are written without a point."""
    assert "".join(write([one("x", "gauge", "X.", value)])).split()[-1] == text


def test_a_long_page_comes_in_pieces() -> None:
    """A long page comes in pieces of LINES_A_PIECE lines."""
    family = Family("x", "gauge", "X.", [("", {"n": str(n)}, n) for n in range(3 * LINES_A_PIECE)])
    pieces = list(write([family]))
    assert len(pieces) == 4
    assert max(piece.count("\n") for piece in pieces) <= LINES_A_PIECE + 2


def test_words_are_bounded() -> None:
    """A word that comes when the vocabulary is full counts as `other`, and known words go on."""
    words = Words()
    for number in range(MOST_WORDS + 5):
        words.count(f"w{number}")
    words.count("w0")
    assert len(words) == MOST_WORDS + 1
    assert (words["w0"], words["other"]) == (2, 5)
