"""Knows since which UTC day a table keeps all that it got: retention notes in the log how far it took days out.

A day before may have rows again: of a segment that was in quarantine, or of a Helen whose history was away. They are
not what the day had, so no sums are made anew of them. The days that lie in the table don't say which ones these are.
"""

from __future__ import annotations

from datetime import date

from helen.pipeline.lake.lake import Lake

EXPIRED = "expired"  # the transaction under which a table notes the first day that it keeps, as Python's ordinal


def kept_from(lake: Lake, table: str) -> date:
    """Return the first UTC day that retention has left in a table; `date.min` while it has taken none out."""
    return date.fromordinal(max(date.min.toordinal(), lake.done(table, EXPIRED)))


def oldest_day(lake: Lake, table: str) -> date | None:
    """Return the first UTC day of which a table keeps all that it got; None if it keeps nothing.

    A day before, of which it has a few rows again, is not kept.
    """
    since = kept_from(lake, table)
    return min((file.day for file in lake.files(table) if file.day is not None and file.day >= since), default=None)
