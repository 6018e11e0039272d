"""Tests repairs of small databases, rule by rule: which rows are kept, which are strays, and the names of the files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from zerotask.storage import repair as module
from zerotask.storage.repair import copies, repair
from zerotask.storage.schema import SCHEMA, SCHEMA_VERSION, StoreError

NOW = 1_700_000_000.0
STAMP = "20231114T221320Z"
PAGE = 4_096
LONG = b'["' + b"x" * 1_500 + b'"]'
TASK = {
    "client": "c", "key": "", "method": "m", "priority": 4, "time_limit": 0.0, "max_attempts": 3, "result_ttl": 9.0,
    "submitted": 1.0, "due": 1.0, "state": "queued", "attempts": 0, "node": None, "lease": 0, "claimed": 0.0,
    "updated": 1.0, "status": b"null", "detail": b"{}", "lost_by": "", "failed_by": "", "expires": 0.0,
    "params": b"[1]", "outcome": None, "returned": 0, "losses": 0,
}  # fmt: skip


class Database:
    """Holds a database of the schema under a path, filled row by row with SQLite itself."""

    def __init__(self, folder: Path, schema: str = SCHEMA) -> None:
        self.path = folder / "tasks.db"
        self.run(f"{schema} PRAGMA user_version = {SCHEMA_VERSION};")

    def run(self, script: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.executescript(script)

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        with closing(sqlite3.connect(self.path)) as db, db:
            for row in rows:
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))

    def tasks(self, *rows: dict[str, Any]) -> None:
        self.add("tasks", *(TASK | {"seq": number, "id": f"t{number}"} | row for number, row in enumerate(rows, 1)))

    def all(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as db:
            return db.execute(query).fetchall()

    def blot(self, table: str, kind: str) -> None:
        """Make the pages of a kind of a table unreadable."""
        pages = self.all(f"SELECT pageno FROM dbstat WHERE name = '{table}' AND pagetype = '{kind}'")
        assert pages, f"{table} has no page of the kind {kind}"
        with open(self.path, "r+b") as file:
            for (number,) in pages:
                file.seek((number - 1) * PAGE)
                file.write(b"\xff" * PAGE)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    names = [name for (name,) in database.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: database.all(f"SELECT * FROM {name} ORDER BY 1") for name in names}


def test_a_sound_database_is_copied_whole(database: Database) -> None:
    database.tasks({}, {"state": "running", "node": "n", "lease": 5}, {"state": "finished", "outcome": b"42"})
    database.add("policies", {"method": "m", "policy": b'{"priority":9}'})
    schedule = {"name": "s", "line": "0 3 * * *", "zone": "UTC", "method": "m", "params": b"[]", "options": b"{}"}
    database.add("schedules", schedule | {"catch_up": 1, "done": 2.5})
    database.add("missed", {"name": "s", "due": 1.5, "noticed": 2.5}, {"name": "s", "due": 3.5, "noticed": 4.5})
    database.add("clock", {"id": 1, "seen": 5.0, "ahead": 6.0})
    database.add("damaged", {"id": "older", "noticed": 3.0})
    before = everything(database)
    damage = repair(database.path, NOW)
    assert everything(database) == before and (damage.lost, damage.uncertain) == ((), False)
    assert database.all("PRAGMA user_version") == [(SCHEMA_VERSION,)]
    assert database.path.stat().st_mode & 0o777 == 0o600
    assert damage.kept == database.path.with_name(f"tasks.db.damaged-{STAMP}") == copies(database.path)[0]


def test_a_database_of_the_version_before_gets_what_is_new(tmp_path: Path) -> None:
    old = SCHEMA.replace(", returned INTEGER NOT NULL DEFAULT 0, losses INTEGER NOT NULL DEFAULT 0", "")
    old = "".join(line for line in old.splitlines(keepends=True) if "clock (" not in line and "damaged (" not in line)
    database = Database(tmp_path, old)
    row = {name: value for name, value in TASK.items() if name not in ("returned", "losses")}
    database.add("tasks", row | {"seq": 1, "id": "t1"})
    damage = repair(database.path, NOW)
    assert database.all("SELECT id, returned, losses FROM tasks") == [("t1", 0, 0)] and not damage.uncertain
    assert database.all("SELECT * FROM clock") == [] == database.all("SELECT * FROM damaged")


@pytest.mark.parametrize(
    "wrong", [{"state": "asleep"}, {"status": b"{"}, {"detail": b"\xff"}, {"params": b"nope"}, {"outcome": b"["},
              {"status": b"[" * 2_000}, {"client": b"bytes"}, {"due": "soon"}, {"priority": 1.5}, {"method": 3}],
)  # fmt: skip
def test_a_row_that_cannot_be_a_task_is_put_aside_by_its_id(database: Database, wrong: dict[str, Any]) -> None:
    database.tasks({}, wrong, {})
    damage = repair(database.path, NOW)
    kept = [task for (task,) in database.all("SELECT id FROM tasks ORDER BY id")]
    if wrong == {"method": 3}:  # SQLite itself makes a text of it
        assert kept == ["t1", "t2", "t3"] and damage.lost == ()
    else:
        assert kept == ["t1", "t3"] and damage.lost == ("t2",) and not damage.uncertain
        assert database.all("SELECT * FROM damaged") == [("t2", NOW)]


@pytest.mark.parametrize("right", [{"node": "n"}, {"node": None}, {"due": 3}, {"params": b"null"}, {"outcome": b"{}"}])
def test_what_may_be_missing_or_whole_is_no_damage(database: Database, right: dict[str, Any]) -> None:
    database.tasks(right)
    assert repair(database.path, NOW).lost == () and len(database.all("SELECT * FROM tasks")) == 1


@pytest.mark.parametrize("table, row", [
    ("policies", {"method": "m", "policy": b"{"}), ("damaged", {"id": "x", "noticed": "never"}),
    ("clock", {"id": 1, "seen": "x", "ahead": 1.0}),
])  # fmt: skip
def test_a_bad_row_that_nothing_else_names_makes_the_loss_uncertain(
    database: Database, table: str, row: dict[str, Any]
) -> None:
    database.tasks({})
    database.add(table, row)
    damage = repair(database.path, NOW)
    assert (damage.lost, damage.uncertain) == ((), True) and database.all(f"SELECT * FROM {table}") == []


@pytest.mark.parametrize("broken, uncertain", [
    (set(), False), ({"tasks"}, False), ({"params", "outcomes"}, False), ({module.ID_INDEX}, False),
    ({module.ID_INDEX, "tasks"}, True), ({"schedules"}, True), ({"sqlite_master"}, True), ({"tasks", "missed"}, True),
])  # fmt: skip
def test_when_more_may_be_lost_than_is_named(broken: set[str], uncertain: bool) -> None:
    assert module._Copying(None, None, broken=broken).is_uncertain is uncertain  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------- parts and strays


@pytest.mark.parametrize("state, column, is_lost", [
    ("queued", "params", True), ("assigned", "params", True), ("running", "params", True), ("failed", "outcome", True),
    ("finished", "outcome", True), ("finished", "params", False), ("failed", "params", False),
    ("queued", "outcome", False), ("expired", "params", False),
])  # fmt: skip
def test_a_task_that_lacks_a_part_that_it_needs_is_lost(
    database: Database, state: str, column: str, is_lost: bool
) -> None:
    """A task that has ended needs its params no more; they are shown as null."""
    database.tasks({}, {"state": state, "outcome": b"1"} | {column: None})
    damage = repair(database.path, NOW)
    assert damage.lost == (("t2",) if is_lost else ())
    found = database.all("SELECT params FROM tasks WHERE id = 't2'")
    assert found == ([] if is_lost else [(b"null" if column == "params" and state != "expired" else found[0][0],)])


def long_tasks(database: Database, count: int = 90) -> None:
    """Add tasks whose params and outcomes lie in tables of their own, on pages of several levels."""
    database.tasks(*({"state": "finished", "params": None} for _ in range(count)), {"params": None})
    for table, column in (("params", "params"), ("outcomes", "outcome")):
        rows = [{"seq": number, column: LONG} for number in range(1, count + (table == "params") + 1)]
        database.add(table, *rows, {"seq": 999, column: LONG})


@pytest.mark.parametrize("tables", [("params",), ("outcomes",), ("tasks",)])
def test_rows_to_which_nothing_leads_are_found(database: Database, tables: tuple[str, ...]) -> None:
    long_tasks(database)
    before = everything(database)
    for table in tables:
        database.blot(table, "internal")
    damage = repair(database.path, NOW)
    after = everything(database)
    assert (damage.lost, damage.uncertain) == ((), False)
    assert [row[:-4] for row in after["tasks"]] == [row[:-4] for row in before["tasks"]]
    if tables == ("params",):  # those of an ended task are wanted no more
        assert after["params"] == [row for row in before["params"] if row[0] == 91]
    for table in ("params", "outcomes"):
        assert all(seq != 999 for seq, _ in after[table])
    assert after["outcomes"] == [row for row in before["outcomes"] if row[0] != 999]


def test_results_are_not_taken_for_params(database: Database) -> None:
    """A stray body to which nothing leads may be params or an outcome, so the outcomes are lost."""
    long_tasks(database)
    for table in ("params", "outcomes"):
        database.blot(table, "internal")
    damage = repair(database.path, NOW)
    assert damage.lost == tuple(sorted(f"t{number}" for number in range(1, 91))) and not damage.uncertain
    assert database.all("SELECT id FROM tasks") == [("t91",)] and database.all("SELECT seq FROM params") == [(91,)]


def test_a_stray_task_that_the_index_does_not_name_was_deleted(database: Database) -> None:
    long_tasks(database)
    database.run("PRAGMA secure_delete = OFF; DELETE FROM tasks WHERE seq = 7")
    database.blot("tasks", "internal")
    repair(database.path, NOW)
    assert len(database.all("SELECT id FROM tasks")) == 90 and database.all("SELECT 1 FROM tasks WHERE seq = 7") == []


def test_without_a_list_of_tables_they_lie_where_they_do_in_a_new_one(database: Database) -> None:
    database.tasks({}, {})
    before = everything(database)
    with open(database.path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (PAGE - 100))
    damage = repair(database.path, NOW)
    assert everything(database) == before and damage.uncertain and damage.lost == ()


def test_a_list_of_tables_that_leads_nowhere_is_none(database: Database) -> None:
    database.tasks({})
    database.run("PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = -3 WHERE name = 'tasks'")
    assert repair(database.path, NOW).uncertain and len(database.all("SELECT * FROM tasks")) == 1


# ------------------------------------------------------------------------------------------ files


def test_kept_files_have_names_of_their_own(database: Database) -> None:
    database.tasks({})
    for _ in range(3):
        repair(database.path, NOW)
    names = [f"tasks.db.damaged-{STAMP}{end}" for end in ("", ".1", ".2")]
    database.path.with_name(f"{names[0]}-wal").write_bytes(b"")
    assert [path.name for path in copies(database.path)] == names


def test_a_disk_is_not_filled_with_copies(database: Database) -> None:
    database.tasks({})
    for _ in range(10):
        repair(database.path, NOW)
    with pytest.raises(StoreError, match="10 damaged files are kept beside it already"):
        repair(database.path, NOW)
    assert len(copies(database.path)) == 10 and len(database.all("SELECT * FROM tasks")) == 1


def test_the_log_goes_with_the_damaged_file_and_the_index_of_the_log_goes(database: Database) -> None:
    database.tasks({})
    wal, shm = (database.path.with_name(f"tasks.db{end}") for end in ("-wal", "-shm"))
    wal.write_bytes(b"")
    shm.write_bytes(b"x")
    kept = repair(database.path, NOW).kept
    assert not wal.exists() and not shm.exists() and kept.with_name(f"{kept.name}-wal").exists()
    assert sorted(path.name for path in database.path.parent.iterdir()) == [
        "tasks.db", kept.name, f"{kept.name}-wal",
    ]  # fmt: skip


def test_a_file_without_a_row_of_ours_is_left(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.write_bytes(bytes(3 * PAGE))
    with pytest.raises(StoreError, match=r"tasks.db cannot be read: it has no rows of ZeroTask"):
        repair(path, NOW)
    assert [each.name for each in tmp_path.iterdir()] == ["tasks.db"] and path.read_bytes() == bytes(3 * PAGE)
