"""Defines the levels of rollups, once: tables, upkeep, readers and reports follow from this table. Pure.

A level has buckets of one length. The first one is made from results as they come in, each other one from the level
that it names as its source. A further level is one row here and one in the table of docs/pipeline.rst; docs/api.rst
and the glossary name them. Buckets are spans of UTC: no level knows of time zones, so none changes its length with
the clocks of a zone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from attrs import frozen

from helen.pipeline.lake.local_days import MICROS

DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1)
LATEST_DAYS = 9  # days until no result can come for a day any more: it may be 8 days late, and the day itself counts
Micros = Any  # an integer, or a numpy array of them


@frozen
class Level:
    """Describes one level of rollups, a row of LEVELS.

    `seconds` is the length of a bucket: a part of a day, or whole days. `begins` is the beginning of any of the
    buckets, in seconds since 1970. The table keeps `keep_days`, None for ever, and is brought up to its source every
    `follow_seconds`. A reader that names no level gets this one for a time of up to `most_days`; it reads `read_days`
    in one step.
    """

    name: str
    seconds: int
    source: str | None
    follow_seconds: float
    keep_days: int | None
    most_days: float
    read_days: int
    begins: int = 0

    @property
    def step(self) -> int:
        """Return the length of a bucket of this level, microseconds."""
        return self.seconds * MICROS

    @property
    def days(self) -> int:
        """Return the number of UTC days, and so of partitions of its source, that a bucket has a part in."""
        return -(-self.seconds // DAY_SECONDS)

    def place(self, micros: Micros) -> Micros:
        """Return the number of the bucket at a time, in microseconds since 1970."""
        return (micros - self.begins * MICROS) // self.step

    def time(self, place: Micros) -> Micros:
        """Return when a bucket begins, in microseconds since 1970, by its number."""
        return place * self.step + self.begins * MICROS

    def start(self, micros: Micros) -> Micros:
        """Return when the bucket at a time begins, both in microseconds since 1970."""
        return self.time(self.place(micros))

    def days_near(self, day: date) -> list[date]:
        """Return the UTC days with rows that may share a bucket with rows of `day`."""
        first = _EPOCH + timedelta(seconds=self.start((day - _EPOCH).days * DAY_SECONDS * MICROS) // MICROS)
        return [first + timedelta(days=number) for number in range(self.days)]


M5 = Level("m5", seconds=300, source=None, follow_seconds=0.0, keep_days=90, most_days=2.0, read_days=3)
H1 = Level("h1", seconds=3600, source="m5", follow_seconds=300.0, keep_days=400, most_days=60.0, read_days=31)
D1 = Level("d1", seconds=DAY_SECONDS, source="h1", follow_seconds=3600.0, keep_days=None, most_days=math.inf,
           read_days=366)  # fmt: skip
Levels = Mapping[str, Level]  # by name, each behind its source


def by_name(rows: Iterable[Level]) -> Levels:
    """Return the levels by their names, in this order."""
    return {level.name: level for level in rows}


# A chart gets at most 576, 1,440 and (in four years) 1,460 points of a metric: as many as a screen is wide.
LEVELS = by_name((M5, H1, D1))


def derived(levels: Levels) -> list[Level]:
    """Return the levels that are made from another one, in the order in which to make them."""
    return [level for level in levels.values() if level.source is not None]


def least_days(levels: Levels) -> dict[str, int]:
    """Return for each level that is a source how many days it must be kept: {"m5": 9, ...}.

    A result that comes late has its bucket computed anew, from everything that the source has of it.
    """
    found: dict[str, int] = {}
    for level in derived(levels):
        assert level.source is not None
        found[level.source] = max(found.get(level.source, 0), LATEST_DAYS - 1 + level.days)
    return found
