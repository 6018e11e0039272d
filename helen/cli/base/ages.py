"""Write times as people read them: the age of a moment, the interval of a check."""

from __future__ import annotations


def ago(now: float, moment: float | None) -> str:
    """Return the time since `moment` in one unit, such as `5m`; both times are unix seconds.

    The unit is the largest of which there are two, in what is written: 7,199.9 s are `2h` and not `120m`.
    """
    if moment is None:
        return "?"
    lasting = max(0.0, now - moment)
    for size, unit, smaller in ((86_400, "d", 3_600), (3_600, "h", 60), (60, "m", 1)):
        if round(lasting / smaller) * smaller >= 2 * size:
            return f"{lasting / size:.0f}{unit}"
    return f"{lasting:.0f}s"


def every(interval: float | None) -> str:
    """Return an interval in seconds as a check's table has it, such as `5m`; empty for None."""
    if interval is None:
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if interval >= size and interval % size == 0:
            return f"{interval // size:g}{unit}"
    return f"{interval:.12g}s"
