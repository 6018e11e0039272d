"""Tests groundwork.durations: one rule holds for all durations."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwork.durations import LONGEST, parse_duration, words_of, write_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        # each unit, with a space or without one
        ("250ms", 0.25), ("45s", 45.0), ("3m", 180.0), ("6h", 21_600.0), ("9d", 777_600.0),
        ("250 ms", 0.25), ("45 s", 45.0), ("3 m", 180.0), ("6 h", 21_600.0), ("9 d", 777_600.0),
        # without a unit: seconds
        ("90", 90.0), ("0", 0.0), ("0.5", 0.5), ("007", 7.0), (90, 90.0), (2.5, 2.5), (0, 0.0),
        # what floats alone would get wrong: 1.1 * 3600 is 3960.0000000000005
        ("1.1h", 3960.0), ("0.3m", 18.0), ("4.35 m", 261.0), ("2.3d", 198_720.0), ("1.001ms", 0.001001), ("3ms", 0.003),
        ("0.000000001s", 1e-9),
        # the bound
        ("1000000000", 1e9), ("11574d", 999_993_600.0), (LONGEST, 1e9), (1e9, 1e9),
    ],
)  # fmt: skip
def test_a_duration(value: object, seconds: float) -> None:
    """The parsed duration is exact, and always a float."""
    found = parse_duration(value)
    assert found == seconds
    assert type(found) is float


@pytest.mark.parametrize(
    "value",
    [
        "", " ", "s", ".5s", "5.s", ".", "1,5h", "-3s", "+3s", "1e3", "1e3s", "0x10", "1_000s", "inf", "nan", "NaNs",
        "3w", "3y", "3S", "3M", "3H", "3sec", "3 minutes", "µs", "3µs", "1h30m", "1h 30m", "1:30",
        "3  s", "3\ts", "3\u00a0s", " 3s", "3s ", "3s\n", "3\n", "1 000s", "1 000",
        "\u0663s", "\uff13s", "3\uff53", "\u00b2s", "3\x00s", b"3s", None, True, False, [], {}, 3j,
        "1000000001", "11575d", "1000000000001ms", "9" * 13, "9" * 1_000_000, "0.0000000001", 1e9 + 1, 10**400, -1,
        -0.1, math.inf, -math.inf, math.nan,
    ],
)  # fmt: skip
def test_no_duration(value: object) -> None:
    """A text that is no duration is refused with one short line."""
    with pytest.raises(ValueError, match="is not a duration: ") as caught:
        parse_duration(value)
    assert len(str(caught.value)) < 150
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (0.25, "0.25 s"), (9.5, "9.5 s"), (179, "179 s"), (180, "3 min"), (247.4, "4 min 7 s"),
        (3_599.9, "1 h"), (3_600, "1 h"), (5_400, "1 h 30 min"), (93_600, "26 h"), (172_799, "2 d"), (172_800, "2 d"),
        (273_600, "3 d 4 h"), (-93_600, "-26 h"),
    ],
)  # fmt: skip
def test_as_people_read_them(seconds: float, words: str) -> None:
    """A duration is told in two units at most, and none of them counts sixty."""
    assert words_of(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"), (0.25, "250ms"), (1.5, "1500ms"), (59.0, "59s"), (90.0, "90s"), (300.0, "5m"), (5_400.0, "90m"),
        (7_200.0, "2h"), (2_592_000.0, "30d"), (2_592_001.0, "2592001s"), (1e9, "1000000000s"),
    ],
)  # fmt: skip
def test_written_and_read_again(seconds: float, text: str) -> None:
    """A written duration is not rounded and has no exponent, however long it is."""
    assert write_duration(seconds) == text
    assert parse_duration(text) == seconds


@given(st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,9})?(ms|s|m|h|d)", fullmatch=True))
def test_as_exact_as_decimal(text: str) -> None:
    """The parsed value is the float nearest to the exact product; beyond the bound it is refused by any
    digit at all.
    """
    number, unit = text.rstrip("dhms"), text.lstrip("0123456789.")
    exact = Decimal(number) * Decimal({"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400"}[unit])
    if exact > LONGEST:
        with pytest.raises(ValueError, match="must be between"):
            parse_duration(text)
    else:
        assert parse_duration(text) == float(exact)
