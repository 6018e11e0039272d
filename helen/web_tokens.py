"""Tokens of the HTTP API as rows of the store: who may what over TCP. Of the token itself only a hash is kept.

Each function takes the database first and runs in the store's thread.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3

import attrs

from helen.records import AuditEntry, audit

MOST = 1_000  # tokens at one time: people and programs, not hosts


class TokenRefused(Exception):
    """A token that can't be made; the text says why."""


@attrs.frozen
class WebToken:
    """One of them. `expires` None: never."""

    name: str
    digest: bytes = attrs.field(repr=False)
    scopes: tuple[str, ...]
    created: float
    created_by: str
    expires: float | None = None
    used_at: float | None = None


def digest_of(token: str) -> bytes:
    """256 bits of chance need no salt and no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def tokens(db: sqlite3.Connection) -> tuple[WebToken, ...]:
    """All of them, by name."""
    rows = db.execute(
        "SELECT name, digest, scopes, created, created_by, expires, used_at FROM web_tokens ORDER BY name"
    )
    return tuple(WebToken(name, digest, tuple(json.loads(scopes)), *rest) for name, digest, scopes, *rest in rows)


def add(db: sqlite3.Connection, token: WebToken) -> None:
    """Raises TokenRefused for a name that is taken, and for one too many. Those that have expired make room."""
    db.execute("DELETE FROM web_tokens WHERE expires <= ?", (token.created,))
    if db.execute("SELECT 1 FROM web_tokens WHERE name = ?", (token.name,)).fetchone() is not None:
        raise TokenRefused(f"there is a token {token.name!r} already: revoke it first, or take another name")
    if db.execute("SELECT count(*) FROM web_tokens").fetchone()[0] >= MOST:
        raise TokenRefused(f"there are {MOST} tokens: revoke some")
    db.execute(
        "INSERT INTO web_tokens (name, digest, scopes, created, created_by, expires) VALUES (?, ?, ?, ?, ?, ?)",
        (token.name, token.digest, json.dumps(token.scopes), token.created, token.created_by, token.expires),
    )
    ends = "without end" if token.expires is None else f"for {token.expires - token.created:.0f} s"
    detail = f"scopes {', '.join(token.scopes)}, {ends}"
    audit(db, AuditEntry(token.created, token.created_by, "web-token", token.name, detail=detail))


def remove(db: sqlite3.Connection, name: str, now: float, by: str) -> bool:
    """Whether there was one."""
    if not db.execute("DELETE FROM web_tokens WHERE name = ?", (name,)).rowcount:
        return False
    audit(db, AuditEntry(now, by, "web-token-revoke", name))
    return True


def used(db: sqlite3.Connection, name: str, now: float) -> None:
    """It was shown; written now and then, not each time."""
    db.execute("UPDATE web_tokens SET used_at = ? WHERE name = ?", (now, name))
