"""Counts records in the dedupe marks; gap records say which sequences an agent had to drop. Pure."""

from __future__ import annotations

import msgspec

from equus_protocol.result_fields import GAP_CHECK_ID
from helen.journal.marks import Marks, Verdict
from helen.journal.values import Change, Entry, Floor


class _Span(msgspec.Struct):
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


def count(marks: Marks, value: Entry | Change | Floor, at: int) -> Verdict:
    """Count one record and return the verdict. The writer, recovery and the history check all count here."""
    if isinstance(value, Floor):
        marks.skip_below(value.agent, value.spool, value.first, at)
        return Verdict.NEW
    if isinstance(value, Change):
        return Verdict.NEW
    verdict = marks.add(value.agent, value.spool, value.sequence, at)
    if verdict is Verdict.NEW and value.check_id == GAP_CHECK_ID:
        span = gap_span(value)
        if span is not None:
            marks.cover(value.agent, value.spool, *span, at)
    return verdict


def gap_span(entry: Entry) -> tuple[int, int] | None:
    """Return (from, to) of a gap record, None where it names no span.

    An agent numbers a result before it can say that it dropped it: the span ends at the record's own sequence at the
    latest, so that no record can write off results that are yet to come.
    """
    try:
        span = msgspec.json.decode(entry.blob, type=_Span)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    last = min(span.last, entry.sequence)
    return (span.first, last) if 1 <= span.first <= last else None
