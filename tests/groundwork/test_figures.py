"""Tests values as people read them: by a table, and by what holds for all of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundwork.figures import figure, is_double, limits

SHOWN: list[tuple[float | None, str, str]] = [
    (24_151_139_669.3333, "B", "22.5 GiB"), (0, "B", "0 B"), (1, "B", "1 B"), (512.4, "B", "512 B"),
    (1_023.4 * 1024, "B", "1023 KiB"), (1_023.96 * 1024, "B", "1 MiB"), (1536, "B", "1.5 KiB"),
    (-1536, "B", "-1.5 KiB"), (7.25 * 2**40, "B", "7.25 TiB"), (131_072, "KiB", "128 MiB"),
    (3_000, "B/s", "2.93 KiB/s"),
    (93.14159, "%", "93.1 %"), (5, "%", "5 %"), (99.987, "%", "99.987 %"), (99.95, "%", "99.95 %"),
    (99.99999999, "%", "100 %"), (0.0123, "%", "0.012 %"), (-0.0, "%", "0 %"), (250.04, "%", "250 %"),
    (0, "s", "0 s"), (0.000_123_45, "s", "123 µs"), (0.0451, "s", "45.1 ms"), (1.5, "s", "1.5 s"),
    (93_600, "s", "26 h"),
    (12.3456, "ms", "12.3 ms"), (1500, "ms", "1.5 s"), (274_000, "ms", "4 min 34 s"), (2e9, "s", "2.315e+04 d"),
    (1_234.5678, "", "1235"), (123_456_789, "", "123456789"), (0.333333333, "load", "0.3333 load"),
    (3.0, "agents", "3 agents"), (1e-9, "", "1e-09"), (1e18, "", "1e+18"),
    (1_764_284_400_125_000_123, "", "1764284400125000123"), (17, "c", "17"), (12.5, "1/s", "12.5/s"),
    (float("inf"), "B", "inf B"), (float("nan"), "c", "nan"), (None, "B", ""),
]  # fmt: skip


@pytest.mark.parametrize(("value", "unit", "text"), SHOWN)
def test_a_table_of_cases(value: float | None, unit: str, text: str) -> None:
    """Bytes go by 1024, shares are fine enough near 100, times have the unit that fits, and whole numbers are whole
    (J16).
    """
    assert figure(value, unit) == text


@pytest.mark.parametrize(
    ("text", "unit", "shown"),
    [("90", "%", "90"), ("0.50", "load", "0.50"), ("~:24696061952", "B", "~:23 GiB"), ("@10:20", "", "@10:20"),
     ("1073741824:", "B", "1 GiB:"), ("0.5:2", "s", "500 ms:2 s"), ("no range", "B", "no range"), ("", "B", ""),
     (None, "B", "")],
)  # fmt: skip
def test_limits_have_the_figures_of_their_metric(text: str | None, unit: str, shown: str) -> None:
    """A threshold stands beside a value, so both are in the same unit."""
    assert limits(text, unit) == shown


@pytest.mark.parametrize(("zeros", "shown"), [(127, "1 GiB"), (128, None)])
def test_a_text_too_long_for_a_range_is_left_as_it_is(zeros: int, shown: str | None) -> None:
    """A check may send a mebibyte as its limit, and each colon of it would be a number to read."""
    text = "1073741824".rjust(zeros + 1, "0")
    assert limits(text, "B") == (text if shown is None else shown)


# ---------------------------------------------------------------------------------------------- for all values

UNITS = ("", "B", "B/s", "KiB", "%", "s", "ms", "1/s", "load")
SIZES = {"B": 1, "KiB": 1024, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60,
         "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "min": 60, "h": 3_600, "d": 86_400}  # fmt: skip
OF_ONE = {"KiB": 1024, "ms": 1e-3}  # what a value of this unit is counted in
values = st.floats(-1e17, 1e17) | st.floats(-1e4, 1e4) | st.integers(-(10**12), 10**12).map(float)


def read(text: str, unit: str) -> float:
    """Read a figure back, in the unit of its metric."""
    found = re.findall(r"(-?[0-9.]+(?:e[+-]?[0-9]+)?) ?([a-zA-Zµ]*)", text)
    sign = -1 if text.startswith("-") else 1
    known = unit in ("B", "B/s", "KiB", "s", "ms")
    return (
        sign * sum(abs(float(number)) * (SIZES[name] if known else 1) for number, name in found) / OF_ONE.get(unit, 1)
    )


def end_of_words(value: float, unit: str) -> float:
    """Return half of the smaller unit of a long duration in the metric's unit: half of a minute, or half of an hour."""
    seconds = abs(value) * OF_ONE.get(unit, 1)
    half = 1_800 if seconds >= 172_770 else 30 if seconds >= 3_599 else 0.5
    return half * 1.01 / OF_ONE.get(unit, 1) if unit in ("s", "ms") and seconds >= 179 else 0.0


