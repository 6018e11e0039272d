"""Gap records: a report `equus:gap` says which sequences an agent had to drop. Pure."""

from __future__ import annotations

import msgspec

from helen.journal.values import Entry


class _Span(msgspec.Struct):
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


def gap_span(entry: Entry) -> tuple[int, int] | None:
    """(from, to) of a gap record, None where it names no span.

    What an agent dropped was numbered before it could say so: the span ends at the record's own sequence at the latest,
    so that no record can write off what is yet to come.
    """
    try:
        span = msgspec.json.decode(entry.blob, type=_Span)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
    last = min(span.last, entry.sequence)
    return (span.first, last) if 1 <= span.first <= last else None
