"""Tests what notifications find in the store when Helen starts: messages that count for limits, and where they were."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from helen.notify import rows
from helen.notify.group import Changed
from helen.storage import schema

NOW = 1_800_000_000.0


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(schema.connect(tmp_path / "helen.db")) as made:
        yield made


def test_messages_of_the_last_day_count_for_the_limits(db: sqlite3.Connection) -> None:
    """A channel's rate is counted over restarts; what is a day old or older counts no more."""
    for at, age in enumerate((rows.KEPT_SENT + 1.0, rows.KEPT_SENT, rows.KEPT_SENT - 1.0, 0.0)):
        db.execute(
            "INSERT INTO outbox (id, channel, group_key, created, due, document) VALUES (?, 'ops', 'g', ?, 0, '{}')",
            (f"m{at}", NOW - age),
        )
    assert rows.load(db, NOW).sent == (("ops", NOW - rows.KEPT_SENT + 1.0), ("ops", NOW))


def test_a_young_store_has_no_place(db: sqlite3.Connection) -> None:
    """Decisions count from the start on without a cursor, and else from the cursor."""
    assert rows.load(db, NOW).cursor is None
    rows.commit(db, 7, Changed({}, {}), ())
    assert rows.load(db, NOW).cursor == 7
