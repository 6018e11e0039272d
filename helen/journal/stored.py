"""Makes a durable result of an entry: who ran it is known by the entry, and what it is about by the result."""

from __future__ import annotations

from groundwork.target_ids import kept_spool, parsed
from helen.journal.document import read_document
from helen.journal.values import Entry, Origin, StoredResult


def stored_result(at: int, entry: Entry) -> StoredResult:
    """Return the result of an entry. One that an agent ran for a target is a result of that target from here on.

    The journal counts and acknowledges it as one of the agent's spool; states, history and people see the target.
    """
    if entry.origin is Origin.TARGET:
        entry = _of_target(entry)
    return StoredResult(at, entry, read_document(entry.check_id, entry.blob))


def _of_target(entry: Entry) -> Entry:
    found = parsed(entry.check_id)
    if found is None:
        return entry
    target, check_id = found
    spool = kept_spool(entry.agent, entry.spool)
    return Entry(
        target,
        check_id,
        entry.check,
        spool,
        entry.sequence,
        entry.origin,
        entry.received,
        entry.blob,
        entry.clock_offset_ms,
    )
