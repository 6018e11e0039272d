"""Makes a damaged database anew from the rows that can be read, and keeps the damaged file beside it.

Runs where no connection to the database is open. A task whose row, params or outcome cannot be read is put aside: its
id, which the index of ids may still tell, goes into the table `damaged`.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from attrs import define, field, frozen

from groundwork.atomic_write import sync_folder
from zerotask.storage.faults import Damage, sentence
from zerotask.storage.pages import LEAF_TABLE, LOG_HEADER, Pages, Tree, Unreadable, Value, frames, is_sound_log
from zerotask.storage.schema import SCHEMA, SCHEMA_VERSION, StoreError, connect
from zerotask.tasks.task import STATES

MOST_COPIES = 10  # damaged files that are kept; a disk that damages more is not worth a further one
ID_INDEX = "sqlite_autoindex_tasks_1"
_KINDS: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (int, float), "BLOB": (bytes,)}
_JSON = ("params", "outcome", "status", "detail", "policy", "options")


@frozen
class _Column:
    name: str
    kinds: tuple[type, ...]
    default: Value


@frozen
class _Table:
    """Describes a table of the schema; `keyed` if its first column is the rowid."""

    name: str
    columns: tuple[_Column, ...]
    keyed: bool

    def row(self, rowid: int, values: list[Value]) -> list[Value] | None:
        """Return a row as it is to be stored; None if it cannot be one of this table."""
        missing = self.columns[len(values) :]
        if len(values) > len(self.columns) or any(column.default is None for column in missing):
            return None
        values = [*values, *(column.default for column in missing)]
        if self.keyed:
            values[0] = rowid
        return values if all(map(_fits, self.columns, values)) else None


def _fits(column: _Column, value: Value) -> bool:
    if not isinstance(value, column.kinds):
        return False
    if column.name == "state" and value not in STATES:
        return False
    if column.name in _JSON and isinstance(value, bytes):
        try:
            msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
    return True


def _tables(db: sqlite3.Connection) -> list[_Table]:
    found = []
    for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid").fetchall():
        info = db.execute(f"PRAGMA table_info({name})").fetchall()
        columns = tuple(
            _Column(
                name=each,
                kinds=_KINDS[kind] if needed or key else (*_KINDS[kind], type(None)),
                default=None if default is None else int(default),
            )
            for _, each, kind, needed, default, key in info
        )
        found.append(_Table(name, columns, info[0][2] == "INTEGER" and info[0][5] == 1))
    return found


def mend_log(path: Path, now: float) -> Damage | None:
    """Repair a database whose write-ahead log is damaged, which SQLite would cut off at that place without a word.

    It is looked at before SQLite opens the database. `now`: unix seconds. Return what was done; None if it is sound.
    Raises StoreError if the repair fails.
    """
    log = path.with_name(f"{path.name}-wal")
    wanted = len(frames(log))
    if not wanted:
        return None
    aside = path.with_name(f"{log.name}.looked-at")
    try:
        shutil.copy2(log, aside)
        if _readable_frames(path, log) >= wanted:
            return None
        os.replace(aside, log)
    except OSError as error:
        raise StoreError(f"{path} cannot be looked at: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
    return repair(path, now)


def _readable_frames(path: Path, log: Path) -> int:
    """Return how many frames of the log SQLite reads; it copies them into the database, and deletes the log."""
    with open(log, "rb") as file:
        if not is_sound_log(file.read(LOG_HEADER)):
            return 0
    try:
        with closing(connect(path)) as connection:
            return int(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])
    except sqlite3.Error:
        return 0


def repair(path: Path, now: float) -> Damage:
    """Make the database anew and return what was lost. `now`: unix seconds, for the name of the kept file.

    Raises StoreError if that fails; the damaged file is in its place then.
    """
    if len(copies(path)) >= MOST_COPIES:
        raise StoreError(
            f"{path} is damaged, and {MOST_COPIES} damaged files are kept beside it already: move the folder to a sound"
            " disk, and delete them"
        )
    new, kept = path.with_name(f"{path.name}.new"), _name_of_copy(path, now)
    try:
        pages = Pages(path, path.with_name(f"{path.name}-wal"))
        try:
            damage = _make(pages, new, kept, now)
        finally:
            pages.close()
        _exchange(path, new, kept)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path} is damaged and cannot be made anew: {sentence(error)}") from error
    finally:
        _unlink(new)
    return damage


def copies(path: Path) -> list[Path]:
    """Return the damaged files that are kept beside a database."""
    return sorted(each for each in path.parent.glob(f"{path.name}.damaged-*") if not each.name.endswith("-wal"))


def _name_of_copy(path: Path, now: float) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    names = (f"{path.name}.damaged-{stamp}{f'.{number}' if number else ''}" for number in range(MOST_COPIES + 1))
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _exchange(path: Path, new: Path, kept: Path) -> None:
    """Put the new file in the place of the damaged one. Its log goes first: it would be read as the new one's."""
    try:
        os.link(path, kept)
    except OSError:
        shutil.copy2(path, kept)
    log, shared = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    if log.exists():
        os.replace(log, kept.with_name(f"{kept.name}-wal"))
    shared.unlink(missing_ok=True)
    os.replace(new, path)
    sync_folder(path.parent)


