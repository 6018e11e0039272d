"""Tests the store: answers after commits, one bad job among good ones, a full disk, folders that cannot be used."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
from running_store import PATIENCE, Running, state_of, submitting

from zerotask import errors
from zerotask.storage import database, reader, schema, writer
from zerotask.storage.database import Store
from zerotask.storage.schema import StoreError
from zerotask.storage.task_table import SqlTaskTable
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import Options, Submission
from zerotask.wire.jsonrpc import encode


@pytest.fixture
def running(tmp_path):
    one = Running(tmp_path / "state")
    yield one
    one.end()


def test_an_answer_comes_after_the_commit(running):
    """Another connection sees the row when the answer is delivered."""
    seen = []

    def done(value, error):
        with sqlite3.connect(running.store.path) as other:
            seen.extend(other.execute("SELECT id FROM tasks"))
        other.close()

    running.store.write(submitting("t"), done)
    running.until(lambda: seen)
    assert seen == [("t",)]


def test_jobs_run_in_order_and_notices_come_with_the_commit(running):
    told = running.run(submitting("a"), submitting("b"), lambda ledger, now: ledger.claim("a", "n", 1, now) is not None)
    assert told == [("a", None), ("b", None), (True, None)]
    assert [(notice.task.id, notice.task.state) for notice in running.notices] == [
        ("a", "queued"),
        ("b", "queued"),
        ("a", "assigned"),
    ]


def test_many_jobs_share_a_transaction(running):
    """300 submissions in one turn of the reactor are a few transactions, not 300."""
    log = []
    running.store.on_notices.subscribe(lambda notices, wall: log.append(len(notices)))
    running.run(*(submitting(f"t{number}") for number in range(300)))
    assert sum(log) == 300 and max(log) <= database.BATCH_JOBS and len(log) < 100


def test_a_refusal_is_an_answer_and_costs_the_others_nothing(running):
    assert running.run(submitting("t"), submitting("t"), submitting("u")) == [
        ("t", None),
        (None, errors.TASK_TAKEN),
        ("u", None),
    ]


def test_a_job_with_a_bug_costs_only_itself(running):
    """A job with a bug leaves nothing, also not what it had written before."""

    def buggy(ledger, now):
        submitting("half")(ledger, now)
        raise ZeroDivisionError

    told = running.run(submitting("a"), buggy, submitting("b"))
    assert told == [("a", None), (None, errors.INTERNAL), ("b", None)]
    assert running.run(state_of("a"), state_of("half"), state_of("b"), reading=True) == [
        ("queued", None),
        (None, errors.TASK_UNKNOWN),
        ("queued", None),
    ]


def test_what_was_answered_is_there_again(tmp_path):
    one = Running(tmp_path / "state")
    one.run(submitting("t", b'["' + b"x" * 5000 + b'"]'), lambda ledger, now: ledger.claim("t", "n", 7, now) and None)
    one.run(lambda ledger, now: ledger.table.save_policy("m", encode({"priority": 9})))
    one.end()
    again = Running(tmp_path / "state")
    assert again.found.leases == [(7, "n")]
    assert again.found.policies == {"m": b'{"priority":9}'}
    assert again.run(lambda ledger, now: len(ledger.table.params(ledger.task("t", now))), reading=True) == [
        (5004, None)
    ]
    again.end()


def replace_connect(monkeypatch, connect):
    """Let the writer and the reader open their connections with this function."""
    for module in (database, reader, writer):
        monkeypatch.setattr(module, "connect", connect)


@pytest.fixture
def small_disk(monkeypatch):
    """Return `full`: while its item is true the database cannot grow, and SQLite reports a full disk."""
    full, connect = [False], schema.connect

    def connecting(path):
        connection = connect(path)
        if full[0]:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    replace_connect(monkeypatch, connecting)
    monkeypatch.setattr(database, "PROBE_EVERY", 0.05)
    return full


def test_a_full_disk_is_told_loses_nothing_and_passes(running, small_disk):
    """A full disk is told as STORING_FAILED for the whole transaction; reads go on, and writing works
    again with room.
    """
    running.run(submitting("kept"))
    small_disk[0] = True
    running.run(lambda ledger, now: ledger.table.connection.close())  # so that the next transaction opens a new one
    big = b'["' + b"x" * 200_000 + b'"]'
    assert running.run(submitting("lost", big), submitting("too")) == [(None, errors.STORING_FAILED)] * 2
    assert len(running.troubles) >= 1 and isinstance(running.troubles[0], str)
    assert running.run(state_of("kept"), state_of("lost"), reading=True) == [
        ("queued", None),
        (None, errors.TASK_UNKNOWN),
    ]
    small_disk[0] = False
    running.until(lambda: running.troubles[-1] is None)
    assert running.run(submitting("lost", big)) == [("lost", None)]


class Failing:
    """Wraps a connection whose disk fails at a statement that begins with one of `words`."""

    def __init__(self, connection, words):
        self._connection, self._words = connection, words

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, *values):
        if statement.startswith(tuple(self._words)):
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *values)


@pytest.mark.parametrize("words", [["COMMIT"], ["INSERT INTO tasks"], ["BEGIN"], ["UPDATE"]], ids=str)
def test_an_io_error_anywhere_is_told_and_undoes_the_whole_transaction(running, monkeypatch, words):
    """An io error undoes the whole transaction with its notices; what was acknowledged is there, reads go on, and it
    passes.
    """
    failing, connect = [], schema.connect
    replace_connect(monkeypatch, lambda path: Failing(connect(path), failing))
    monkeypatch.setattr(database, "PROBE_EVERY", 0.05)
    running.run(submitting("kept"))
    failing.extend(words)
    before = len(running.notices)
    claim = lambda ledger, now: ledger.claim("kept", "n", 1, now) is not None  # noqa: E731
    assert running.run(submitting("lost"), claim) == [(None, errors.STORING_FAILED)] * 2
    assert len(running.notices) == before and "disk I/O error" in running.troubles[-1]
    assert running.run(state_of("kept"), state_of("lost"), reading=True) == [
        ("queued", None),
        (None, errors.TASK_UNKNOWN),
    ]
    failing.clear()
    if running.troubles[-1] is not None:
        running.until(lambda: running.troubles[-1] is None)
    assert running.run(submitting("lost"), claim) == [("lost", None), (True, None)]


def test_a_read_error_is_told_and_passes(running, monkeypatch):
    failing, connect = ["SELECT"], schema.connect
    replace_connect(monkeypatch, lambda path: Failing(connect(path), failing))
    assert running.run(submitting("t")) == [(None, errors.STORING_FAILED)]
    assert running.run(state_of("t"), reading=True) == [(None, errors.STORING_FAILED)]
    failing.clear()
    assert running.run(submitting("t")) == [("t", None)]
    assert running.run(state_of("t"), reading=True) == [("queued", None)]


class Gate:
    """Holds the writer's thread up inside a job until it is opened."""

    def __init__(self):
        self.entered, self._opened = threading.Event(), threading.Event()

    def job(self, ledger, now):
        self.entered.set()
        assert self._opened.wait(PATIENCE)

    def open(self):
        self._opened.set()


