"""Finds the decisions of the history that a server before a restart had no time to notify of. Blocks: for a thread."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import frozen

from helen.evaluation.replay import changes_since
from helen.journal.values import StoredChange


@frozen
class StoredDecision:
    """Describes one durable decision. `at`: its place in the history; `document`: its JSON."""

    at: int
    agent: str
    check: str
    document: bytes | str


def missed(history: Path, recovered: Iterable[Any], cursor: int) -> list[StoredDecision]:
    """Return all decisions after `cursor`, in their order: of closed segments, and of records that were recovered."""
    found = {
        past.at: StoredDecision(past.at, past.agent, past.check_id, past.document)
        for past in changes_since(history, cursor)
        if past.kind == "decision" and past.agent is not None and past.check_id is not None
    }
    for record in recovered:
        decision = decision_of(record) if isinstance(record, StoredChange) else None
        if decision is not None and decision.at > cursor:
            found[decision.at] = decision
    return [found[at] for at in sorted(found)]


def decision_of(stored: StoredChange) -> StoredDecision | None:
    """Return the decision in a record; None for a record that is none."""
    change = stored.change
    if change.kind != "decision" or change.agent is None or change.check_id is None:
        return None
    return StoredDecision(stored.at, change.agent, change.check_id, change.document)
