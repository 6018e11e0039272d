"""Durations as people write them in checks and policies: a number and a unit. Pure."""

from __future__ import annotations

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")


def parse_duration(text: object) -> float:
    """Seconds of "500ms", "10s", "1.5h" ... Raises ValueError with a sentence."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f'{text!r} is not a duration: a number with ms, s, m, h or d, such as "10s"')
    return float(found[1]) * _SECONDS[found[2]]
