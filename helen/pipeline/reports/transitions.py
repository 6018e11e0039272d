"""Reads recorded transitions for availability: which of them count, and what was known before the first one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from helen.pipeline.lake.recorded_changes import is_confirmed, time_of
from helen.pipeline.reports.availability_math import PENDING, UNKNOWN, Moment

CONFIRMED, SINCE = COUNTED = ("confirmed", "since")  # from when a change of status counts
NUMBERS = {word: number for number, word in enumerate(STATUS_WORDS)}


@frozen
class RecordedTransition:
    """Holds a transition as a moment, and whether its state and the one before were confirmed."""

    moment: Moment
    confirmed: bool
    from_confirmed: bool

    def counts(self, counted: str) -> bool:
        """Return True if the report counts it: one that isn't confirmed counts where time counts since it began."""
        return self.confirmed or counted == SINCE

    def earlier(self) -> list[Moment]:
        """Return the state before the first transition of a check; none where the transition itself tells it."""
        if self.confirmed and self.from_confirmed:
            return []
        status, reason = (self.moment.was, self.moment.was_reason) if self.from_confirmed else (UNKNOWN, PENDING)
        return [Moment(self.moment.at, status, reason, status, reason)]


Placed = tuple[int, int, RecordedTransition]  # its time, its `at`


def transition_of(document: Mapping[str, Any]) -> RecordedTransition | None:
    """Return a recorded transition; None for one without a time."""
    now, was = document.get("now") or {}, document.get("was") or {}
    at = time_of(document)
    if at is None:
        return None
    status, before = (NUMBERS.get(each.get("status"), UNKNOWN) for each in (now, was))
    moment = Moment(at, status, now.get("reason"), before, was.get("reason"))
    return RecordedTransition(moment, is_confirmed(now), was.get("attempt", 0) == 0)
