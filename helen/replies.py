"""What was answered to a POST with an Idempotency-Key, as rows of the store: so that it is done once, asked twice.

Each function takes the database first and runs in the store's thread. A row without a status is a request that was
begun: after a crash nobody knows what became of it.
"""

from __future__ import annotations

import sqlite3

import attrs

KEPT_SECONDS = 86_400.0
MOST = 10_000  # keys in that time: a script that asks each ten seconds has 8,640
MOST_BODY = 32_768  # bytes of an answer that are kept; a certificate with its chain has 10 KiB


class TooManyKeys(Exception):
    """MOST are kept already; the text says when there is room."""


@attrs.frozen
class Reply:
    """`status` None: it was begun. `body` None: it was a secret, or too long to be kept."""

    request: bytes
    status: int | None
    kind: str | None
    body: bytes | None


def begin(db: sqlite3.Connection, key: bytes, request: bytes, now: float) -> Reply | None:
    """What is known of a key; None: nothing, and from now on it is begun. Raises TooManyKeys."""
    db.execute("DELETE FROM replies WHERE created <= ?", (now - KEPT_SECONDS,))
    row = db.execute("SELECT request, status, kind, body FROM replies WHERE key = ?", (key,)).fetchone()
    if row is not None:
        return Reply(*row)
    count, oldest = db.execute("SELECT count(*), min(created) FROM replies").fetchone()
    if count >= MOST:
        raise TooManyKeys(
            f"{MOST} keys are kept, each for a day; there is room in {oldest + KEPT_SECONDS - now:.0f} s. Ask without"
            " one, or less often"
        )
    db.execute("INSERT INTO replies (key, request, created) VALUES (?, ?, ?)", (key, request, now))
    return None


def finish(db: sqlite3.Connection, key: bytes, status: int, kind: str, body: bytes | None) -> None:
    """It was done, and this was the answer."""
    kept = body if body is None or len(body) <= MOST_BODY else None
    db.execute("UPDATE replies SET status = ?, kind = ?, body = ? WHERE key = ?", (status, kind, kept, key))


def forget(db: sqlite3.Connection, key: bytes) -> None:
    """Nothing was done: the key may be used again."""
    db.execute("DELETE FROM replies WHERE key = ?", (key,))
