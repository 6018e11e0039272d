"""Makes, opens and checks the SQLite database of a broker, `tasks.db`."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from zerotask.storage.faults import sentence

SCHEMA_VERSION = 2
BUSY_TIMEOUT = 5.0  # seconds; only a backup by another program ever holds the database that long
CACHE_KIB = 32_768  # SQLite's own page cache: the index pages of a million queued tasks stay in memory

SCHEMA = """
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, client TEXT NOT NULL, key TEXT NOT NULL,
    method TEXT NOT NULL, priority INTEGER NOT NULL, time_limit REAL NOT NULL, max_attempts INTEGER NOT NULL,
    result_ttl REAL NOT NULL, submitted REAL NOT NULL, due REAL NOT NULL, state TEXT NOT NULL,
    attempts INTEGER NOT NULL, node TEXT, lease INTEGER NOT NULL, claimed REAL NOT NULL, updated REAL NOT NULL,
    status BLOB NOT NULL, detail BLOB NOT NULL, lost_by TEXT NOT NULL, failed_by TEXT NOT NULL, expires REAL NOT NULL,
    params BLOB, outcome BLOB, returned INTEGER NOT NULL DEFAULT 0, losses INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX tasks_queue ON tasks (method, priority DESC, seq, due) WHERE state = 'queued';
CREATE INDEX tasks_delayed ON tasks (due, seq) WHERE state = 'queued' AND due > submitted;
CREATE INDEX tasks_leased ON tasks (lease) WHERE lease > 0;
CREATE INDEX tasks_past ON tasks (expires) WHERE expires > 0;
CREATE TABLE params (seq INTEGER PRIMARY KEY, params BLOB NOT NULL);
CREATE TABLE outcomes (seq INTEGER PRIMARY KEY, outcome BLOB NOT NULL);
CREATE TABLE policies (method TEXT PRIMARY KEY, policy BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE schedules (
    name TEXT PRIMARY KEY, line TEXT NOT NULL, zone TEXT NOT NULL, method TEXT NOT NULL, params BLOB NOT NULL,
    options BLOB NOT NULL, catch_up INTEGER NOT NULL, done REAL NOT NULL,
    ahead REAL NOT NULL DEFAULT 0, begun REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE missed (name TEXT NOT NULL, due REAL NOT NULL, noticed REAL NOT NULL, PRIMARY KEY (name, due)) WITHOUT
ROWID; CREATE TABLE probe (id INTEGER PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE clock (id INTEGER PRIMARY KEY, seen REAL NOT NULL, ahead REAL NOT NULL);
CREATE TABLE damaged (id TEXT PRIMARY KEY, noticed REAL NOT NULL) WITHOUT ROWID;
"""

# How a database of the version before becomes one of this version; each is run in one transaction.
MIGRATIONS = {
    2: """
ALTER TABLE tasks ADD COLUMN returned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN ahead REAL NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN begun REAL NOT NULL DEFAULT 0;
CREATE TABLE clock (id INTEGER PRIMARY KEY, seen REAL NOT NULL, ahead REAL NOT NULL);
CREATE TABLE damaged (id TEXT PRIMARY KEY, noticed REAL NOT NULL) WITHOUT ROWID;
""",
}


class StoreError(Exception):
    """Tells that the folder or the database cannot be used, why, and what to do."""


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection in WAL mode with synchronous=FULL. Raises sqlite3.Error.

    It commits by itself until a transaction is begun, and makes no checkpoints: the writer does, when no job waits.
    """
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare(path: Path) -> None:
    """Make the database if it is missing, and check its version. Raises StoreError if it cannot be used.

    Only its owner can read it, whatever the folder and the umask are: SQLite gives its log and index the same mode.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = connect(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path} cannot be opened as a database: {sentence(error)}") from error
    try:
        _make(connection, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be prepared: {sentence(error)}") from error
    finally:
        connection.close()


def _make(connection: sqlite3.Connection, path: Path) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} was written by a newer ZeroTask (schema {version}); start that one, or use another folder"
        )
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT")
        return
    for newer in range(version + 1, SCHEMA_VERSION + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {MIGRATIONS[newer]} PRAGMA user_version = {newer}; COMMIT")
