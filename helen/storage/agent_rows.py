"""Reads and writes agents, the audit and the table `kv` of small values: rows of the store as frozen values.

Each function takes the database first and runs in the store's thread: `store.call(agent_rows.audit, entry)`. Times are
unix seconds.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import attrs

AUDIT_PAGE = 1_000  # rows that one query may bring into memory


@attrs.frozen
class Agent:
    """Holds an agent that was enrolled once, connected or not."""

    name: str
    created: float
    revoked_at: float | None
    last_seen: float | None
    address: str
    facts: dict[str, Any]
    given: dict[str, str] = attrs.field(factory=dict)  # labels that an operator has given
    given_at: float = 0.0
    ephemeral: float | None = None  # seconds away after which it is forgotten


@attrs.frozen
class AuditEntry:
    """Holds one action of an operator, an agent or Helen. `detail` never has a token, a key or a password."""

    at: float
    actor: str  # "operator", "agent:web-1", "helen", "stranger"
    action: str  # "revoke", "enrol", "enrol-refused"
    subject: str
    address: str = ""
    detail: str = ""
    id: int | None = None  # given by the store


def audit(db: sqlite3.Connection, entry: AuditEntry) -> int:
    """Append an entry; return its number."""
    row = db.execute(
        "INSERT INTO audit (at, actor, action, subject, address, detail) VALUES (?, ?, ?, ?, ?, ?)",
        (entry.at, entry.actor, entry.action, entry.subject, entry.address, entry.detail),
    )
    assert row.lastrowid is not None
    return row.lastrowid


def audit_page(
    db: sqlite3.Connection, before: int | None = None, subject: str | None = None, limit: int | None = None
) -> list[AuditEntry]:
    """Return a page of entries, the newest first; `before` is the id of the last one on the page before."""
    rows = db.execute(
        "SELECT at, actor, action, subject, address, detail, id FROM audit"
        " WHERE (?1 IS NULL OR id < ?1) AND (?2 IS NULL OR subject = ?2) ORDER BY id DESC LIMIT ?3",
        (before, subject, AUDIT_PAGE if limit is None else limit),
    )
    return [AuditEntry(*row) for row in rows]


def agents(db: sqlite3.Connection) -> tuple[Agent, ...]:
    """Return all agents by name, but those that were forgotten."""
    rows = db.execute(
        "SELECT name, created, revoked_at, last_seen, address, facts, given, given_at, ephemeral"
        " FROM agents WHERE 'forgotten/' || name NOT IN (SELECT key FROM kv) ORDER BY name"
    )
    return tuple(
        Agent(name, created, revoked_at, last_seen, address, json.loads(facts), json.loads(given), given_at, ephemeral)
        for name, created, revoked_at, last_seen, address, facts, given, given_at, ephemeral in rows
    )


def agent_seen(db: sqlite3.Connection, name: str, at: float, address: str) -> None:
    """Record that an agent connected or left at `at`, unix seconds."""
    db.execute("UPDATE agents SET last_seen = ?, address = ? WHERE name = ?", (at, address, name))


def agent_facts(db: sqlite3.Connection, name: str, facts: dict[str, Any]) -> None:
    """Record the facts of an agent's load report."""
    db.execute("UPDATE agents SET facts = ? WHERE name = ?", (json.dumps(facts), name))


def put(db: sqlite3.Connection, key: str, value: str) -> None:
    """Keep a small value under a key."""
    db.execute("INSERT INTO kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))


def drop(db: sqlite3.Connection, key: str) -> None:
    """Delete the small value of a key."""
    db.execute("DELETE FROM kv WHERE key = ?", (key,))


def get(db: sqlite3.Connection, key: str) -> str | None:
    """Return the small value of a key."""
    row = db.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def everything(db: sqlite3.Connection) -> dict[str, str]:
    """Return all small values by key."""
    return dict(db.execute("SELECT key, value FROM kv"))
