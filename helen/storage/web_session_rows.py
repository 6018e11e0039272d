"""Reads and writes sessions of browsers. Only a hash of each cookie is kept, so a copy of the database opens nothing.

Each function takes the database first and runs in the store's thread. Times are unix seconds.
"""

from __future__ import annotations

import json
import sqlite3

import attrs

from helen.storage.agent_rows import AuditEntry, audit
from helen.storage.web_token_rows import of_limit, read_limit, write_limit

MOST = 1_000  # sessions at one time: people and screens on walls


class SessionRefused(Exception):
    """Says that a session can't be made; the text says why."""


@attrs.frozen
class WebSession:
    """Holds a browser's session. It ends with its parent: a token of the API, or the operator, who needs none."""

    id: str  # by which it is listed and ended; it opens nothing
    digest: bytes = attrs.field(repr=False)  # of the cookie
    name: str  # as which its user is in the audit, behind the parent
    parent: str  # `operator`, or `token:NAME`
    parent_digest: bytes | None = attrs.field(repr=False)  # of the parent's secret; None for the operator
    scopes: tuple[str, ...]
    created: float
    expires: float
    used_at: float
    address: str  # from which it was begun
    kiosk: bool = False  # it does not end because it is idle
    on: tuple[str, ...] | None = None  # patterns of the agents that it is limited to; None: all

    @property
    def actor(self) -> str:
        """Return the name by which the audit knows it."""
        return f"{self.parent}/{self.name}"


COLUMNS = "id, digest, name, parent, parent_digest, scopes, created, expires, used_at, address, kiosk, limited_to"


def sessions(db: sqlite3.Connection) -> tuple[WebSession, ...]:
    """Return all sessions, the oldest first."""
    found = []
    for row in db.execute(f"SELECT {COLUMNS} FROM web_sessions ORDER BY created, id"):
        id_, digest, name, parent, parent_digest, scopes, created, expires, used_at, address, kiosk, on = row
        found.append(
            WebSession(id_, digest, name, parent, parent_digest, tuple(json.loads(scopes)), created, expires, used_at,
                       address, bool(kiosk), read_limit(on))
        )  # fmt: skip
    return tuple(found)


def begin(db: sqlite3.Connection, session: WebSession) -> None:
    """Keep a session; expired ones make room. Raises SessionRefused if there are MOST."""
    db.execute("DELETE FROM web_sessions WHERE expires <= ?", (session.created,))
    if db.execute("SELECT count(*) FROM web_sessions").fetchone()[0] >= MOST:
        raise SessionRefused(f"there are {MOST} sessions: end some, GET /api/v1/sessions lists them")
    db.execute(
        f"INSERT INTO web_sessions ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session.id, session.digest, session.name, session.parent, session.parent_digest, json.dumps(session.scopes),
         session.created, session.expires, session.used_at, session.address, int(session.kiosk),
         write_limit(session.on)),
    )  # fmt: skip
    lasting = f"for {session.expires - session.created:.0f} s at most"
    detail = f"scopes {', '.join(session.scopes)}, {lasting}{of_limit(session.on)}"
    audit(db, AuditEntry(session.created, session.actor, "session", session.id, session.address, detail))


def end(db: sqlite3.Connection, ids: tuple[str, ...], now: float, by: str, why: str = "") -> None:
    """Delete sessions at `now`, unix seconds, and write each that was there into the audit."""
    for each in ids:
        if db.execute("DELETE FROM web_sessions WHERE id = ?", (each,)).rowcount:
            audit(db, AuditEntry(now, by, "session-end", each, detail=why))


def used(db: sqlite3.Connection, id: str, now: float) -> None:
    """Record the use of a session at `now`, unix seconds. Callers do so now and then, not each time."""
    db.execute("UPDATE web_sessions SET used_at = ? WHERE id = ?", (now, id))
