"""Tests rows of the outbox: what each step leaves of a message, what is kept and for how long, and pages."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from telling import WALL, alert

from helen.notify import rows
from helen.notify.group import Changed, Entry, Group
from helen.notify.messages import Message
from helen.notify.routing import Timing
from helen.notify.rows import KEPT_SENT, Waiting
from helen.storage import schema


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(schema.connect(tmp_path / "helen.db")) as made:
        yield made


def message(id: str, at: float = 0.0) -> Message:
    return Message(id, "g", "hook", "r", {"site": "x"}, WALL + at, (alert(),), frozenset(("a/c",)), 3)


def put(db: sqlite3.Connection, *ids: str, at: float = 0.0) -> None:
    rows.commit(db, 1, Changed({}, {}), [message(id, at) for id in ids])


def test_everything_comes_back_at_the_next_start(db: sqlite3.Connection) -> None:
    """A start loads the cursor, the last file, groups with alerts, waiting messages, and how many were given up."""
    group = Group("hook", "r", (("site", "x"),), Timing(1.0, 2.0, 3.0), False, due=WALL + 9.0)
    entries: dict[tuple[str, str], Entry | None] = {
        (group.key, "a/c"): Entry(alert("a/c"), True, False),
        (group.key, "b/c"): Entry(alert("b/c"), False, True),
    }
    rows.commit(db, 41, Changed({group.key: group.to_json()}, entries), [message("m1"), message("m2")])
    db.execute("INSERT INTO kv VALUES ('notifications.toml', 'x = 1')")
    rows.dead(db, "m2", WALL + 5.0, 20, "gone")
    loaded = rows.load(db, WALL)
    assert (loaded.cursor, loaded.config, loaded.dead) == (41, "x = 1", 1)
    assert [Group.from_json(each) for each in loaded.groups] == [group]
    assert loaded.entries == (
        (group.key, alert("a/c").to_json(), True, False), (group.key, alert("b/c").to_json(), False, True),
    )  # fmt: skip
    assert loaded.waiting == (Waiting("m1", "g", "hook", 0, WALL),)
    assert loaded.sent == (("hook", WALL), ("hook", WALL))
    rows.commit(db, 42, Changed({group.key: None}, {(group.key, "a/c"): None}), [])
    later = rows.load(db, WALL)
    assert (later.cursor, later.groups, [each[1]["agent"] for each in later.entries]) == (42, (), ["b"])


def test_a_message_has_its_content_until_it_is_sent(db: sqlite3.Connection) -> None:
    """A message has its content while it waits, after a failure and when it was given up; a missing one has none."""
    put(db, "m1", "m2", "m3")
    rows.failed(db, "m2", 3, WALL + 60.0, "no")
    rows.dead(db, "m3", WALL + 1.0, 20, "never")
    assert [rows.message(db, id) for id in ("m1", "m2", "m3")] == [message("m1"), message("m2"), message("m3")]
    rows.sent(db, "m1", WALL + 7.0, 2)
    assert (rows.message(db, "m1"), rows.message(db, "nowhere")) == (None, None)
    found = db.execute("SELECT id, state, tries, due, done, error FROM outbox ORDER BY number").fetchall()
    assert found == [
        ("m1", "sent", 2, WALL, WALL + 7.0, None), ("m2", "waiting", 3, WALL + 60.0, None, "no"),
        ("m3", "dead", 20, WALL, WALL + 1.0, "never"),
    ]  # fmt: skip


def test_only_what_was_given_up_is_revived_or_dropped(db: sqlite3.Connection) -> None:
    """Another message is left as it is, and the answer says so."""
    put(db, "waits", "dead", "sent")
    rows.dead(db, "dead", WALL, 20, "never")
    rows.sent(db, "sent", WALL, 1)
    assert [rows.is_dead(db, id) for id in ("waits", "dead", "sent", "none")] == [False, True, False, False]
    assert [rows.drop(db, id) for id in ("waits", "sent", "none")] == [False, False, False]
    assert [rows.revive(db, id, WALL + 9.0) for id in ("waits", "sent", "none")] == [None, None, None]
    assert rows.dead_count(db) == 1
    assert rows.revive(db, "dead", WALL + 9.0) == Waiting("dead", "g", "hook", 0, WALL + 9.0)
    assert (rows.dead_count(db), rows.drop(db, "dead")) == (0, False)
    rows.dead(db, "dead", WALL, 20, "never")
    assert (rows.drop(db, "dead"), rows.dead_count(db)) == (True, 0)
    assert [each["id"] for each in rows.listed(db)] == ["waits"]


def test_only_so_many_that_were_given_up_are_kept(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of those that were given up is kept, the newest; those that wait are no part of it."""
    monkeypatch.setattr(rows, "MAX_DEAD", 2)
    put(db, "m1", "m2", "m3", "m4", "m5")
    for id in ("m2", "m1", "m4"):
        rows.dead(db, id, WALL, 20, "never")
    assert [each["id"] for each in rows.listed(db)] == ["m2", "m3", "m4", "m5"]
    rows.dead(db, "m5", WALL, 20, "never")
    assert [(each["id"], each["state"]) for each in rows.listed(db)] == [
        ("m3", "waiting"), ("m4", "dead"), ("m5", "dead"),
    ]  # fmt: skip


def test_pages_of_a_listing(db: sqlite3.Connection) -> None:
    """A page has the oldest first, without what was sent; the next one begins after the last number of this one."""
    put(db, "m1", "m2", "m3", "m4", at=5.0)
    rows.sent(db, "m2", WALL, 1)
    rows.failed(db, "m3", 2, WALL + 60.0, "no")
    [first, second] = rows.listed(db, limit=2)
    assert first == {"number": 1, "id": "m1", "channel": "hook", "state": "waiting", "created": WALL + 5.0, "tries": 0,
                     "due": WALL + 5.0, "error": None}  # fmt: skip
    assert (second["number"], second["id"], second["tries"], second["error"]) == (3, "m3", 2, "no")
    assert [each["id"] for each in rows.listed(db, after=3)] == ["m4"]
    assert [each["id"] for each in rows.listed(db, after=2)] == ["m3", "m4"]
    assert [each["id"] for each in rows.listed(db)] == ["m1", "m3", "m4"]


def test_a_page_has_two_hundred(db: sqlite3.Connection) -> None:
    """A page has two hundred rows, unless less is asked for."""
    put(db, *(f"m{at}" for at in range(201)))
    assert [len(rows.listed(db)), len(rows.listed(db, limit=7)), len(rows.listed(db, after=200))] == [200, 7, 1]


def test_what_was_sent_goes_after_a_day(db: sqlite3.Connection) -> None:
    """A sent message goes after a day, and nothing that still waits or was given up, however old."""
    for id, age in (("old", 0.5), ("edge", 0.0), ("young", -0.5)):
        put(db, id, f"{id} waits", f"{id} dead", at=-KEPT_SENT - age)
        rows.sent(db, id, WALL, 1)
        rows.dead(db, f"{id} dead", WALL, 20, "never")
    rows.prune(db, WALL)
    left = [id for (id,) in db.execute("SELECT id FROM outbox WHERE state = 'sent' ORDER BY number")]
    assert (left, db.execute("SELECT count(*) FROM outbox").fetchone()[0]) == (["edge", "young"], 8)
