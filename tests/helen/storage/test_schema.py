"""Tests helen.storage.schema: from every older version to the newest, and what is refused."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import attrs
import pytest

from helen.storage import agent_rows, credential_rows, schema
from helen.storage.agent_rows import Agent, AuditEntry
from helen.storage.enrolled_keys import EnrolledCertificate
from helen.storage.schema import STEPS, StoreTooNew, StoreUnreadable

# As version 1 wrote it, letter for letter; never to be changed.
GOLDEN_1 = """
CREATE TABLE agents (name TEXT PRIMARY KEY, created REAL NOT NULL, revoked_at REAL, last_seen REAL,
    address TEXT NOT NULL DEFAULT '', facts TEXT NOT NULL DEFAULT '{}') STRICT, WITHOUT ROWID;
CREATE TABLE certificates (key_hash TEXT PRIMARY KEY, name TEXT NOT NULL REFERENCES agents (name), serial TEXT NOT NULL,
    how TEXT NOT NULL CHECK (how IN ('token', 'renewal', 'command', 'admitted', 'learned')), issued_at REAL NOT NULL,
    not_after REAL NOT NULL, used_at REAL, retires_at REAL, revoked_at REAL, certificate BLOB NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE INDEX certificates_of_agent ON certificates (name);
CREATE TABLE tokens (id TEXT PRIMARY KEY, digest BLOB NOT NULL, name TEXT, created REAL NOT NULL, expires REAL NOT NULL,
    used_at REAL, key_hash TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
    subject TEXT NOT NULL, address TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
CREATE INDEX audit_of_subject ON audit (subject, id);
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE (ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE (ABORT, 'the audit is append-only'); END;
CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO agents VALUES ('web-1', 100.0, NULL, 150.5, '10.0.0.7', '{"os": "linux"}');
INSERT INTO certificates VALUES ('ab12', 'web-1', '7f', 'token', 100.0, 900.0, 110.0, NULL, NULL, x'3000');
INSERT INTO audit (at, actor, action, subject, address, detail) VALUES (100.0, 'agent:web-1', 'enrol', 'web-1', '', '');
INSERT INTO kv VALUES ('cursor', '7');
PRAGMA user_version = 1;
"""


def build(path: Path, sql: str) -> None:
    db = sqlite3.connect(path)
    db.executescript(sql)
    db.close()


def tables(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Return every column of every table, without the comments and line ends of its text."""
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {(name, row[1], row[2]) for name in names for row in db.execute(f"PRAGMA table_info ({name})")}


def test_from_nothing(tmp_path: Path) -> None:
    """An absent file becomes the newest version, with no copy of what never was."""
    db = schema.connect(tmp_path / "helen.db")
    assert schema.version_of(db) == len(STEPS) == 9
    db.close()
    assert [path.name for path in tmp_path.iterdir()] == ["helen.db"]


def test_how_it_is_opened(tmp_path: Path) -> None:
    """The database has WAL and an fsync at every commit, which cannot be seen without pulling the plug."""
    db = schema.connect(tmp_path / "helen.db")
    names = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema")
    assert [db.execute(f"PRAGMA {name}").fetchone()[0] for name in names] == ["wal", 2, 1, 0]
    db.close()


def test_from_version_1(tmp_path: Path) -> None:
    """A golden database keeps every row and has every table that a new one has."""
    build(tmp_path / "helen.db", GOLDEN_1)
    db, new = schema.connect(tmp_path / "helen.db"), schema.connect(tmp_path / "new.db")
    assert (schema.version_of(db), tables(db)) == (len(STEPS), tables(new))
    assert agent_rows.agents(db) == (Agent("web-1", 100.0, None, 150.5, "10.0.0.7", {"os": "linux"}),)
    known = EnrolledCertificate("ab12", "web-1", 100.0, 900.0, used_at=110.0)
    assert credential_rows.live_certificates(db, now=899.0) == (known,)
    assert agent_rows.audit_page(db) == [AuditEntry(100.0, "agent:web-1", "enrol", "web-1", id=1)]
    assert agent_rows.everything(db) == {"cursor": "7"}
    new.close()
    db.close()


def test_the_copy_before_a_migration(tmp_path: Path) -> None:
    """The copy is the old version, whole, in one file that only the owner reads, and Helen can start on it."""
    build(tmp_path / "helen.db", GOLDEN_1)
    schema.connect(tmp_path / "helen.db").close()
    copy = tmp_path / "helen.db.schema-1"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    old = sqlite3.connect(copy)
    assert (schema.version_of(old), agent_rows.everything(old)) == (1, {"cursor": "7"})
    old.close()
    copy.rename(tmp_path / "helen.db")
    db = schema.connect(tmp_path / "helen.db")
    assert schema.version_of(db) == len(STEPS)
    db.close()


def test_the_newest_is_left_alone(tmp_path: Path) -> None:
    """A second start neither copies nor changes anything."""
    schema.connect(tmp_path / "helen.db").close()
    db = schema.connect(tmp_path / "helen.db")
    assert schema.version_of(db) == len(STEPS)
    db.close()
    assert [path.name for path in tmp_path.iterdir()] == ["helen.db"]


@pytest.mark.adversary(59)
def test_a_newer_one_is_refused(tmp_path: Path) -> None:
    """A downgraded Helen does not guess; it names both versions and the way out."""
    build(tmp_path / "helen.db", f"PRAGMA user_version = {len(STEPS) + 1};")
    with pytest.raises(
        StoreTooNew,
        match=rf"has schema {len(STEPS) + 1}, this Helen knows {len(STEPS)}: install the newer Helen, or go back",
    ):
        schema.connect(tmp_path / "helen.db")


@pytest.mark.parametrize("broken", ["CREATE TABLE half (x); CREATE TABLE kv (x);", "CREATE TABLE half (x); nonsense;"])
def test_a_step_that_fails(tmp_path: Path, broken: str) -> None:
    """A step that fails leaves nothing of itself: the version, the tables and the rows are those of before."""
    path = tmp_path / "helen.db"
    schema.connect(path).close()
    with pytest.raises(StoreUnreadable, match=r"helen\.db cannot be used: (table kv already exists|near)"):
        schema.connect(path, (*STEPS, broken))
    db = schema.connect(path)
    assert schema.version_of(db) == len(STEPS)
    assert ("half", "x", "") not in tables(db)
    db.close()


def test_several_steps_at_once(tmp_path: Path) -> None:
    """Several steps from 1 to two beyond the newest are done in order, with one copy."""
    build(tmp_path / "helen.db", GOLDEN_1)
    more = ("ALTER TABLE kv ADD COLUMN at REAL;", "UPDATE kv SET at = 5;")
    db = schema.connect(tmp_path / "helen.db", (*STEPS, *more))
    assert (schema.version_of(db), db.execute("SELECT * FROM kv").fetchall()) == (
        len(STEPS) + 2,
        [("cursor", "7", 5.0)],
    )
    db.close()
    assert sorted(path.name for path in tmp_path.glob("*schema*")) == ["helen.db.schema-1"]


@pytest.mark.parametrize("content", [b"no database, but long enough to be looked at" * 20, b"SQLite format 3\0" * 64])
def test_what_is_no_database(tmp_path: Path, content: bytes) -> None:
    """A file that is no database gives a sentence instead of a traceback, and stays as it was."""
    (tmp_path / "helen.db").write_bytes(content)
    with pytest.raises(StoreUnreadable, match=r"helen\.db cannot be read \(.*put a copy back"):
        schema.connect(tmp_path / "helen.db")
    assert (tmp_path / "helen.db").read_bytes() == content


@pytest.mark.parametrize("statement", ["UPDATE audit SET detail = ''", "DELETE FROM audit"])
def test_the_audit_is_append_only(tmp_path: Path, statement: str) -> None:
    """An entry is changed or removed by no statement, not even by Helen's own."""
    db = schema.connect(tmp_path / "helen.db")
    entry = AuditEntry(1.0, "operator", "revoke", "web-1", "127.0.0.1", "2 certificates")
    agent_rows.audit(db, entry)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    assert agent_rows.audit_page(db) == [attrs.evolve(entry, id=1)]
    db.close()
