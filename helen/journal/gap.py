"""Gap records: a report `equus:gap` says which sequences an agent had to drop. Pure."""

from __future__ import annotations

import msgspec
from attrs import evolve

from equus_protocol.results import UNKNOWN, ResultDocument, parse
from helen.journal.values import GAP_CHECK_ID, Entry


class _Span(msgspec.Struct):
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


def read_document(entry: Entry) -> ResultDocument:
    """The parsed result; a gap record is `unknown` with reason `gap`, whatever else it says."""
    document = parse(entry.blob)
    if entry.check_id == GAP_CHECK_ID:
        return evolve(document, status=UNKNOWN, reason="gap")
    return document


def gap_span(check_id: str, blob: bytes) -> tuple[int, int] | None:
    """(from, to) of a gap record; None where it isn't one, or names no span."""
    if check_id != GAP_CHECK_ID:
        return None
    try:
        span = msgspec.json.decode(blob, type=_Span)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return (span.first, span.last) if 1 <= span.first <= span.last else None