def told_by(running, *calls):
    """Return the answers to `(write or read, job)` calls that are made at once, in the order in which they come."""
    told = []
    for number, (call, job) in enumerate(calls):
        call(job, lambda value, error, number=number: told.append((number, value, error and error.code)))
    running.turn()
    return told


def test_a_read_sees_the_writes_that_came_before_it(running):
    """A read waits for the writes before it while the writer is busy, and for none that come after it."""
    gate, store = Gate(), running.store
    running.run(submitting("t"))
    claim = lambda ledger, now: ledger.claim("t", "n", 1, now) is not None  # noqa: E731
    told = told_by(
        running, (store.write, gate.job), (store.write, claim), (store.read, state_of("t")), (store.write, lambda *_: 7)
    )
    unordered = []
    store.read(state_of("t"), lambda value, error: unordered.append(value), current=False)
    running.until(lambda: unordered)
    assert (unordered, told) == (["queued"], [])
    gate.open()
    running.until(lambda: len(told) == 4)
    assert [entry for entry in told if entry[0] == 2] == [(2, "assigned", None)]
    assert running.run(state_of("t"), reading=True) == [("assigned", None)]  # with no write pending, at once


def test_reads_that_wait_for_writes_are_answered_when_the_store_ends(tmp_path):
    one, gate = Running(tmp_path / "state"), Gate()
    write, read = one.store.write, one.store.read
    told = told_by(one, (write, gate.job), (write, submitting("t")), (read, state_of("t")))
    gate.entered.wait(PATIENCE)
    one.store.end()
    gate.open()
    one.end()
    assert [value for _, value, error in told] == [None, "t", "queued"] and one.store.pending == 0


def test_a_slow_reader_has_little_in_memory(running):
    """Big results that nobody takes off the store's hands stay on disk: the store reads a bounded number ahead."""
    asked = []

    def read(ledger, now):
        asked.append(now)
        return True, b"x" * 1_000

    for _ in range(500):
        running.store.read(read, lambda value, error: None)
    running.turn()
    until = time.monotonic() + PATIENCE
    while len(asked) < database.READ_JOBS * database.READ_AHEAD:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.3)  # in which it would go on
    assert len(asked) == database.READ_JOBS * database.READ_AHEAD
    running.until(lambda: not running.store.pending)
    assert len(asked) == 500


