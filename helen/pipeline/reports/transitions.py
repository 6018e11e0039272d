"""Reads recorded transitions for availability: which of them count, and what was known before the first one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from attrs import frozen

from equus_protocol.results import STATUS_WORDS
from helen.pipeline.lake.local_days import MICROS
from helen.pipeline.reports.check_columns import EMPTY, KNOWN_REASONS, PENDING, UNKNOWN, Array, Columns, Moments

CONFIRMED, SINCE = COUNTED = ("confirmed", "since")  # from when a change of status counts
NUMBERS = {word: number for number, word in enumerate(STATUS_WORDS)}
_NONE = EMPTY.astype(bool)
_PENDING = KNOWN_REASONS.index(PENDING)


class _Now(msgspec.Struct):
    status: Any = None
    reason: Any = None
    attempt: Any = None


class _Was(msgspec.Struct):
    status: Any = None
    reason: Any = None
    attempt: Any = 0


class _Document(msgspec.Struct):
    at: Any = None
    now: _Now | None = None
    was: _Was | None = None


_DOCUMENTS = msgspec.json.Decoder(list[_Document])
_NOTHING = _Document(now=_Now(), was=_Was())


@frozen(eq=False)
class Transitions(Columns):
    """Holds transitions: the states after and before, and whether these were confirmed. Reasons are codes.

    `time` is when it happened, microseconds since 1970, and `at` the number of the record.
    """

    time: Array = EMPTY
    at: Array = EMPTY
    status: Array = EMPTY
    reason: Array = EMPTY
    was_status: Array = EMPTY
    was_reason: Array = EMPTY
    is_confirmed: Array = _NONE
    was_confirmed: Array = _NONE

    @classmethod
    def of_documents(cls, of: Array, at: Array, documents: Sequence[str], codes: dict[str | None, int]) -> Transitions:
        """Read recorded documents; those without a time are left out. `codes` gets reasons that are new to it."""
        found = _DOCUMENTS.decode(f"[{','.join(documents)}]")
        kept = [row for row, each in enumerate(found) if isinstance(each.at, int | float)]
        told = [found[row] for row in kept]
        now, was = [each.now or _NOTHING.now for each in told], [each.was or _NOTHING.was for each in told]
        statuses = ([NUMBERS.get(each.status, UNKNOWN) for each in states] for states in (now, was))
        reasons = ([_code(each.reason, codes) for each in states] for states in (now, was))
        status, was_status = (np.array(each, np.int64) for each in statuses)
        reason, was_reason = (np.array(each, np.int64) for each in reasons)
        confirmed, was_confirmed = (np.array([each.attempt == 0 for each in states], bool) for states in (now, was))
        time = np.rint(np.array([each.at for each in told], float) * MICROS).astype(np.int64)
        rows = np.array(kept, np.int64)
        return cls(of[rows], time, at[rows], status, reason, was_status, was_reason, confirmed, was_confirmed)

    def in_order(self) -> Transitions:
        """Return them by check, time and number of the record."""
        ordered: Transitions = self.take(np.lexsort((self.at, self.time, self.of)))
        return ordered

    def moments(self, begin: int, counted: str) -> Moments:
        """Return those that count, of those until `begin` the last one of each check; they are in order.

        If none of a check came until then, the first moment is what was known before its first transition of any kind:
        a problem that was confirmed later was none yet, and its own `was` is only the soft state in between. One that
        isn't confirmed counts where time counts since it began.
        """
        counts = np.flatnonzero(self.is_confirmed) if counted == CONFIRMED else np.arange(len(self))
        of, is_before = self.of[counts], self.time[counts] <= begin
        goes_on = np.append((of[1:] == of[:-1]) & is_before[1:], False)[: len(of)]
        kept = counts[~(is_before & goes_on)]
        earlier = self._earlier(np.unique(of[is_before]))
        later = Moments(*(getattr(self, name)[kept] for name in _OF_MOMENTS))
        joined: Moments = Moments.joined([earlier, later])
        return joined

    def _earlier(self, known: Array) -> Moments:
        """Return the state before the first transition of each check that isn't known, unless that one tells it."""
        first = self.take(np.unique(self.of, return_index=True)[1])
        first = first.take(~np.isin(first.of, known) & ~(first.is_confirmed & first.was_confirmed))
        told = first.was_confirmed
        state = np.where(told, first.was_status, UNKNOWN), np.where(told, first.was_reason, _PENDING)
        return Moments(first.of, first.time, *state, *state)


_OF_MOMENTS = ("of", "time", "status", "reason", "was_status", "was_reason")


def _code(reason: Any, codes: dict[str | None, int]) -> int:
    """Return the code of a reason; an empty one is none."""
    return codes.setdefault(reason, len(codes)) if isinstance(reason, str) and reason else codes[None]
