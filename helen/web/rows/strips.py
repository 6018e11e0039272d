"""Keeps a strip of each check: the worst status of each quarter of an hour of the last twelve hours.

They are for the eye, not for reports: of a busy fleet, helen/web/past/recalled_strips.py reads the newest of those
hours alone when Helen starts. A time of which nothing is known has no status.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from helen.web.rows.row import Key

QUARTERS, QUARTER = 48, 900.0  # of a strip, and the seconds of one
NOTHING = 4  # the status of a quarter of which nothing is known
BAD = (1, 3, 2)  # statuses that are not ok, the worst last
MOST_CHANGES = 200  # kept of one check; a check that flaps has no longer strip


class Strips:
    """Holds the changes of status of all checks in the last twelve hours, and makes strips of them.

    `since` is from when on all changes are known, unix seconds; before that, only the status that lasted until then is.
    """

    def __init__(self, since: float = 0.0) -> None:
        self.since = since
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

    def recall(self, key: Key, past: Sequence[tuple[float, int]]) -> None:
        """Put changes older than all known ones of a check in front of them: since when, unix seconds, which status.

        `past` is in order of time; NOTHING is the status of a time that no result tells of. A check of which nothing
        is known is gone, and stays so.
        """
        changes = self._changes.get(key)
        if not changes:
            return
        self._made.pop(key, None)
        room, oldest = MOST_CHANGES - len(changes), changes[0][0]
        older = [change for change in past if change[0] < oldest]
        changes.extendleft(reversed(older[max(0, len(older) - room) :]))

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
