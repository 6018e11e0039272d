"""Reads the parameters of questions as Prometheus' API has them: times, durations, and the steps between. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import frozen

from helen.promql.errors import MOST_STEPS, BadData
from helen.promql.evaluate import LOOKBACK

Millis = int
LATEST = 253_402_300_799  # the last second of the year 9999, unix seconds
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:e[+-]?[0-9]{1,2})?", re.IGNORECASE)
_PART = re.compile(r"([0-9]{1,12})(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 365 * 86_400}


@frozen
class Parameters:
    """Holds the values of each parameter of one question; `now` is in milliseconds since 1970."""

    given: Mapping[str, Sequence[str]]
    now: Millis

    def text(self, name: str) -> str | None:
        """Return the first value of a parameter; None if it is not given, or empty."""
        return next(iter(self.given.get(name, ())), "") or None

    def texts(self, name: str) -> Sequence[str]:
        """Return all values of a parameter."""
        return self.given.get(name, ())

    def time(self, name: str, default: Millis | None = None) -> Millis:
        """Return a moment: unix seconds, or a date as RFC 3339 has it. Raises BadData."""
        text = self.text(name)
        if text is None:
            if default is None:
                raise BadData(f"`{name}` is missing: unix seconds, or a date such as 2026-11-29T12:00:00Z")
            return default
        try:
            seconds = float(text) if _NUMBER.fullmatch(text) else _date(text)
        except ValueError as error:
            raise BadData(f"`{name}` is unix seconds, or a date such as 2026-11-29T12:00:00Z") from error
        if not 0 <= seconds <= LATEST:
            raise BadData(f"`{name}` is a time from 1970 to 9999")
        return round(seconds * 1000)

    def duration(self, name: str, default: Millis | None = None) -> Millis:
        """Return a length of time: seconds, or such as 5m. Raises BadData."""
        text = self.text(name)
        if text is None:
            if default is None:
                raise BadData(f"`{name}` is missing: seconds, or a duration such as 5m")
            return default
        parts = _PART.findall(text) if re.fullmatch(f"(?:{_PART.pattern})+", text) else []
        if not parts and not _NUMBER.fullmatch(text):
            raise BadData(f"`{name}` is seconds, or a duration such as 5m")
        seconds = sum(float(count) * _SECONDS[unit] for count, unit in parts) if parts else float(text)
        if not math.isfinite(seconds) or not 0.001 <= seconds <= LATEST:
            raise BadData(f"`{name}` is a duration of a millisecond or more")
        return round(seconds * 1000)

    def steps(self) -> range:
        """Return the steps of a range, milliseconds. Raises BadData for none, and for more than an answer has."""
        begin, end, step = self.time("start"), self.time("end"), self.duration("step")
        if end < begin:
            raise BadData("`end` is before `start`")
        if (end - begin) // step > MOST_STEPS:
            raise BadData(f"exceeded maximum resolution of {MOST_STEPS} points per timeseries: use a longer `step`")
        return range(begin, end + 1, step)

    def lookback(self) -> Millis:
        """Return for how long a sample counts. Raises BadData."""
        return self.duration("lookback_delta", LOOKBACK)

    def limit(self) -> int | None:
        """Return how many items a list has at most; None for no limit. Raises BadData."""
        text = self.text("limit")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise BadData("`limit` is a number, 0 for no limit")
        return int(text) or None


def _date(text: str) -> float:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("a date without a zone")
    return found.timestamp()
