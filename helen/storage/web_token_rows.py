"""Reads and writes tokens of the HTTP API, which give callers over TCP their scopes. Only a hash of a token is kept.

Each function takes the database first and runs in the store's thread. Times are unix seconds.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3

import attrs

from helen.storage.agent_rows import AuditEntry, audit

MOST = 1_000  # tokens at one time: people and programs, not hosts


class TokenRefused(Exception):
    """Says that a token can't be made; the text says why."""


@attrs.frozen
class WebToken:
    """Holds a token of the HTTP API. `expires` None: never. `on`: patterns of the agents that it is limited to; None:
    all.
    """

    name: str
    digest: bytes = attrs.field(repr=False)
    scopes: tuple[str, ...]
    created: float
    created_by: str
    expires: float | None = None
    used_at: float | None = None
    on: tuple[str, ...] | None = None


def digest_of(token: str) -> bytes:
    """Return the hash of a token. Its 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def tokens(db: sqlite3.Connection) -> tuple[WebToken, ...]:
    """Return all tokens by name."""
    rows = db.execute(
        "SELECT name, digest, scopes, created, created_by, expires, used_at, limited_to FROM web_tokens ORDER BY name"
    )
    return tuple(
        WebToken(name, digest, tuple(json.loads(scopes)), created, by, expires, used_at, read_limit(limit))
        for name, digest, scopes, created, by, expires, used_at, limit in rows
    )


def read_limit(text: str | None) -> tuple[str, ...] | None:
    """Return the patterns of a limit as the database has them; None: there is no limit."""
    return None if text is None else tuple(json.loads(text))


def write_limit(on: tuple[str, ...] | None) -> str | None:
    """Return the text for the patterns of a limit."""
    return None if on is None else json.dumps(on)


def add(db: sqlite3.Connection, token: WebToken) -> None:
    """Keep a token; expired ones make room. Raises TokenRefused if the name is taken, or if there are MOST."""
    db.execute("DELETE FROM web_tokens WHERE expires <= ?", (token.created,))
    if db.execute("SELECT 1 FROM web_tokens WHERE name = ?", (token.name,)).fetchone() is not None:
        raise TokenRefused(f"there is a token {token.name!r} already: revoke it first, or take another name")
    if db.execute("SELECT count(*) FROM web_tokens").fetchone()[0] >= MOST:
        raise TokenRefused(f"there are {MOST} tokens: revoke some")
    db.execute(
        "INSERT INTO web_tokens (name, digest, scopes, created, created_by, expires, limited_to)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (token.name, token.digest, json.dumps(token.scopes), token.created, token.created_by, token.expires,
         write_limit(token.on)),
    )  # fmt: skip
    ends = "without end" if token.expires is None else f"for {token.expires - token.created:.0f} s"
    detail = f"scopes {', '.join(token.scopes)}, {ends}{of_limit(token.on)}"
    audit(db, AuditEntry(token.created, token.created_by, "web-token", token.name, detail=detail))


def of_limit(on: tuple[str, ...] | None) -> str:
    """Return what the audit says of a limit; nothing where there is none."""
    return "" if on is None else f", on {', '.join(on)}"


def remove(db: sqlite3.Connection, name: str, now: float, by: str) -> bool:
    """Delete a token at `now`, unix seconds; return False if there is none of this name."""
    if not db.execute("DELETE FROM web_tokens WHERE name = ?", (name,)).rowcount:
        return False
    audit(db, AuditEntry(now, by, "web-token-revoke", name))
    return True


def used(db: sqlite3.Connection, name: str, now: float) -> None:
    """Record the use of a token at `now`, unix seconds. Callers do so now and then, not each time."""
    db.execute("UPDATE web_tokens SET used_at = ? WHERE name = ?", (now, name))
