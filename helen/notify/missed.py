"""Decisions of the history that an earlier Helen had no time to take up. Blocks: files; for a thread."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attrs import frozen

from helen.journal.values import StoredChange
from helen.replaying import changes_since


@frozen
class Heard:
    """One decision. `at` is its place in the history, `document` its JSON."""

    at: int
    agent: str
    check: str
    document: bytes | str


def missed(history: Path, recovered: Iterable[Any], cursor: int) -> list[Heard]:
    """All decisions above `cursor`, in their order: of closed segments, and of what the journal has recovered."""
    found = {
        past.at: Heard(past.at, past.agent, past.check_id, past.document)
        for past in changes_since(history, cursor)
        if past.kind == "decision" and past.agent is not None and past.check_id is not None
    }
    for record in recovered:
        heard = heard_of(record) if isinstance(record, StoredChange) else None
        if heard is not None and heard.at > cursor:
            found[heard.at] = heard
    return [found[at] for at in sorted(found)]


def heard_of(stored: StoredChange) -> Heard | None:
    """None for what is no decision."""
    change = stored.change
    if change.kind != "decision" or change.agent is None or change.check_id is None:
        return None
    return Heard(stored.at, change.agent, change.check_id, change.document)
