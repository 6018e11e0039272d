"""The store: answers after commits, one bad job among good ones, a full disk, folders that cannot be used."""

from __future__ import annotations

import queue
import sqlite3
import time

import pytest

from zerotask import errors, shelf, store
from zerotask.jsonrpc import encode
from zerotask.ledger import Ledger, Options, Order
from zerotask.shelf import SqlShelf, StoreError
from zerotask.store import Store

PATIENCE = 10.0


class Desk:
    """A store whose deliveries are taken by hand, in this thread."""

    def __init__(self, folder):
        self.deliveries = queue.SimpleQueue()
        self.later = []
        self.store = Store(folder, self.deliveries.put, self.later.append)
        self.found = self.store.open()
        self.notices, self.troubles = [], []
        self.store.on_notices = lambda notices, wall: self.notices.extend(notices)
        self.store.on_trouble = self.troubles.append

    def turn(self):
        later, self.later[:] = list(self.later), []
        for call in later:
            call()

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.turn()
            self.deliveries.get(timeout=max(deadline - time.monotonic(), 0.001))()

    def run(self, *jobs, durable=True, reading=False):
        """What the jobs come to: values, or codes of errors."""
        told = [None] * len(jobs)
        for number, job in enumerate(jobs):

            def done(value, error, number=number):
                told[number] = (value, error.code if error else None)

            if reading:
                self.store.read(job, done)
            else:
                self.store.write(job, done, durable)
        self.until(lambda: None not in told)
        return told

    def end(self):
        self.store.end()
        self.store.join()
        while not self.deliveries.empty():
            self.deliveries.get()()


@pytest.fixture
def desk(tmp_path):
    one = Desk(tmp_path / "state")
    yield one
    one.end()


def submitting(task_id, params=b"[]"):
    return lambda ledger, now: ledger.submit(Order(task_id, "c", "", "m", params, Options()), now)


def state_of(task_id):
    return lambda ledger, now: ledger.look(task_id, now).state


def test_an_answer_comes_after_the_commit(desk):
    """Another connection sees the row when the answer is delivered."""
    seen = []

    def done(value, error):
        with sqlite3.connect(desk.store.path) as other:
            seen.extend(other.execute("SELECT id FROM tasks"))
        other.close()

    desk.store.write(submitting("t"), done)
    desk.until(lambda: seen)
    assert seen == [("t",)]


def test_jobs_run_in_order_and_notices_come_with_the_commit(desk):
    told = desk.run(submitting("a"), submitting("b"), lambda ledger, now: ledger.claim("a", "n", 1, now) is not None)
    assert told == [("a", None), ("b", None), (True, None)]
    assert [(notice.task.id, notice.task.state) for notice in desk.notices] == [
        ("a", "queued"),
        ("b", "queued"),
        ("a", "assigned"),
    ]


def test_many_jobs_share_a_transaction(desk):
    """300 submissions in one turn of the reactor are a few transactions, not 300."""
    log = []
    desk.store.on_notices = lambda notices, wall: log.append(len(notices))
    desk.run(*(submitting(f"t{number}") for number in range(300)))
    assert sum(log) == 300 and max(log) <= store.BATCH_JOBS and len(log) < 100


def test_a_refusal_is_an_answer_and_costs_the_others_nothing(desk):
    assert desk.run(submitting("t"), submitting("t"), submitting("u")) == [
        ("t", None),
        (None, errors.TASK_TAKEN),
        ("u", None),
    ]


def test_a_job_with_a_bug_costs_only_itself(desk):
    """Also what it had written before: nothing of it stays."""

    def buggy(ledger, now):
        submitting("half")(ledger, now)
        raise ZeroDivisionError

    told = desk.run(submitting("a"), buggy, submitting("b"))
    assert told == [("a", None), (None, errors.INTERNAL), ("b", None)]
    assert desk.run(state_of("a"), state_of("half"), state_of("b"), reading=True) == [
        ("queued", None),
        (None, errors.TASK_UNKNOWN),
        ("queued", None),
    ]


def test_what_was_answered_is_there_again(tmp_path):
    one = Desk(tmp_path / "state")
    one.run(submitting("t", b'["' + b"x" * 5000 + b'"]'), lambda ledger, now: ledger.claim("t", "n", 7, now) and None)
    one.run(lambda ledger, now: ledger.shelf.note_policy("m", encode({"priority": 9})))
    one.end()
    again = Desk(tmp_path / "state")
    assert again.found.leases == [(7, "n")]
    assert again.found.policies == {"m": b'{"priority":9}'}
    assert again.run(lambda ledger, now: len(ledger.shelf.params(ledger.look("t", now))), reading=True) == [
        (5004, None)
    ]
    again.end()


@pytest.fixture
def small_disk(monkeypatch):
    """The database cannot grow while `full` says so; SQLite reports what it would of a full disk."""
    full, connect = [False], shelf.connect

    def connecting(path):
        connection = connect(path)
        if full[0]:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(store, "connect", connecting)
    monkeypatch.setattr(store, "PROBE_EVERY", 0.05)
    return full


