"""Durations as people write them: `30`, `30s`, `5m`, `1h`, `2d`, `500ms`."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|)")


def seconds(text: str | int | float) -> float:
    """The seconds of a duration; raises ValueError with a sentence for the one who wrote it."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        if not 0 <= text < 1e9:
            raise ValueError(f"{text!r} is no duration: 0 to a billion seconds")
        return float(text)
    match = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 500ms, 30s, 5m, 1h or 2d")
    return float(match[1]) * _UNITS[match[2]]
