"""Write measured values as people read them, by their unit: `22.5 GiB`, `93.1 %`, `12.3 ms`, `26 h`, `1234`.

These are for tables, reports and sentences. JSON and CSV have the exact values. A greater value is never shown as a
smaller one, and no digit is shown that the value doesn't have.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import TypeGuard

from groundwork.durations import LONGEST, words_of

BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
MOST_DECIMALS = 4  # of a share in per cent: one that is nearer to 100 than that is 100
DIGITS = 4  # of a number that is not whole
_EXACT = 1e15  # whole numbers below are shown to the last digit; a float of that size has no more than these
_LIMITS_MOST = 128  # characters of a range: a longer text is none, and costs time for each colon
_TINY = 1e-4  # below, a number has so many zeros that an exponent is read more easily


def is_double(value: object) -> TypeGuard[float]:
    """Return True if a value of JSON or TOML is a number that a double holds: no NaN, no infinity, no int beyond.

    math.isfinite raises OverflowError for such an int, and both formats have them.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def figure(value: float | None, unit: str = "") -> str:
    """Return a value with its unit, such as `22.5 GiB` for bytes; nothing for None.

    Units are those of metrics: `B`, `B/s`, `KiB`, `%`, `s`, `ms`, `1/s`, `c` (a counter, which has no unit of its own),
    and names of things, which stay as they are.
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return " ".join(part for part in (f"{value:g}", "" if unit == "c" else unit) if part)
    written = _BY_UNIT.get(unit)
    if written is not None:
        return written(value)
    number = _number(value)
    return f"{number} {unit}" if unit else number


def limits(text: str | None, unit: str = "") -> str:
    """Return the range of a threshold such as `~:24696061952` with its numbers as `figure` has them: `~:23 GiB`.

    Limits in a unit that `figure` doesn't change, parts that are no number, and texts too long for a range stay as the
    check has them.
    """
    if not text or unit not in _SCALED or len(text) > _LIMITS_MOST:
        return text or ""
    inside = "@" if text.startswith("@") else ""
    parts = text[len(inside) :].split(":")
    return inside + ":".join(_limit(part, unit) for part in parts)


def _limit(part: str, unit: str) -> str:
    try:
        return figure(float(part), unit)
    except ValueError:
        return part


def _number(value: float) -> str:
    """Return a whole number as it is, any other with DIGITS digits, of which none before the point is left out."""
    if isinstance(value, int):
        return str(value)
    if abs(value) >= _EXACT or 0 < abs(value) < _TINY:
        return f"{value:.{DIGITS}g}"
    if float(value).is_integer():
        return _trimmed(value, 0)
    return _trimmed(value, max(0, DIGITS - 1 - math.floor(math.log10(abs(value)))))


def _trimmed(value: float, decimals: int) -> str:
    """Return a value with so many decimals, without zeros at their end, and without a sign if nothing is left."""
    text = f"{value:.{decimals}f}"
    shown = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if shown == "-0" else shown


def _three_digits(value: float) -> str:
    """Return a value with three digits, or with all those before the point."""
    size = abs(value)
    return _trimmed(value, 2 if size < 9.995 else 1 if size < 99.95 else 0)


def _bytes(value: float) -> str:
    unit = 0
    while unit < len(BYTES) - 1 and abs(float(_three_digits(value))) >= 1024:
        value, unit = value / 1024, unit + 1
    if abs(value) >= _EXACT:
        return f"{value:.{DIGITS}g} {BYTES[unit]}"
    return f"{_three_digits(value) if unit else _trimmed(value, 0)} {BYTES[unit]}"


def _percent(value: float) -> str:
    """Return a share with one decimal, and with more near 0 and 100: 99.987 % is neither 100 % nor 99.9 %."""
    near = min(abs(value), abs(100 - value))
    decimals = MOST_DECIMALS if near < 0.01 else max(1, 1 - math.floor(math.log10(near)))
    return f"{_number(value) if near >= _EXACT else _trimmed(value, decimals)} %"


def _seconds(value: float) -> str:
    size = abs(value)
    if size >= LONGEST:
        return f"{value / 86_400:.{DIGITS}g} d"
    if size >= 180:
        return words_of(value)
    scale, unit = _PARTS[0] if size == 0 else next((each for each in _PARTS if size * each[0] >= 0.9995), _PARTS[-1])
    return f"{_three_digits(value * scale)} {unit}"


_PARTS = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))
_SCALED = frozenset(("B", "B/s", "KiB", "s", "ms"))
_BY_UNIT: Mapping[str, Callable[[float], str]] = {
    "B": _bytes, "B/s": lambda value: f"{_bytes(value)}/s", "KiB": lambda value: _bytes(value * 1024),
    "%": _percent, "s": _seconds, "ms": lambda value: _seconds(value / 1_000), "c": _number,
    "1/s": lambda value: f"{_number(value)}/s",
}  # fmt: skip