@given(values, st.sampled_from(UNITS))
@example(285_858.0, "s")
@example(3_629.0, "s")
@example(172_799_999.0, "ms")
def test_a_figure_is_its_value_within_rounding(value: float, unit: str) -> None:
    """Three digits are good for half a percent; a byte, a share, and a duration in words have an end of their own."""
    text = figure(value, unit)
    if unit in ("1/s", "B/s"):
        text = text.removesuffix("/s")
    ends = {"B": 0.51, "B/s": 0.51, "KiB": 0.51 / 1024, "s": 1e-9, "ms": 1e-6, "%": 0.051}
    end = max(ends.get(unit, 0.0), end_of_words(value, unit))
    assert read(text, unit) == pytest.approx(value, rel=0.0051, abs=end)


@given(values, values, st.sampled_from(UNITS))
def test_a_greater_value_is_never_shown_as_a_smaller_one(one: float, other: float, unit: str) -> None:
    """A greater value is not shown as a smaller one across units: 1023 KiB is followed by 1 MiB, 179 s by 3 min."""
    low, high = sorted((one, other))
    first, second = (read(figure(value, unit).removesuffix("/s"), unit) for value in (low, high))
    assert first <= second or first == pytest.approx(second, rel=1e-12)


@given(st.floats(0.001, 1e6), st.sampled_from(UNITS), st.floats(-1e-4, 1e-4))
def test_neighbours_keep_their_order(value: float, unit: str, nearly: float) -> None:
    """A larger value is never shown as a smaller one, also where the number of digits or the unit changes."""
    low, high = sorted((value, value * (1 + nearly)))
    first, second = (read(figure(each, unit).removesuffix("/s"), unit) for each in (low, high))
    assert first <= second or first == pytest.approx(second, rel=1e-12)


@given(st.integers(0, 10**15 - 1), st.sampled_from(["", "c", "agents"]))
def test_a_whole_number_is_whole(value: int, unit: str) -> None:
    """No digit of a count is left out, and none is added."""
    assert figure(float(value), unit).split()[0] == str(value)


@given(st.integers(-9999, 9999), st.integers(0, 3), st.sampled_from(["", "load", "%"]))
def test_no_digit_is_added(digits: int, decimals: int, unit: str) -> None:
    """A value such as 2.5 is neither 2.50 nor 2.500."""
    value = digits / 10**decimals
    shown = figure(value, unit).split()[0]
    assert len(shown.partition(".")[2]) <= len(f"{value}".partition(".")[2])
    assert not (shown.partition(".")[1] and shown.endswith("0"))


@pytest.mark.parametrize(
    ("value", "is_one"),
    [(0, True), (-1.5, True), (2**63, True), (10**308, True), (10**309, False), (-(10**400), False), (1e308, True),
     (float("inf"), False), (float("nan"), False), (True, False), ("1", False), (None, False), ([], False)],
)  # fmt: skip
def test_numbers_that_a_double_holds(value: object, is_one: bool) -> None:
    """JSON has integers of any length, and each reader of a number has to say something of them."""
    assert is_double(value) is is_one
