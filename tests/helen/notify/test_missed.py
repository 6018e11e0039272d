"""Tests decisions of the history after a cursor: which records are one, and in which order they are taken up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helen.evaluation.replay import HistoryRecord
from helen.journal.values import Change, StoredChange
from helen.notify import missed as missed_module
from helen.notify.missed import StoredDecision, decision_of, missed


def past(at: int, kind: str = "decision", agent: str | None = "a", check: str | None = "c") -> HistoryRecord:
    return HistoryRecord(at, 0.0, kind, agent, check, document=f"closed {at}")


def open_one(at: int, kind: str = "decision", agent: str | None = "a", check: str | None = "c") -> StoredChange:
    return StoredChange(at, Change(kind, 0.0, agent, check, f"open {at}".encode()))


@pytest.mark.parametrize(("kind", "agent", "check", "is_one"), [
    ("decision", "a", "c", True), ("notice", "a", "c", False), ("decision", None, "c", False),
    ("decision", "a", None, False),
])  # fmt: skip
def test_a_decision(kind: str, agent: str | None, check: str | None, is_one: bool) -> None:
    """A record is a decision if the evaluator wrote it about a check, and nothing else is one."""
    assert (decision_of(open_one(7, kind, agent, check)) == StoredDecision(7, "a", "c", b"open 7")) is is_one


def test_those_after_the_cursor_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missed decisions are those of closed segments and recovered records; one that is in both counts once."""
    asked: list[Any] = []
    closed = [past(12), past(6), past(7, "notice"), past(8, agent=None), past(9, check=None)]
    monkeypatch.setattr(missed_module, "changes_since", lambda *args: asked.append(args) or closed)
    recovered = [open_one(12), open_one(4), open_one(5), open_one(11), open_one(13, "notice"), "a delivery"]
    found = missed(Path("/history"), recovered, 4)
    assert [(each.at, each.document) for each in found] == [
        (5, b"open 5"), (6, "closed 6"), (11, b"open 11"), (12, b"open 12"),
    ]  # fmt: skip
    assert asked == [(Path("/history"), 4)]
