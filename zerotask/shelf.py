"""Tasks in SQLite: the schema, and the Shelf that the ledger's rules work on.

One connection, one thread at a time; transactions are begun and ended by `store`. Big parameters and outcomes lie in
tables of their own, because SQLite rewrites a whole row for each change of state and they may be megabytes.
"""

from __future__ import annotations

import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path

from attrs import frozen
from msgspec import Struct
from msgspec.structs import replace

from zerotask.ledger import COLUMNS, Task

SCHEMA_VERSION = 1
BUSY_TIMEOUT = 5.0  # seconds; only a backup by a foreign program ever makes us wait
INLINE = 1_024  # bytes of params or outcome that lie in the task's own row; more would spill over its page
CACHED_TASKS = 4_096  # rows kept as values: tasks in flight are looked at four times within milliseconds
MISSED_KEPT = 1_000  # missed runs of one schedule that stay on record
CACHE_KIB = 32_768  # SQLite's own page cache: the index pages of a million queued tasks stay warm

SCHEMA = """
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, client TEXT NOT NULL, key TEXT NOT NULL,
    method TEXT NOT NULL, priority INTEGER NOT NULL, time_limit REAL NOT NULL, max_attempts INTEGER NOT NULL,
    result_ttl REAL NOT NULL, submitted REAL NOT NULL, due REAL NOT NULL, state TEXT NOT NULL,
    attempts INTEGER NOT NULL, node TEXT, lease INTEGER NOT NULL, claimed REAL NOT NULL, updated REAL NOT NULL,
    status BLOB NOT NULL, detail BLOB NOT NULL, lost_by TEXT NOT NULL, failed_by TEXT NOT NULL, expires REAL NOT NULL,
    params BLOB, outcome BLOB
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
    options BLOB NOT NULL, catch_up INTEGER NOT NULL, done REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE missed (name TEXT NOT NULL, due REAL NOT NULL, noticed REAL NOT NULL, PRIMARY KEY (name, due)) WITHOUT
ROWID; CREATE TABLE probe (id INTEGER PRIMARY KEY, at REAL NOT NULL);
"""

_FIND = f"SELECT {', '.join(COLUMNS)} FROM tasks"
_ADDED = COLUMNS[1:]
_ADD = f"INSERT INTO tasks ({', '.join(_ADDED)}) VALUES ({', '.join('?' * len(_ADDED))})"
_added = attrgetter(*_ADDED)
# What a life changes; the rest of a row stays as it was submitted.
_CHANGING = (
    *("due", "state", "attempts", "node", "lease", "claimed", "updated", "status", "detail", "lost_by", "failed_by"),
    *("expires", "params", "outcome"),
)
_SAVE = f"UPDATE tasks SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE seq = ?"
_saved = attrgetter(*_CHANGING, "seq")


class StoreError(Exception):
    """The folder or the database cannot be used; the text says why and what to do."""


class Waiting(Struct, frozen=True):
    """A queued task, as far as announcing it needs."""

    id: str
    method: str
    priority: int
    seq: int
    due: float


@frozen
class Schedule:
    """A cron line and what it submits. `done` is the time up to which it has been dealt with."""

    name: str
    line: str
    zone: str
    method: str
    params: bytes
    options: bytes
    catch_up: bool
    done: float


