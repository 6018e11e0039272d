"""Test ranges of thresholds: the table of the Nagios plugin guidelines, and texts that are no range."""

from __future__ import annotations

import math

import pytest

from equus_protocol.ranges import MAX_RANGE, Range

NAGIOS = {  # range: (values that alert, values that don't)
    "10": ([-0.1, 10.1, -1, 11], [0, 5, 10]),
    "10:": ([9.9, 0, -10], [10, 11, math.inf]),
    "~:10": ([10.1, 11, math.inf], [10, 0, -1e9, -math.inf]),
    "10:20": ([9.9, 20.1], [10, 15, 20]),
    "@10:20": ([10, 15, 20], [9.9, 20.1]),
    "0": ([-1, 1], [0]),
    ":10": ([-1, 11], [0, 10]),
    "-10:-5": ([-11, -4], [-10, -7, -5]),
    "~:": ([math.nan], [-math.inf, 0, math.inf]),
    "@5": ([0, 3, 5], [-1, 6]),
    "1.5:2.5": ([1.4, 2.6], [1.5, 2.5]),
    ".5:1e3": ([0.4, 1001], [0.5, 1000]),
    "+1:+2": ([0, 3], [1, 2]),
    " 10 ": ([11], [10]),
    "10:10": ([9, 11], [10]),
}


@pytest.mark.parametrize("text", NAGIOS)
def test_alerts(text: str) -> None:
    """A value outside of a range alerts, or inside with `@`; both ends belong to the range, and NaN is outside."""
    alerting, quiet = NAGIOS[text]
    found = Range.parse(text)
    assert [found.alerts(value) for value in (*alerting, math.nan)] == [True] * len(alerting) + [not found.inside]
    assert [found.alerts(value) for value in quiet] == [False] * len(quiet)


@pytest.mark.parametrize("text", [
    "", " ", ":", "@", "@:", "~", "@~", "20:10", "-5", "10:20:30", "ten", "10..20", "1e", "0x10", "1_0", "10 20", "--1",
    "~:~", "10:~", "nan", "inf", "1e999", "-1e999:5", "\u0661", "10\n20", "1" * (MAX_RANGE + 1), "1" * 10_000_000,
])  # fmt: skip
def test_what_is_no_range(text: str) -> None:
    """A text that is no range raises ValueError with a sentence that says how to write one, also for ten million
    digits.
    """
    with pytest.raises(ValueError, match="is no range"):
        Range.parse(text)


def test_what_is_read() -> None:
    """Each form of a range gives its lower end, its upper end and its direction."""
    assert Range.parse("10") == Range(0.0, 10.0)
    assert Range.parse("10:") == Range(10.0, math.inf)
    assert Range.parse("~:10") == Range(-math.inf, 10.0)
    assert Range.parse("@10:20") == Range(10.0, 20.0, inside=True)
