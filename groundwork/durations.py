"""Read and write durations as people write them: `500ms`, `30s`, `5m`, `1.5h`, `2d`, or `30` for seconds.

This is the only rule for durations in the product: settings, files, check tables, HTTP bodies and commands all use it.
It stands in docs/checks.rst. A duration is a decimal number and a unit, with one space between them or none. Without a
unit it is seconds. Zero is a duration; a sign, an exponent, `_` between digits and a second unit are not accepted.
"""

from __future__ import annotations

import re

LONGEST = 1_000_000_000  # seconds, 31 years: any longer one is a slip of the pen
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}  # milliseconds
# Bounded, so that nothing is computed with a megabyte of digits; [0-9] and not \d, which takes other scripts' digits.
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(?: ?(ms|s|m|h|d))?")


def words_of(seconds: float) -> str:
    """Return a duration as people read it: `160 s`, `10 min`, `26 h`, `3 d 4 h`; two units at most.

    Below three minutes it is in seconds, and below two days in hours.
    """
    sign, size = ("-" if seconds < 0 else ""), abs(seconds)
    if size < 180:
        return f"{sign}{size:.3g} s"
    if round(size) < 3_600:
        parts = divmod(round(size), 60), ("min", "s")
    elif round(size / 60) < 2_880:
        parts = divmod(round(size / 60), 60), ("h", "min")
    else:
        parts = divmod(round(size / 3_600), 24), ("d", "h")
    (whole, rest), (unit, smaller) = parts
    return f"{sign}{whole} {unit}" + (f" {rest} {smaller}" if rest else "")


def write_duration(seconds: float) -> str:
    """Write a duration as `parse_duration` reads it, in the greatest unit that it is a whole number of.

    It has neither point nor exponent, so that Prometheus and its kin read it, too. Milliseconds are the smallest unit.
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{round(seconds * 1000)}ms" if seconds % 1 else f"{int(seconds)}s"


def parse_duration(value: object) -> float:
    """Return a duration in seconds; `value` is text, or a number of seconds as TOML, JSON and Lua have them.

    Raises ValueError with a sentence for the author of the text. The product is exact before it becomes a float, so
    that `1.1h` is 3960.0; it is made of whole numbers, since decimal is a module that each worker would be copied with.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found, scale = value, 1
    else:
        match = _DURATION.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"{value!r:.60} is not a duration: write 500ms, 30s, 5m, 1h or 2d")
        whole, _, fraction = match[1].partition(".")
        found, scale = int(whole + fraction) * UNITS[match[2] or "s"], 1_000 * 10 ** len(fraction)
    if not 0 <= found <= LONGEST * scale:  # also refuses not-a-number
        raise ValueError(f"{value!r:.60} is not a duration: it must be between 0 and {LONGEST} seconds")
    return found / scale