def test_a_folder_has_one_broker(tmp_path, running):
    with pytest.raises(StoreError, match="in use by another broker"):
        Store(running.store.folder, lambda call: None, lambda call: None).open()


def test_tasks_are_their_owners_alone(tmp_path):
    """The files of the store are closed to others, also in a folder that was there and is open to all."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    one = Running(folder)
    one.run(submitting("t"))
    modes = {path.name: path.stat().st_mode & 0o077 for path in folder.glob("tasks.db*")}
    one.end()
    assert modes == {"tasks.db": 0, "tasks.db-wal": 0, "tasks.db-shm": 0}


def test_a_newer_database_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "tasks.db") as database:
        database.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    database.close()
    with pytest.raises(StoreError, match="newer ZeroTask"):
        Store(tmp_path, lambda call: None, lambda call: None).open()


def test_what_is_no_database_is_said_so(tmp_path):
    (tmp_path / "tasks.db").write_bytes(b"something else " * 1000)
    with pytest.raises(StoreError, match="cannot be"):
        Store(tmp_path, lambda call: None, lambda call: None).open()


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another --state"):
        Store(tmp_path / "file" / "state", lambda call: None, lambda call: None).open()


def test_queries_of_the_queue_use_their_indexes():
    """A query of the queue uses an index: with a million tasks a table scan would stop the broker."""
    connection = schema.connect(":memory:")
    connection.executescript(schema.SCHEMA)
    seen = []
    connection.set_trace_callback(seen.append)
    one = SqlTaskTable(connection)
    one.due_tasks("m", 1.0, 5), one.newly_due((0.0, 0), 1.0, 5), one.next_due(1.0), one.queued_methods(5), one.leases()
    one.find("t"), list(one.under_lease(1, 5)), list(one.expired(1.0, 5)), list(one.overrun(1.0, 1.0, 5))
    connection.set_trace_callback(None)
    plans = [" ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")) for query in seen]
    connection.close()
    assert len(plans) == 9
    assert [plan for plan in plans if "INDEX" not in plan] == []


def test_the_ledger_of_the_writer_is_the_rules_over_sqlite():
    connection = schema.connect(":memory:")
    connection.executescript(schema.SCHEMA)
    ledger = Ledger(SqlTaskTable(connection), lambda: 0.0, encode)
    big = b'["' + b"y" * 2000 + b'"]'
    ledger.submit(Submission("t", "c", "", "m", big, Options()), 0.0)
    assert ledger.claim("t", "n", 1, 0.0)[1] == big
    ledger.finish("t", "n", big, 1.0)
    assert ledger.result("t", 1.0) == (True, big)
    ledger.expire(1e9)
    left = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("tasks", "params", "outcomes")]
    connection.close()
    assert left == [(1,), (0,), (0,)]


# Version 1, as brokers before the columns `returned` and `losses` have made it.
SCHEMA_1 = """
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
PRAGMA user_version = 1;
"""


def _columns(connection, table):
    return [row[1:5] for row in connection.execute(f"PRAGMA table_info({table})")]


def test_a_store_of_the_version_before_is_taken_over_with_all_that_it_holds(tmp_path):
    """A table of the older version becomes what a new one is; tasks, policies and schedules are kept, and the start may
    be repeated.
    """
    path = tmp_path / "tasks.db"
    old = sqlite3.connect(path)
    old.executescript(SCHEMA_1)
    row = ("t", "c", "", "m", 4, 60.0, 3, 9.0, 1.0, 1.0, "assigned", 2, "n", 7, 2.0, 2.0, b'"s"', b"{}", " n ", "", 0.0)
    old.execute(f"INSERT INTO tasks VALUES (5, {', '.join('?' * len(row))}, ?, NULL)", (*row, b"[1]"))
    old.execute("INSERT INTO schedules VALUES ('s', '* * * * *', 'UTC', 'm', ?, ?, 1, 60.0)", (b"[]", b"{}"))
    old.execute("INSERT INTO policies VALUES ('m', ?)", (b"{}",))
    old.commit()
    old.close()
    for _ in range(2):
        schema.prepare(path)
    connection, fresh = schema.connect(path), schema.connect(":memory:")
    fresh.executescript(schema.SCHEMA)
    for (table,) in fresh.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        assert _columns(connection, table) == _columns(fresh, table), table
    table = SqlTaskTable(connection)
    task = table.find("t")
    assert (task.seq, task.attempts, task.lease, task.params, task.returned, task.losses) == (5, 2, 7, b"[1]", 0, 0)
    assert task.failures == 2
    assert [(one.name, one.done, one.ahead) for one in table.schedules()] == [("s", 60.0, 0.0)]
    assert table.policies() == {"m": b"{}"} and table.leases() == [(7, "n")]
    connection.close(), fresh.close()
