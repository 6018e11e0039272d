"""Read thresholds in the Nagios range syntax: `10`, `10:`, `~:10`, `10:20`, and `@10:20` for the inside."""

from __future__ import annotations

import math
import re

from attrs import frozen

MAX_RANGE = 128  # characters: two numbers with all the digits that a float has take half of that

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_RANGE = re.compile(rf"(@?)(?:(~|{_NUMBER})?(:))?({_NUMBER})?")


@frozen
class Range:
    """Hold a range from `start` to `end`, both included. Values outside alert, or values inside if `inside` is set."""

    start: float
    end: float
    inside: bool = False

    @classmethod
    def parse(cls, text: str) -> Range:
        """Read a range; raises ValueError, with a sentence for its author, if the text is none."""
        match = _RANGE.fullmatch(text.strip()) if len(text) <= MAX_RANGE else None
        if match is None or not (match[2] or match[4]):
            raise ValueError(f"{text[:MAX_RANGE]!r} is no range: write 10, 10:, ~:10, 10:20 or @10:20")
        at, low, _, high = match.groups()
        for number in (low, high):
            if number and number != "~" and math.isinf(float(number)):
                raise ValueError(
                    f"{text!r} is no range: {number} is beyond what can be counted; write ~: or leave it out"
                )
        start = float("-inf") if low == "~" else float(low or 0)
        end = float(high) if high else float("inf")
        if start > end:
            raise ValueError(f"{text!r} is no range: it ends below its start")
        return cls(start, end, bool(at))

    def alerts(self, value: float) -> bool:
        """Return True if the value alerts. NaN is in no range, so it is outside of each."""
        return (self.start <= value <= self.end) is self.inside
