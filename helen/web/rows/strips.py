"""Keeps a strip of each check: the worst status of each quarter of an hour of the last twelve hours.

They are for the eye, not for reports: after a start of Helen they begin anew, and what is not known is no status.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from helen.web.rows.row import Key

QUARTERS, QUARTER = 48, 900.0  # of a strip, and the seconds of one
NOTHING = 4  # the status of a quarter of which nothing is known
BAD = (1, 3, 2)  # statuses that are not ok, the worst last
MOST_CHANGES = 200  # kept of one check; a check that flaps has no longer strip


class Strips:
    """Holds the changes of status of all checks in the last twelve hours, and makes strips of them."""

    def __init__(self) -> None:
        self._changes: dict[Key, deque[tuple[float, int]]] = {}
        self._made: dict[Key, tuple[float, float, str]] = {}  # strips, and from when until when they are true

    def note(self, key: Key, status: int, since: float, is_known: bool) -> None:
        """Note that a check has a status since then, unix seconds. `is_known`: it comes from a result.

        A change that says it is older than the one before it, which was noted already, begins with that one.
        """
        self._made.pop(key, None)
        changes = self._changes.setdefault(key, deque(maxlen=MOST_CHANGES))
        limit = since - QUARTERS * QUARTER
        while len(changes) > 1 and changes[1][0] <= limit:
            changes.popleft()
        changes.append((max(since, changes[-1][0]) if changes else since, status if is_known else NOTHING))

    def forget(self, key: Key) -> None:
        """Forget a check that is gone."""
        self._changes.pop(key, None)
        self._made.pop(key, None)

    def strip(self, key: Key, now: float) -> str:
        """Return 48 digits, the oldest quarter first: 0 ok to 3 unknown, 4 for nothing known. `now`: unix seconds.

        A quarter that was ok for less time than nothing was known is one of which nothing is known.
        """
        since, until, made = self._made.get(key, (0.0, 0.0, ""))
        if not since <= now < until:
            until, made = self._make(key, now)
            self._made[key] = now, until, made
        return made

    def _make(self, key: Key, now: float) -> tuple[float, str]:
        """Return a strip, and until when it stays true, unless a change is noted.

        Only quarters in which something changed are added up: a check that never changes costs some microseconds.
        """
        first = (now // QUARTER - QUARTERS + 1) * QUARTER
        digits = [str(NOTHING)] * QUARTERS
        edges: dict[int, list[float]] = {}
        for (begin, status), (end, _) in pairwise([*self._changes.get(key, ()), (now, NOTHING)]):
            if end <= first:
                continue
            low = max(0, int((begin - first) // QUARTER))
            high = min(QUARTERS - 1, int((end - first) // QUARTER))
            for quarter in {low, high} if low <= high else ():
                opens = first + quarter * QUARTER
                lasted = max(1e-9, min(end, opens + QUARTER) - max(begin, opens))
                edges.setdefault(quarter, [0.0] * (NOTHING + 1))[status] += lasted
            if high - low > 1:
                digits[low + 1 : high] = str(status) * (high - low - 1)
        for quarter, by_status in edges.items():
            digits[quarter] = _digit(by_status)
        ends = first + QUARTERS * QUARTER
        if digits[-1] in "04":  # which takes over from the other when it has lasted for longer
            newest = edges.get(QUARTERS - 1, [0.0] * (NOTHING + 1))
            ends = min(ends, now + abs(newest[NOTHING] - newest[0]))
        return ends, "".join(digits)


def _digit(lasted: list[float]) -> str:
    """Return the digit of a quarter, of which each status lasted so many seconds."""
    bad = max((status for status in BAD if lasted[status]), key=BAD.index, default=None)
    if bad is not None:
        return str(bad)
    return "0" if lasted[0] > lasted[NOTHING] else str(NOTHING)