def test_a_full_disk_is_told_loses_nothing_and_passes(desk, small_disk):
    """STORING_FAILED for the whole transaction, trouble told; reads go on; writing works again with room."""
    desk.run(submitting("kept"))
    small_disk[0] = True
    desk.run(lambda ledger, now: ledger.shelf.connection.close())  # so that the next transaction opens a new one
    big = b'["' + b"x" * 200_000 + b'"]'
    assert desk.run(submitting("lost", big), submitting("too")) == [(None, errors.STORING_FAILED)] * 2
    assert len(desk.troubles) >= 1 and isinstance(desk.troubles[0], str)
    assert desk.run(state_of("kept"), state_of("lost"), reading=True) == [("queued", None), (None, errors.TASK_UNKNOWN)]
    small_disk[0] = False
    desk.until(lambda: desk.troubles[-1] is None)
    assert desk.run(submitting("lost", big)) == [("lost", None)]


class Failing:
    """A connection whose disk fails at a statement that begins so."""

    def __init__(self, connection, words):
        self._connection, self._words = connection, words

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, statement, *values):
        if statement.startswith(tuple(self._words)):
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, *values)


@pytest.mark.parametrize("words", [["COMMIT"], ["INSERT INTO tasks"], ["BEGIN"], ["UPDATE"]], ids=str)
def test_an_io_error_anywhere_is_told_and_undoes_the_whole_transaction(desk, monkeypatch, words):
    """No notice of what is not on disk either; what was acknowledged is there, reads go on, and it passes."""
    failing, connect = [], shelf.connect
    monkeypatch.setattr(store, "connect", lambda path: Failing(connect(path), failing))
    monkeypatch.setattr(store, "PROBE_EVERY", 0.05)
    desk.run(submitting("kept"))
    failing.extend(words)
    before = len(desk.notices)
    claim = lambda ledger, now: ledger.claim("kept", "n", 1, now) is not None  # noqa: E731
    assert desk.run(submitting("lost"), claim) == [(None, errors.STORING_FAILED)] * 2
    assert len(desk.notices) == before and "disk I/O error" in desk.troubles[-1]
    assert desk.run(state_of("kept"), state_of("lost"), reading=True) == [("queued", None), (None, errors.TASK_UNKNOWN)]
    failing.clear()
    if desk.troubles[-1] is not None:
        desk.until(lambda: desk.troubles[-1] is None)
    assert desk.run(submitting("lost"), claim) == [("lost", None), (True, None)]


def test_a_read_error_is_told_and_passes(desk, monkeypatch):
    failing, connect = ["SELECT"], shelf.connect
    monkeypatch.setattr(store, "connect", lambda path: Failing(connect(path), failing))
    assert desk.run(submitting("t")) == [(None, errors.STORING_FAILED)]
    assert desk.run(state_of("t"), reading=True) == [(None, errors.STORING_FAILED)]
    failing.clear()
    assert desk.run(submitting("t")) == [("t", None)]
    assert desk.run(state_of("t"), reading=True) == [("queued", None)]


def test_a_slow_reader_has_little_in_memory(desk):
    """Big results that nobody takes off the store's hands stay on disk."""
    asked = []

    def read(ledger, now):
        asked.append(now)
        return True, b"x" * 1_000

    for _ in range(500):
        desk.store.read(read, lambda value, error: None)
    desk.turn()
    time.sleep(0.3)
    assert len(asked) == store.READ_JOBS * store.READ_AHEAD
    desk.until(lambda: not desk.store.pending)
    assert len(asked) == 500


def test_a_folder_has_one_broker(tmp_path, desk):
    with pytest.raises(StoreError, match="in use by another broker"):
        Store(desk.store.folder, lambda call: None, lambda call: None).open()


def test_tasks_are_their_owners_alone(tmp_path):
    """Also in a folder that was there and is open to all."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    one = Desk(folder)
    one.run(submitting("t"))
    modes = {path.name: path.stat().st_mode & 0o077 for path in folder.glob("tasks.db*")}
    one.end()
    assert modes == {"tasks.db": 0, "tasks.db-wal": 0, "tasks.db-shm": 0}


def test_a_newer_database_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "tasks.db") as database:
        database.execute(f"PRAGMA user_version = {shelf.SCHEMA_VERSION + 1}")
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
    """With a million tasks queued a table scan would stop the broker."""
    connection = shelf.connect(":memory:")
    connection.executescript(shelf.SCHEMA)
    seen = []
    connection.set_trace_callback(seen.append)
    one = SqlShelf(connection)
    one.heads("m", 1.0, 5), one.woken((0.0, 0), 1.0, 5), one.next_due(1.0), one.waiting_methods(5), one.leases()
    one.find("t"), list(one.held(1, 5)), list(one.past(1.0, 5)), list(one.overrun(1.0, 1.0, 5))
    connection.set_trace_callback(None)
    plans = [" ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")) for query in seen]
    connection.close()
    assert len(plans) == 9
    assert [plan for plan in plans if "INDEX" not in plan] == []


def test_the_ledger_of_the_writer_is_the_rules_over_sqlite():
    connection = shelf.connect(":memory:")
    connection.executescript(shelf.SCHEMA)
    ledger = Ledger(SqlShelf(connection), lambda: 0.0, encode)
    big = b'["' + b"y" * 2000 + b'"]'
    ledger.submit(Order("t", "c", "", "m", big, Options()), 0.0)
    assert ledger.claim("t", "n", 1, 0.0)[1] == big
    ledger.finish("t", "n", big, 1.0)
    assert ledger.result("t", 1.0) == (True, big)
    ledger.expire(1e9)
    left = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("tasks", "params", "outcomes")]
    connection.close()
    assert left == [(1,), (0,), (0,)]
