"""Reads and writes notifications in the store: groups and their alerts, the outbox, and the cursor of decisions.

Each function takes the database first and runs in the store's thread. `commit` is one transaction: a message is in the
outbox together with the group's row that says so, or neither is. All times are unix seconds.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from helen.notify.group import Changed
from helen.notify.messages import Message

CURSOR = "notifications.at"  # in kv: the last decision of the history that is taken up
CONFIG = "notifications.toml"  # in kv: the last file without a fault
KEPT_SENT = 86_400.0  # seconds that sent messages are kept: as long as a channel's rate may look back
MAX_DEAD = 10_000  # dead messages that are kept; the oldest go first
SHOWN = 200  # messages of one listing


@frozen
class Waiting:
    """Describes a message that is still to be delivered, without its content."""

    id: str
    group: str
    channel: str
    tries: int
    due: float


@frozen
class Loaded:
    """Holds all that is needed in memory at start."""

    cursor: int | None
    config: str | None
    groups: tuple[dict[str, Any], ...]
    entries: tuple[tuple[str, dict[str, Any], bool, bool], ...]
    sent: tuple[tuple[str, float], ...]
    waiting: tuple[Waiting, ...]
    dead: int


def load(db: sqlite3.Connection, now: float) -> Loaded:
    """Read all of it. `now`: unix seconds."""
    kv = dict(db.execute("SELECT key, value FROM kv WHERE key IN (?, ?)", (CURSOR, CONFIG)))
    groups = tuple(json.loads(each) for (each,) in db.execute("SELECT document FROM notify_groups ORDER BY key"))
    entries = tuple(
        (group, json.loads(document), bool(told), bool(fresh))
        for group, document, told, fresh in db.execute(
            "SELECT group_key, document, told, fresh FROM notify_alerts ORDER BY group_key, key"
        )
    )
    sent = tuple(db.execute("SELECT channel, created FROM outbox WHERE created > ?", (now - KEPT_SENT,)))
    cursor = kv.get(CURSOR)
    return Loaded(
        None if cursor is None else int(cursor), kv.get(CONFIG), groups, entries, sent, waiting(db), dead_count(db)
    )


def commit(db: sqlite3.Connection, cursor: int, changed: Changed, messages: Iterable[Message]) -> None:
    """Write the rows that follow from decisions and time. A message whose id is there already is left as it is."""
    db.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (CURSOR, str(cursor)))
    for key, group_document in changed.groups.items():
        if group_document is None:
            db.execute("DELETE FROM notify_groups WHERE key = ?", (key,))
        else:
            db.execute("INSERT OR REPLACE INTO notify_groups VALUES (?, ?)", (key, json.dumps(group_document)))
    for (group, key), entry in changed.entries.items():
        if entry is None:
            db.execute("DELETE FROM notify_alerts WHERE group_key = ? AND key = ?", (group, key))
        else:
            row = (group, key, entry.told, entry.fresh, json.dumps(entry.alert.to_json()))
            db.execute("INSERT OR REPLACE INTO notify_alerts VALUES (?, ?, ?, ?, ?)", row)
    for message in messages:
        document = json.dumps(message.to_json())
        db.execute(
            "INSERT OR IGNORE INTO outbox (id, channel, group_key, created, due, document) VALUES (?, ?, ?, ?, ?, ?)",
            (message.id, message.channel, message.group, message.at, message.at, document),
        )


def waiting(db: sqlite3.Connection) -> tuple[Waiting, ...]:
    """Return the messages that wait, in the order in which they were made."""
    rows = db.execute(
        "SELECT id, group_key, channel, tries, due FROM outbox WHERE state = 'waiting' ORDER BY number"
    )  # fmt: skip
    return tuple(Waiting(*row) for row in rows)


def message(db: sqlite3.Connection, id: str) -> Message | None:
    """Return the content of a message that waits or was given up."""
    row = db.execute("SELECT document FROM outbox WHERE id = ?", (id,)).fetchone()
    return None if row is None or not row[0] else Message.from_json(json.loads(row[0]))


def sent(db: sqlite3.Connection, id: str, now: float, tries: int) -> None:
    """Keep of a message that was sent at `now` (unix seconds) only that it was."""
    db.execute(
        "UPDATE outbox SET state = 'sent', done = ?, tries = ?, error = NULL, document = '' WHERE id = ?",
        (now, tries, id),
    )


def failed(db: sqlite3.Connection, id: str, tries: int, due: float, error: str) -> None:
    """Keep a message for another attempt at `due`, in unix seconds."""
    db.execute("UPDATE outbox SET tries = ?, due = ?, error = ? WHERE id = ?", (tries, due, error, id))


def dead(db: sqlite3.Connection, id: str, now: float, tries: int, error: str) -> None:
    """Give a message up at `now`, in unix seconds: it is tried again only if an operator says so."""
    db.execute("UPDATE outbox SET state = 'dead', done = ?, tries = ?, error = ? WHERE id = ?", (now, tries, error, id))
    db.execute(
        "DELETE FROM outbox WHERE state = 'dead' AND number <= (SELECT number FROM outbox WHERE state = 'dead'"
        " ORDER BY number DESC LIMIT 1 OFFSET ?)",
        (MAX_DEAD,),
    )


def revive(db: sqlite3.Connection, id: str, now: float) -> Waiting | None:
    """Let a message that was given up wait again, with all its attempts; None if it wasn't. `now`: unix seconds."""
    db.execute("UPDATE outbox SET state = 'waiting', tries = 0, due = ? WHERE id = ? AND state = 'dead'", (now, id))
    if not db.execute("SELECT changes()").fetchone()[0]:
        return None
    row = db.execute("SELECT id, group_key, channel, tries, due FROM outbox WHERE id = ?", (id,)).fetchone()
    return Waiting(*row)


def drop(db: sqlite3.Connection, id: str) -> bool:
    """Delete a message that was given up; return False if there is none of this id."""
    return db.execute("DELETE FROM outbox WHERE id = ? AND state = 'dead'", (id,)).rowcount > 0


def dead_count(db: sqlite3.Connection) -> int:
    """Return how many messages were given up."""
    return int(db.execute("SELECT count(*) FROM outbox WHERE state = 'dead'").fetchone()[0])


def is_dead(db: sqlite3.Connection, id: str) -> bool:
    """Return True if this message was given up."""
    return db.execute("SELECT 1 FROM outbox WHERE id = ? AND state = 'dead'", (id,)).fetchone() is not None


def listed(db: sqlite3.Connection, after: int = 0, limit: int = SHOWN) -> list[dict[str, Any]]:
    """Return messages that wait or were given up, the oldest first, without content.

    Keys: `number`, `id`, `channel`, `state`, `created`, `tries`, `due` and `error`.
    """
    names = ("number", "id", "channel", "state", "created", "tries", "due", "error")
    rows = db.execute(
        f"SELECT {', '.join(names)} FROM outbox WHERE state IN ('waiting', 'dead') AND number > ?"
        " ORDER BY number LIMIT ?",
        (after, limit),
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def prune(db: sqlite3.Connection, now: float) -> None:
    """Delete messages that were sent more than KEPT_SENT before `now`, in unix seconds."""
    db.execute("DELETE FROM outbox WHERE state = 'sent' AND created < ?", (now - KEPT_SENT,))
