"""Tests how a database is opened, made and brought to the version of this broker."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from zerotask.storage import schema
from zerotask.storage.schema import SCHEMA_VERSION, StoreError, connect, prepare


def asked(path: Path, query: str) -> Any:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_a_connection_is_durable_and_makes_no_checkpoints_by_itself(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "x.db")) as db:
        found = {
            name: db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "wal_autocheckpoint", "cache_size", "busy_timeout")
        }
        assert found == {
            "journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0, "cache_size": -32_768,
            "busy_timeout": 5_000,
        }  # fmt: skip
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (1)")
        assert not db.in_transaction
        counts: list[Any] = []  # another thread may use it: the writer opens what it reads
        thread = threading.Thread(target=lambda: counts.extend(db.execute("SELECT x FROM t")))
        thread.start()
        thread.join()
        assert counts == [(1,)]


def test_a_file_that_is_no_database_is_not_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, made = tmp_path / "x.db", []
    path.write_bytes(b"no database" * 1_000)
    real = sqlite3.connect

    def noting(*given: Any, **named: Any) -> sqlite3.Connection:
        made.append(real(*given, **named))
        return made[-1]

    monkeypatch.setattr(schema.sqlite3, "connect", noting)
    with pytest.raises(sqlite3.DatabaseError):
        connect(path)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        made[0].execute("SELECT 1")


def test_a_new_database_is_its_owners_alone_and_of_this_version(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    for _ in range(2):
        prepare(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert asked(path, "PRAGMA user_version") == [(SCHEMA_VERSION,)] == [(2,)]
    assert not path.with_name("tasks.db-wal").exists()  # its connection is closed


def test_a_database_of_the_first_version_is_brought_up(tmp_path: Path) -> None:
    path, new = tmp_path / "tasks.db", tmp_path / "new.db"
    old = schema.SCHEMA.replace(", returned INTEGER NOT NULL DEFAULT 0, losses INTEGER NOT NULL DEFAULT 0", "")
    old = old.replace(",\n    ahead REAL NOT NULL DEFAULT 0, begun REAL NOT NULL DEFAULT 0", "")
    old = "".join(line for line in old.splitlines(keepends=True) if "clock (" not in line and "damaged (" not in line)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{old} INSERT INTO policies VALUES ('m', '1'); PRAGMA user_version = 1;")
    for each in (path, new):
        prepare(each)
    columns = "SELECT m.name, c.name, c.type, c.[notnull] FROM sqlite_master m, pragma_table_info(m.name) c"
    columns += " WHERE m.type = 'table' ORDER BY 1, 2"
    assert asked(path, columns) == asked(new, columns) and len(asked(new, columns)) > 50
    assert asked(path, "PRAGMA user_version") == [(2,)] and asked(path, "SELECT method FROM policies") == [("m",)]


def test_a_newer_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    prepare(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreError, match=r"was written by a newer ZeroTask \(schema 3\)"):
        prepare(path)
    assert asked(path, "PRAGMA user_version") == [(3,)]


def test_what_cannot_be_opened_or_prepared_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="cannot be opened as a database"):
        prepare(tmp_path / "none" / "tasks.db")
    path = tmp_path / "tasks.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE tasks (x)")
    with pytest.raises(StoreError, match="cannot be prepared"):
        prepare(path)
    assert not path.with_name("tasks.db-wal").exists()