def connect(path: Path) -> sqlite3.Connection:
    """A connection with all settings made; autocommit, so that transactions are ours to begin."""
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # `store` does it when nobody waits for a reply
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare(path: Path) -> None:
    """Make the database, or see that it is one of ours. StoreError if it is not.

    Its owner's alone, whatever the folder and the umask are: its log and index get the modes that it has.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = connect(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{path} cannot be opened as a database: {error}") from error
    try:
        _make(connection, path)
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be prepared: {error}") from error
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


class SqlShelf:
    """ledger.Shelf over a connection."""

    def __init__(self, connection: sqlite3.Connection, cached: int = CACHED_TASKS) -> None:
        self.connection = connection
        self._sql = connection.execute
        self._cache: OrderedDict[str, Task] = OrderedDict()
        self._cached = cached

    def forget_cache(self) -> None:
        """After a rollback the values are ahead of the rows."""
        self._cache.clear()

    def _keep(self, task: Task) -> None:
        if self._cached:
            self._cache[task.id] = task
            if len(self._cache) > self._cached:
                self._cache.popitem(last=False)

    # -------------------------------------------------------------------------------- what the rules need

    def find(self, task_id: str) -> Task | None:
        task = self._cache.get(task_id)
        if task is None:
            row = self._sql(f"{_FIND} WHERE id = ?", (task_id,)).fetchone()
            task = None if row is None else Task(*row)
        return task

    def add(self, task: Task) -> Task:
        params, big = task.params, len(task.params or b"") > INLINE
        task = replace(task, params=None) if big else task
        cursor = self._sql(_ADD, _added(task))
        task = replace(task, seq=cursor.lastrowid)
        if big:
            self._sql("INSERT INTO params VALUES (?, ?)", (task.seq, params))
        self._keep(task)
        return task

    def save(self, task: Task) -> None:
        self._sql(_SAVE, _saved(task))
        self._keep(task)

    def conclude(self, task: Task) -> None:
        outcome = task.outcome
        if len(outcome or b"") > INLINE:
            task = replace(task, outcome=None)
            self._sql("INSERT OR REPLACE INTO outcomes VALUES (?, ?)", (task.seq, outcome))
        self.save(task)

    def strip(self, task: Task) -> None:
        self.save(task)
        self._drop_bodies(task)

    def drop(self, task: Task) -> None:
        self._sql("DELETE FROM tasks WHERE seq = ?", (task.seq,))
        self._drop_bodies(task)
        self._cache.pop(task.id, None)

    def _drop_bodies(self, task: Task) -> None:
        self._sql("DELETE FROM params WHERE seq = ?", (task.seq,))
        self._sql("DELETE FROM outcomes WHERE seq = ?", (task.seq,))

    def params(self, task: Task) -> bytes:
        if task.params is not None:
            return task.params
        (params,) = self._sql("SELECT params FROM params WHERE seq = ?", (task.seq,)).fetchone()
        return bytes(params)

    def outcome(self, task: Task) -> bytes:
        if task.outcome is not None:
            return task.outcome
        (outcome,) = self._sql("SELECT outcome FROM outcomes WHERE seq = ?", (task.seq,)).fetchone()
        return bytes(outcome)

    def held(self, lease: int, limit: int) -> Iterable[Task]:
        return self._tasks("WHERE lease = ? AND lease > 0 ORDER BY seq LIMIT ?", lease, limit)

    def overrun(self, now: float, grace: float, limit: int) -> Iterable[Task]:
        return self._tasks("WHERE lease > 0 AND claimed + time_limit + ? <= ? ORDER BY seq LIMIT ?", grace, now, limit)

    def past(self, now: float, limit: int) -> Iterable[Task]:
        return self._tasks("WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT ?", now, limit)

    def _tasks(self, where: str, *values: float) -> list[Task]:
        return [Task(*row) for row in self._sql(f"{_FIND} {where}", values)]

    # -------------------------------------------------------------------------------- what the broker needs

    def leases(self) -> list[tuple[int, str]]:
        """Lease and node of all that is held."""
        return list(self._sql("SELECT DISTINCT lease, node FROM tasks WHERE lease > 0 ORDER BY lease"))

    def waiting_methods(self, limit: int) -> list[str]:
        """Methods of all that is queued, due or not. From one to the next, not over all that lies between them."""
        rows = self._sql(
            "WITH RECURSIVE waiting (method) AS ("
            " SELECT min(method) FROM tasks INDEXED BY tasks_queue WHERE state = 'queued' UNION ALL"
            " SELECT (SELECT min(method) FROM tasks INDEXED BY tasks_queue WHERE state = 'queued'"
            " AND method > waiting.method) FROM waiting WHERE waiting.method IS NOT NULL LIMIT ?"
            ") SELECT method FROM waiting WHERE method IS NOT NULL",
            (limit,),
        )
        return [row[0] for row in rows]

    def heads(self, method: str, now: float, limit: int) -> list[Waiting]:
        """What waits and is due, in the order in which it should be worked on."""
        rows = self._sql(
            "SELECT id, method, priority, seq, due FROM tasks INDEXED BY tasks_queue"
            " WHERE state = 'queued' AND method = ? AND due <= ? ORDER BY priority DESC, seq LIMIT ?",
            (method, now, limit),
        )
        return [Waiting(*row) for row in rows]

    def woken(self, after: tuple[float, int], now: float, limit: int) -> list[Waiting]:
        """What has become due, in that order, behind the (due, seq) of the last one seen."""
        rows = self._sql(
            "SELECT id, method, priority, seq, due FROM tasks INDEXED BY tasks_delayed"
            " WHERE state = 'queued' AND due > submitted AND (due, seq) > (?, ?) AND due <= ?"
            " ORDER BY due, seq LIMIT ?",
            (*after, now, limit),
        )
        return [Waiting(*row) for row in rows]

    def next_due(self, now: float) -> float | None:
        """When the next delayed task becomes due."""
        (due,) = self._sql(
            "SELECT min(due) FROM tasks INDEXED BY tasks_delayed"
            " WHERE state = 'queued' AND due > submitted AND due > ?",
            (now,),
        ).fetchone()
        return due

    def counts(self) -> dict[str, int]:
        """Tasks by state."""
        return dict(self._sql("SELECT state, count(*) FROM tasks GROUP BY state ORDER BY state"))

    def page(self, state: str | None, method: str | None, before: int, limit: int) -> list[Task]:
        """Tasks for an operator, newest first, those with a smaller seq than `before`."""
        values: list[str | int] = [before]
        where = "WHERE seq < ?"
        for column, value in (("state", state), ("method", method)):
            if value is not None:
                where += f" AND {column} = ?"
                values.append(value)
        rows = self._sql(f"{_FIND} {where} ORDER BY seq DESC LIMIT ?", [*values, limit])
        return [Task(*row) for row in rows]

    def policies(self) -> dict[str, bytes]:
        return {method: bytes(policy) for method, policy in self._sql("SELECT method, policy FROM policies")}

    def note_policy(self, method: str, policy: bytes) -> None:
        self._sql("INSERT OR REPLACE INTO policies VALUES (?, ?)", (method, policy))

    def schedules(self) -> list[Schedule]:
        rows = self._sql(
            "SELECT name, line, zone, method, params, options, catch_up, done FROM schedules ORDER BY name"
        )
        return [Schedule(*row[:6], bool(row[6]), row[7]) for row in rows]

    def put_schedule(self, s: Schedule) -> None:
        row = (s.name, s.line, s.zone, s.method, s.params, s.options, int(s.catch_up), s.done)
        self._sql("INSERT OR REPLACE INTO schedules VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def drop_schedule(self, name: str) -> bool:
        """Whether there was one."""
        self._sql("DELETE FROM missed WHERE name = ?", (name,))
        return self._sql("DELETE FROM schedules WHERE name = ?", (name,)).rowcount > 0

    def missed(self, name: str) -> list[float]:
        """Times at which a schedule should have run and did not, newest first."""
        return [row[0] for row in self._sql("SELECT due FROM missed WHERE name = ? ORDER BY due DESC", (name,))]

    def note_missed(self, name: str, due: Iterable[float], now: float) -> None:
        """The newest MISSED_KEPT stay on record."""
        rows = [(name, time, now) for time in due][-MISSED_KEPT:]
        self.connection.executemany("INSERT OR IGNORE INTO missed VALUES (?, ?, ?)", rows)
        self._sql(
            "DELETE FROM missed WHERE name = ?1 AND due NOT IN"
            " (SELECT due FROM missed WHERE name = ?1 ORDER BY due DESC LIMIT ?2)",
            (name, MISSED_KEPT),
        )

    def probe(self, now: float) -> None:
        """A write of a page, to see whether writing works."""
        self._sql("INSERT OR REPLACE INTO probe VALUES (1, ?)", (now,))
