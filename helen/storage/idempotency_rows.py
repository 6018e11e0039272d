"""Keeps the answers to POSTs with an Idempotency-Key, so that a request that comes twice is executed once.

Each function takes the database first and runs in the store's thread. A row without a status is a request that was
begun: after a crash its outcome is unknown.
"""

from __future__ import annotations

import sqlite3

import attrs

KEPT_SECONDS = 86_400.0
MOST = 10_000  # keys of one caller in that time: a client that asks each ten seconds uses 8,640
MOST_OF_ALL = 20_000  # beyond it the caller that has most loses its oldest ones
DROPPED = 1_000  # at once: to find that caller takes some milliseconds
MOST_BODY = 32_768  # bytes of an answer that are kept; a certificate with its chain has 10 KiB


class TooManyKeys(Exception):
    """Says that MOST keys of this caller are kept already; the text says when there is room."""


@attrs.frozen
class Reply:
    """Holds the answer to a request with an Idempotency-Key. `status` None: the request was begun. `body` None: it was
    a secret, or too long to be kept.
    """

    request: bytes
    status: int | None
    kind: str | None
    body: bytes | None


def begin(db: sqlite3.Connection, key: bytes, request: bytes, now: float, caller: str = "") -> Reply | None:
    """Return the answer to a key; None: there is none, and the request is begun at `now`, unix seconds.

    `caller` is the name of the one whose key it is: none takes the room of others. Raises TooManyKeys.
    """
    db.execute("DELETE FROM replies WHERE created <= ?", (now - KEPT_SECONDS,))
    row = db.execute("SELECT request, status, kind, body FROM replies WHERE key = ?", (key,)).fetchone()
    if row is not None:
        return Reply(*row)
    counted = "SELECT count(*), min(created) FROM replies WHERE caller = ?"
    count, oldest = db.execute(counted, (caller,)).fetchone()
    if count >= MOST:
        raise TooManyKeys(
            f"{MOST} keys are kept, each for a day; there is room in {oldest + KEPT_SECONDS - now:.0f} s. Ask without"
            " one, or less often"
        )
    _make_room(db)
    row = (key, request, now, caller)
    db.execute("INSERT INTO replies (key, request, created, caller) VALUES (?, ?, ?, ?)", row)
    return None


def _make_room(db: sqlite3.Connection) -> None:
    """Drop the oldest keys of the caller that has most, where there are too many of all."""
    if db.execute("SELECT count(*) FROM replies").fetchone()[0] < MOST_OF_ALL:
        return
    most = "SELECT caller FROM replies GROUP BY caller ORDER BY count(*) DESC, caller LIMIT 1"
    oldest = f"SELECT key FROM replies WHERE caller = ({most}) AND status IS NOT NULL ORDER BY created LIMIT ?"
    db.execute(f"DELETE FROM replies WHERE key IN ({oldest})", (DROPPED,))


def finish(db: sqlite3.Connection, key: bytes, status: int, kind: str, body: bytes | None) -> None:
    """Keep the answer to a request that was executed."""
    kept = body if body is None or len(body) <= MOST_BODY else None
    db.execute("UPDATE replies SET status = ?, kind = ?, body = ? WHERE key = ?", (status, kind, kept, key))


def forget(db: sqlite3.Connection, key: bytes) -> None:
    """Forget a key: nothing was executed, so it may be used again."""
    db.execute("DELETE FROM replies WHERE key = ?", (key,))
