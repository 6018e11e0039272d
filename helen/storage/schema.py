"""Holds the tables of STATE/helen.db, and migrates a database of an older version to the newest.

`PRAGMA user_version` counts the steps that were taken. A step is never edited once released: a change is a new step.
The database is copied before it is changed, and a step is taken whole or not at all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from groundwork.atomic_write import PRIVATE, sync_folder
from groundwork.sqlite_errors import is_of_disk
from helen.files.state_dir import StateError

IDENTITY = """
CREATE TABLE agents (
    name TEXT PRIMARY KEY,
    created REAL NOT NULL,
    revoked_at REAL,
    last_seen REAL,
    address TEXT NOT NULL DEFAULT '',
    facts TEXT NOT NULL DEFAULT '{}'            -- JSON: what its last `loaded` said of host, labels and isolation
) STRICT, WITHOUT ROWID;
CREATE TABLE certificates (
    key_hash TEXT PRIMARY KEY,                  -- sha256 of the SubjectPublicKeyInfo: one key, one certificate
    name TEXT NOT NULL REFERENCES agents (name),
    serial TEXT NOT NULL,                       -- hexadecimal: up to 160 bits
    how TEXT NOT NULL CHECK (how IN ('token', 'renewal', 'command', 'admitted', 'learned')),
    issued_at REAL NOT NULL,
    not_after REAL NOT NULL,
    used_at REAL,                               -- its first hello
    retires_at REAL,                            -- a newer one of the same name has been used
    revoked_at REAL,
    certificate BLOB NOT NULL                   -- DER; empty when another Helen signed and vouches for it
) STRICT, WITHOUT ROWID;
CREATE INDEX certificates_of_agent ON certificates (name);
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,                        -- the first letters of the secret: finds the row, opens nothing
    digest BLOB NOT NULL,                       -- sha256 of the whole token; 250 bits of it are in no table
    name TEXT,                                  -- the one agent that may use it
    created REAL NOT NULL,
    expires REAL NOT NULL,
    used_at REAL,
    key_hash TEXT                               -- whom it made
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    address TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_of_subject ON audit (subject, id);
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE (ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE (ABORT, 'the audit is append-only'); END;
CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""

PUBLICATIONS = """
CREATE TABLE assignments (
    revision INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL                          -- assignments.toml as it was
) STRICT;
CREATE TABLE files (
    sha256 TEXT PRIMARY KEY,
    content BLOB NOT NULL
) STRICT;                                       -- with rowid: rows of up to 1 MiB are slow in an index
CREATE TABLE manifests (
    version INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,                       -- sha256 of the manifest's bytes
    created REAL NOT NULL,
    expires REAL NOT NULL,
    undoes INTEGER,                             -- the version that this one takes back, kept until it is needed
    envelope BLOB NOT NULL                      -- the signed bytes as they go to agents
) STRICT;
CREATE TABLE manifest_files (
    version INTEGER NOT NULL REFERENCES manifests (version) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL REFERENCES files (sha256),
    PRIMARY KEY (version, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX manifests_of_file ON manifest_files (sha256);
CREATE TABLE rollouts (
    version INTEGER PRIMARY KEY REFERENCES manifests (version) ON DELETE CASCADE,
    state TEXT NOT NULL,                        -- the words are the rollout's own
    author TEXT NOT NULL,
    started REAL NOT NULL,
    changed REAL NOT NULL,
    detail TEXT NOT NULL                        -- JSON: ring, gates, why it stopped
) STRICT;
"""

NOTIFICATIONS = """
CREATE TABLE notify_groups (
    key TEXT PRIMARY KEY,                       -- JSON: channel, route, the labels that it is grouped by
    document TEXT NOT NULL                      -- JSON: when it is due, and what else is not of one alert
) STRICT, WITHOUT ROWID;
CREATE TABLE notify_alerts (
    group_key TEXT NOT NULL,
    key TEXT NOT NULL,                          -- AGENT/CHECK
    told INTEGER NOT NULL,
    fresh INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (group_key, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,                    -- by which a receiver knows what comes twice
    channel TEXT NOT NULL,
    group_key TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'dead')),
    created REAL NOT NULL,
    due REAL NOT NULL,                          -- of the next try
    tries INTEGER NOT NULL DEFAULT 0,
    done REAL,
    error TEXT,                                 -- what was wrong with the last try, secrets masked
    document TEXT NOT NULL                      -- JSON: the message; empty once it is sent
) STRICT;
CREATE INDEX outbox_by_state ON outbox (state, number);
"""

WEB = """
CREATE TABLE web_tokens (
    name TEXT PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,                -- sha256 of the whole token; 256 bits of it are in no table
    scopes TEXT NOT NULL,                       -- JSON: a list
    created REAL NOT NULL,
    created_by TEXT NOT NULL,
    expires REAL,
    used_at REAL                                -- to the hour
) STRICT, WITHOUT ROWID;
CREATE TABLE replies (
    key BLOB PRIMARY KEY,                       -- sha256 of the caller, the path and the Idempotency-Key
    request BLOB NOT NULL,                      -- sha256 of what was asked
    created REAL NOT NULL,
    status INTEGER,                             -- of the answer; null while there is none
    kind TEXT,                                  -- its content type
    body BLOB                                   -- null for one that is a secret, or too long
) STRICT, WITHOUT ROWID;
CREATE INDEX replies_by_age ON replies (created);
"""

SESSIONS = """
CREATE TABLE web_sessions (
    id TEXT PRIMARY KEY,                        -- as it is listed and ended; it opens nothing
    digest BLOB NOT NULL UNIQUE,                -- sha256 of the cookie; 256 bits of it are in no table
    name TEXT NOT NULL,
    parent TEXT NOT NULL,                       -- operator, or token:NAME
    parent_digest BLOB,                         -- sha256 of the token; null for the operator
    scopes TEXT NOT NULL,                       -- JSON: a list
    created REAL NOT NULL,
    expires REAL NOT NULL,
    used_at REAL NOT NULL,                      -- to some minutes
    address TEXT NOT NULL,
    kiosk INTEGER NOT NULL                      -- 1: it does not end because it is idle
) STRICT, WITHOUT ROWID;
"""

GIVEN_LABELS = """
ALTER TABLE agents ADD COLUMN given TEXT NOT NULL DEFAULT '{}';     -- JSON: labels that an operator has given
ALTER TABLE agents ADD COLUMN given_at REAL NOT NULL DEFAULT 0;     -- since when; of two Helens the newer counts
ALTER TABLE tokens ADD COLUMN labels TEXT;                          -- JSON: for the agent that it makes; null: none
"""

LIMITS = """
ALTER TABLE web_tokens ADD COLUMN limited_to TEXT;          -- JSON: a list of patterns of agents; null: all
ALTER TABLE web_sessions ADD COLUMN limited_to TEXT;        -- the same
"""

SHARES = """
ALTER TABLE replies ADD COLUMN caller TEXT NOT NULL DEFAULT '';     -- whose key it is, by name: each has a share
CREATE INDEX replies_by_caller ON replies (caller, created);
"""

MANY_USES = """
ALTER TABLE tokens ADD COLUMN uses INTEGER NOT NULL DEFAULT 1;      -- how many certificates it may make
ALTER TABLE tokens ADD COLUMN names TEXT;                           -- a pattern of the agents that it is for
ALTER TABLE tokens ADD COLUMN ephemeral REAL;                       -- seconds, for the agents that it makes
ALTER TABLE tokens ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN ephemeral REAL;                       -- seconds away after which it is forgotten
CREATE TABLE token_uses (
    id TEXT NOT NULL,                           -- of the token
    key_hash TEXT NOT NULL,                     -- whom it made
    name TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (id, key_hash)
) STRICT, WITHOUT ROWID;
INSERT INTO token_uses SELECT id, key_hash,
    coalesce((SELECT name FROM certificates WHERE certificates.key_hash = tokens.key_hash), ''), used_at
    FROM tokens WHERE key_hash IS NOT NULL AND used_at IS NOT NULL;
"""

STEPS = (IDENTITY, PUBLICATIONS, NOTIFICATIONS, WEB, SESSIONS, GIVEN_LABELS, LIMITS, SHARES, MANY_USES)


class StoreTooNew(StateError):
    """Says that the database was written by a newer version of Helen."""


class StoreUnreadable(StateError):
    """Says that the file is no database of Helen's, or that it is damaged."""


def connect(path: Path, steps: Sequence[str] = STEPS) -> sqlite3.Connection:
    """Open the database at `path`; make it, or migrate it to the newest version. Blocks.

    Raises StoreTooNew, or StoreUnreadable if it can't be used or is damaged.
    """
    path.touch(mode=PRIVATE)  # SQLite would make it readable for all users, and its -wal and -shm take this mode
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _configure(db)
        _migrate(db, path, steps)
    except sqlite3.OperationalError as error:
        db.close()
        advice = " Look at its disk (`dmesg`, `df`) and its owner, then start Helen again." if is_of_disk(error) else ""
        raise StoreUnreadable(f"{path} cannot be used: {error}.{advice}") from error
    except sqlite3.DatabaseError as error:
        db.close()
        raise StoreUnreadable(f"{path} cannot be read ({error}): put a copy back, or move it away.") from error
    except StateError:
        db.close()
        raise
    return db


def _configure(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")  # WAL's default would lose acknowledged rows in a power cut
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA busy_timeout = 5000")  # an operator may have it open in another program


def version_of(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _migrate(db: sqlite3.Connection, path: Path, steps: Sequence[str]) -> None:
    held = version_of(db)
    if held > len(steps):
        raise StoreTooNew(
            f"{path} has schema {held}, this Helen knows {len(steps)}: install the newer Helen, "
            f"or go back with {_copy_of(path, len(steps))} if it is there."
        )
    if 0 < held < len(steps):
        back_up(db, _copy_of(path, held))
    for number, step in enumerate(steps[held:], held + 1):
        _take(db, number, step)


def _take(db: sqlite3.Connection, number: int, step: str) -> None:
    try:
        db.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _copy_of(path: Path, version: int) -> Path:
    return path.with_name(f"{path.name}.schema-{version}")


def back_up(db: sqlite3.Connection, target: Path) -> None:
    """Copy a database consistently; the copy has its name once it is complete."""
    new = target.with_name(f".{target.name}.new")
    new.unlink(missing_ok=True)
    new.touch(mode=PRIVATE)
    copy = sqlite3.connect(new)
    try:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, no -wal beside it
    finally:
        copy.close()
    new.rename(target)
    sync_folder(target.parent)