def _unlink(path: Path) -> None:
    for end in ("", "-journal"):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)


def _make(pages: Pages, new: Path, kept: Path, now: float) -> Damage:
    _unlink(new)
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(new, isolation_level=None)) as db:
        db.executescript(f"PRAGMA synchronous = FULL; BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION};")
        copying = _Copying(pages, db)
        copying.run()
        if not copying.rows:
            raise StoreError(f"{kept.name.partition('.damaged')[0]} cannot be read: it has no rows of ZeroTask")
        lost = copying.put_aside(now)
        db.execute("COMMIT")
    return Damage(lost, copying.is_uncertain, kept)


@define
class _Copying:
    """Copies the rows that can be read from pages into a new database."""

    pages: Pages
    db: sqlite3.Connection
    rows: int = 0
    _seen: set[int] = field(factory=set)
    _broken: set[str] = field(factory=set)  # tables and indexes with pages or rows that cannot be read

    @property
    def is_uncertain(self) -> bool:
        """Return True if rows may be lost that nothing else names: what the index of ids names is known."""
        return bool(self._broken - {ID_INDEX, "tasks", "params", "outcomes"}) or {ID_INDEX, "tasks"} <= self._broken

    def run(self) -> None:
        """Copy the rows of all tables, and the ids of all tasks that the index names."""
        tables, roots = _tables(self.db), self._roots()
        for table in tables:
            if table.name not in roots:
                continue  # an older version has no such table
            tree = Tree(self.pages)
            self._insert(table, self._sound(table, tree, tree.rows(roots.get(table.name, 0))))
            self._seen |= tree.seen
        self._read_ids(roots.get(ID_INDEX, 0))
        if self._broken & {"tasks", "params", "outcomes"}:
            self._copy_strays({table.name: table for table in tables})

    def _roots(self) -> dict[str, int]:
        """Return the first page of each table and index. Without a list of them they lie where they do in a new one."""
        tree = Tree(self.pages)
        listed = [row for _, row in tree.rows(1) if len(row) == 5]
        self._seen |= tree.seen
        found = {str(row[1]): row[3] for row in listed if isinstance(row[3], int) and row[3] > 0}
        if "tasks" not in found:
            self._broken.add("sqlite_master")
            found = dict(self.db.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0"))
        return {name: int(root) for name, root in found.items()}

    def _sound(self, table: _Table, tree: Tree, rows: Iterable[tuple[int, list[Value]]]) -> Iterator[list[Value]]:
        for rowid, values in rows:
            row = table.row(rowid, values)
            if row is None:
                tree.bad += 1
            else:
                yield row
        if tree.bad:
            self._broken.add(table.name)

    def _insert(self, table: _Table, rows: Iterable[list[Value]]) -> None:
        marks = ", ".join("?" * len(table.columns))
        self.rows += self.db.executemany(f"INSERT OR IGNORE INTO {table.name} VALUES ({marks})", rows).rowcount

    def _read_ids(self, root: int) -> None:
        tree = Tree(self.pages)
        self.db.execute("CREATE TEMP TABLE known (id TEXT PRIMARY KEY) WITHOUT ROWID")
        ids = ((row[0],) for _, row in tree.rows(root) if len(row) == 2 and isinstance(row[0], str))
        self.db.executemany("INSERT OR IGNORE INTO known VALUES (?)", ids)
        if tree.bad:
            self._broken.add(ID_INDEX)

    def _copy_strays(self, tables: dict[str, _Table]) -> None:
        """Copy the rows of pages to which nothing leads: a bad page may have led there. Free pages are left out.

        A task that the sound index of ids does not name was deleted.
        """
        free = self.pages.free()
        tasks: list[tuple[int, list[Value]]] = []
        bodies: list[tuple[int, list[Value]]] = []
        for number in range(2, self.pages.count + 1):
            if number in self._seen or number in free:
                continue
            for rowid, values in self._stray_rows(number):
                (bodies if len(values) == 2 else tasks).append((rowid, values))
        found = [row for rowid, values in tasks if (row := tables["tasks"].row(rowid, values))]
        if ID_INDEX not in self._broken:
            found = [row for row in found if self.db.execute("SELECT 1 FROM known WHERE id = ?", (row[1],)).fetchone()]
        self._insert(tables["tasks"], found)
        for name, condition in (("params", _LACKS_PARAMS), ("outcomes", _LACKS_OUTCOME)):
            if name not in self._broken or (name == "outcomes" and "params" in self._broken):
                continue  # of both tables nothing would tell a result from params
            wanted = {seq for (seq,) in self.db.execute(f"SELECT seq FROM tasks WHERE {condition}")}
            self._insert(
                tables[name],
                [row for rowid, values in bodies if rowid in wanted and (row := tables[name].row(rowid, values))],
            )

    def _stray_rows(self, number: int) -> Iterator[tuple[int, list[Value]]]:
        try:
            page = self.pages.read(number)
        except Unreadable:
            return
        if page[0] == LEAF_TABLE:
            yield from Tree(self.pages).on_page(number, page, [])

    def put_aside(self, now: float) -> tuple[str, ...]:
        """Delete the tasks that lack a part, and note the ids of all that are lost. `now`: unix seconds."""
        sql = self.db.execute
        sql("UPDATE tasks SET params = CAST('null' AS BLOB) WHERE state IN ('finished', 'failed') AND " + _NO_PARAMS)
        halves = sql(f"DELETE FROM tasks WHERE {_LACKS_PARAMS} OR {_LACKS_OUTCOME} RETURNING id").fetchall()
        self.db.executemany("INSERT OR IGNORE INTO known VALUES (?)", halves)
        for table in ("params", "outcomes"):
            sql(f"DELETE FROM {table} WHERE seq NOT IN (SELECT seq FROM tasks)")
        lost = sql("SELECT id FROM known WHERE id NOT IN (SELECT id FROM tasks) ORDER BY id").fetchall()
        self.db.executemany("INSERT OR IGNORE INTO damaged VALUES (?, ?)", [(task_id, now) for (task_id,) in lost])
        return tuple(task_id for (task_id,) in lost)


_NO_PARAMS = "params IS NULL AND seq NOT IN (SELECT seq FROM params)"
_LACKS_PARAMS = f"(state IN ('queued', 'assigned', 'running') AND {_NO_PARAMS})"
_LACKS_OUTCOME = "(state IN ('finished', 'failed') AND outcome IS NULL AND seq NOT IN (SELECT seq FROM outcomes))"
