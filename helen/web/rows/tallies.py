"""Counts rows by their status for callers that see some agents, as rows come, change and go. Pure.

A page and each frame of a stream tell these counts. To ask for each agent of a fleet whether it is seen took 30 ms for
10,000 of them, four times a second for each such stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from equus_protocol.results import STATUS_WORDS
from helen.agents.sight import Sight
from helen.web.rows.row import Key, Row

ROWS_A_STEP = 50  # that a step of building looks at
UNUSED_SECONDS = 600.0  # after which counts are kept no more
MOST_TALLIES = 100  # of the limits that tokens have; the one that was not asked for the longest goes


class Tally:
    """Holds the counts of one limit; they are whole after `build` has been run to the end.

    A row is judged by the labels that it shows.
    """

    def __init__(self, sight: Sight) -> None:
        self.counts = dict.fromkeys(STATUS_WORDS, 0)
        self.is_whole = False
        self.used_at = 0.0  # monotonic seconds
        self._sight = sight
        self._seen: dict[Key, str] = {}  # rows that are counted, and with which status

    def build(self, rows: Mapping[Key, Row]) -> Iterator[None]:
        """Count all rows, some a step. Rows may change between two steps."""
        for number, key in enumerate(list(rows), 1):
            self.renew(key, rows.get(key))
            if number % ROWS_A_STEP == 0:
                yield
        self.is_whole = True

    def renew(self, key: Key, row: Row | None) -> None:
        """Count a row as it is now; None: it is there no more."""
        before = self._seen.pop(key, None)
        if before is not None:
            self.counts[before] -= 1
        if row is not None and self._sight.fits(row.agent, row.labels):
            self._seen[key] = row.status
            self.counts[row.status] += 1


class Tallies:
    """Holds the counts of all limits that were asked for."""

    def __init__(self) -> None:
        self._tallies: dict[Sight, Tally] = {}
        self._building: dict[Sight, Iterator[None]] = {}

    def counts(self, sight: Sight, rows: Mapping[Key, Row], now: float) -> dict[str, int] | None:
        """Return the counts of a limit; None until `build_on` has made them. `now`: monotonic seconds."""
        tally = self._tallies.pop(sight, None)
        if tally is None:
            tally = Tally(sight)
            self._building[sight] = tally.build(rows)
        self._tallies[sight] = tally  # the newest at the end
        tally.used_at = now
        return tally.counts if tally.is_whole else None

    def renew(self, key: Key, row: Row | None) -> None:
        """Count a row as it is now, for all limits; None: it is there no more."""
        for tally in self._tallies.values():
            tally.renew(key, row)

    def build_on(self) -> bool:
        """Take a step of what is not whole yet; return False if there is nothing."""
        for sight, steps in self._building.items():
            if next(steps, self) is self:
                del self._building[sight]
            return True
        return False

    def drop_unused(self, now: float) -> None:
        """Drop counts that no request asked for in UNUSED_SECONDS, and those above MOST_TALLIES. `now`: as above."""
        too_many = len(self._tallies) - MOST_TALLIES
        for number, (sight, tally) in enumerate(list(self._tallies.items())):
            if now - tally.used_at > UNUSED_SECONDS or number < too_many:
                del self._tallies[sight]
                self._building.pop(sight, None)
