"""Tests helen.storage.database: order, batches, faults of one call and of the disk, the lock."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, gatherResults

from helen.files.state_dir import StateError, StateLocked
from helen.storage import agent_rows, database
from helen.storage.database import Loaded, Store, StoreClosed, StoreFailed, StoreOverloaded


def reread(folder: Path) -> dict[str, str]:
    """Return the small values as another process sees them."""
    db = sqlite3.connect(folder / "helen.db")
    try:
        return agent_rows.everything(db)
    finally:
        db.close()


def test_a_new_store_is_empty(tmp_path: Path, inbox: Any) -> None:
    """The first start makes the database, with nothing in it."""
    opened = Store(tmp_path / "new" / "state", inbox)
    assert opened.open(now=0) == Loaded((), (), None, (), (), {})
    inbox.wait(opened.close())


def test_what_was_put_is_there_after_a_restart(store: Store, tmp_path: Path, inbox: Any) -> None:
    """A call that has fired is on disk, and `open` brings it back."""
    inbox.wait(store.call(agent_rows.put, "cursor", "7"))
    assert reread(tmp_path) == {"cursor": "7"}
    inbox.wait(store.close())
    again = Store(tmp_path, inbox)
    assert again.open(now=0).kv == {"cursor": "7"}
    inbox.wait(again.close())


def test_calls_answer_in_their_order(store: Store, inbox: Any) -> None:
    """The first caller is answered first, and reads see the writes before them."""
    order: list[Any] = []
    calls = []
    for number in range(50):
        calls.append(store.call(agent_rows.put, "n", str(number)))
        calls.append(store.call(agent_rows.get, "n"))
    for call in calls:
        call.addCallback(order.append)
    inbox.wait(gatherResults(calls))
    assert order == [value for n in range(50) for value in (None, str(n))]


def test_what_waits_together_is_one_transaction(store: Store, inbox: Any) -> None:
    """100 writes that pile up behind a slow one cost one COMMIT, hence one fsync."""
    statements: list[str] = []
    gate = threading.Event()
    inbox.wait(store.call(lambda db: db.set_trace_callback(statements.append)))
    held = store.call(lambda db: gate.wait(20))
    calls = [store.call(agent_rows.put, f"k{n}", "v") for n in range(100)]
    gate.set()
    inbox.wait(gatherResults([held, *calls]))
    assert statements.count("COMMIT") <= 3  # that of the trace itself, the slow call's, and one for all the rest


def test_answers_of_a_batch_come_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a batch that take long are given over several turns, in order, and the end comes after all of them."""
    monkeypatch.setattr(database, "SLICE_SECONDS", 0.0)
    asked: deque[Any] = deque()
    store, heard = Store(tmp_path, lambda function, *given: asked.append(function)), list[int]()
    store._closed, calls = Deferred(), [database._Call(lambda db: None, Deferred()) for _ in range(5)]
    for call in calls:
        call.done.addCallback(heard.append)
    store._closed.addCallback(lambda _: heard.append(-1))
    store._waiting = 5
    store._fire(calls[:3], [0, 1, 2], None)
    assert (heard, store._waiting, len(asked)) == ([0], 4, 1)
    store._fire(calls[3:], [3, 4], "the disk is full")
    assert (heard, store.trouble, len(asked)) == ([0], "the disk is full", 1)
    asked.popleft()()
    assert (heard, len(asked)) == ([0, 1], 1)
    store._fire_closed()
    assert (heard, store._waiting) == ([0, 1, 2, 3, 4, -1], 0)
    asked.popleft()()
    assert (len(heard), len(asked)) == (6, 0)


def test_a_batch_has_an_end(store: Store, inbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than BATCH calls are several transactions; none is lost between them."""
    monkeypatch.setattr("helen.storage.database.BATCH", 10)
    calls = [store.call(agent_rows.put, f"k{n}", str(n)) for n in range(35)]
    inbox.wait(gatherResults(calls))
    assert len(inbox.wait(store.call(agent_rows.everything))) == 35


def test_a_call_that_raises_undoes_itself_alone(store: Store, inbox: Any) -> None:
    """A call that raises undoes itself; others in the same transaction stay."""

    def half(db: sqlite3.Connection) -> None:
        agent_rows.put(db, "half", "written")
        raise LookupError("not this one")

    before, broken, after = (
        store.call(agent_rows.put, "before", "1"),
        store.call(half),
        store.call(agent_rows.put, "after", "1"),
    )
    with pytest.raises(LookupError, match="not this one"):
        inbox.wait(broken)
    inbox.wait(gatherResults([before, after]))
    assert inbox.wait(store.call(agent_rows.everything)) == {"before": "1", "after": "1"}
    assert store.trouble is None


def test_a_full_disk(store: Store, tmp_path: Path, inbox: Any) -> None:
    """All of that transaction fails with a sentence; the store says so, and works again when there is room."""
    inbox.wait(store.call(agent_rows.put, "kept", "1"))
    pages = inbox.wait(store.call(lambda db: db.execute("PRAGMA page_count").fetchone()[0]))
    inbox.wait(store.call(lambda db: db.execute(f"PRAGMA max_page_count = {pages + 1}").fetchone()[0]))
    with pytest.raises(StoreFailed, match=r"helen\.db: database or disk is full"):
        inbox.wait(store.call(agent_rows.put, "big", "x" * 100_000))
    assert store.trouble == f"{tmp_path / 'helen.db'}: database or disk is full"
    inbox.wait(store.call(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchone()[0]))
    inbox.wait(store.call(agent_rows.put, "later", "1"))
    assert store.trouble is None
    assert reread(tmp_path) == {"kept": "1", "later": "1"}


def test_a_disk_that_has_room_again(store: Store, tmp_path: Path, inbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store finds that out by itself, though nothing is written; it stays in trouble until then. (J4)"""
    monkeypatch.setattr("helen.storage.database.PROBE_SECONDS", 0.01)
    inbox.wait(store.call(agent_rows.put, "kept", "1"))
    pages = inbox.wait(store.call(lambda db: db.execute("PRAGMA page_count").fetchone()[0]))
    inbox.wait(store.call(lambda db: db.execute(f"PRAGMA max_page_count = {pages}").fetchone()[0]))
    with pytest.raises(StoreFailed):
        inbox.wait(store.call(agent_rows.put, "big", "x" * 100_000))
    for _ in range(3):
        inbox.take_one()
        assert store.trouble == f"{tmp_path / 'helen.db'}: database or disk is full"
    store._db.execute("PRAGMA max_page_count = 1000000").fetchone()
    for _ in range(1_000):
        if store.trouble is None:
            break
        inbox.take_one()
    assert store.trouble is None
    assert inbox.wait(store.call(agent_rows.everything)) == {"kept": "1"}


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_call_that_ends_the_transaction(store: Store, inbox: Any, statement: str) -> None:
    """A call that ends the transaction fails, as it is a fault of its author's, and the thread lives."""

    def rude(db: sqlite3.Connection) -> None:
        db.execute(statement)
        raise LookupError("after that")

    with pytest.raises(StoreFailed):
        inbox.wait(store.call(rude))
    with pytest.raises(StoreFailed):
        inbox.wait(store.call(lambda db: db.execute(statement).fetchall()))
    inbox.wait(store.call(agent_rows.put, "later", "1"))


def test_too_much_waits(store: Store, inbox: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """MAX_WAITING calls are taken, one more is refused at once."""
    monkeypatch.setattr("helen.storage.database.MAX_WAITING", 3)
    gate = threading.Event()
    taken = [store.call(lambda db: gate.wait(20)) for _ in range(3)]
    with pytest.raises(StoreOverloaded):
        inbox.wait(store.call(agent_rows.get, "x"))
    gate.set()
    inbox.wait(gatherResults(taken))
    assert inbox.wait(store.call(agent_rows.get, "x")) is None


def test_close_finishes_what_was_asked(store: Store, tmp_path: Path, inbox: Any) -> None:
    """Everything before `close` is on disk when it fires; everything after is refused."""
    calls = [store.call(agent_rows.put, f"k{n}", "v") for n in range(600)]
    closed = store.close()
    with pytest.raises(StoreClosed):
        inbox.wait(store.call(agent_rows.get, "x"))
    with pytest.raises(StoreClosed):
        inbox.wait(store.close())
    inbox.wait(closed)
    inbox.wait(gatherResults(calls))
    assert len(reread(tmp_path)) == 600


def test_only_the_owner_can_read(store: Store, tmp_path: Path, inbox: Any) -> None:
    """Database, its log and the lock are 0600."""
    inbox.wait(store.call(agent_rows.put, "k", "v"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"helen.db": 0o600, "helen.db-wal": 0o600, "helen.db-shm": 0o600, "lock": 0o600}


def test_a_second_start_on_one_directory(store: Store, tmp_path: Path, inbox: Any) -> None:
    """A second start is refused with the pid of the first, which goes on unharmed."""
    pid = os.getpid()
    with pytest.raises(StateLocked, match=f"is in use by process {pid}: stop that one"):
        Store(tmp_path, inbox).open(now=0)
    inbox.wait(store.call(agent_rows.put, "k", "v"))


HOLDER = """
import sys
from pathlib import Path
from helen.storage.database import Store
Store(Path(sys.argv[1]), print).open(now=0)
print("open", flush=True)
sys.stdin.read()
"""


def test_a_killed_helen_leaves_no_lock(tmp_path: Path, inbox: Any) -> None:
    """A state directory is refused while another process has it, and free at once when that was killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StateLocked, match=f"process {holder.pid}:"):
            Store(tmp_path, inbox).open(now=0)
        holder.kill()
    opened = Store(tmp_path, inbox)
    opened.open(now=0)
    inbox.wait(opened.close())


# ------------------------------------------------------------------------------------------------ damage


def overwrite(folder: Path, table: str, kind: str, content: bytes) -> None:
    """Overwrite all pages of one kind of a table or index; see sqlite.org/dbstat.html."""
    with closing(sqlite3.connect(folder / "helen.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = db.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ?", (table, kind)).fetchall()
        assert pages
    with open(folder / "helen.db", "r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * 4_096)
            file.write(content * (4_096 // len(content)))


def fill(store: Store, inbox: Any) -> None:
    """Write an audit of many pages, and small things."""
    entry = agent_rows.AuditEntry(1.0, "op", "push", "set", detail="x" * 500)
    inbox.wait(gatherResults([store.call(agent_rows.audit, entry) for _ in range(200)]))
    inbox.wait(store.call(agent_rows.put, "kept", "1"))


@pytest.mark.parametrize("kind", ["leaf", "internal"])
@pytest.mark.parametrize("content", [bytes(64), b"\xa5" * 64], ids=["zeros", "noise"])
def test_damage_fails_the_call_that_meets_it_with_a_sentence_and_stays_told(
    store: Store, tmp_path: Path, inbox: Any, kind: str, content: bytes
) -> None:
    """Others go on, in the same transaction, too; nothing is taken for healthy again before a restart (F64)."""
    fill(store, inbox)
    inbox.wait(store.close())
    overwrite(tmp_path, "audit", kind, content)
    again = Store(tmp_path, inbox)
    assert again.open(now=0).kv == {"kept": "1"}
    before = again.call(agent_rows.put, "before", "1")
    broken = again.call(lambda db: db.execute("SELECT count(detail), max(length(detail)) FROM audit").fetchone())
    after = again.call(agent_rows.put, "after", "1")
    with pytest.raises(
        StoreFailed, match=r"helen\.db is damaged \(.*malformed\): put a backup back with `helen restore`"
    ):
        inbox.wait(broken)
    inbox.wait(gatherResults([before, after]))
    assert inbox.wait(again.call(agent_rows.everything)) == {"kept": "1", "before": "1", "after": "1"}
    assert again.trouble is not None and "is damaged" in again.trouble
    inbox.wait(again.close())


@pytest.mark.parametrize("damage", ["kv", "a part of it", "the rest is missing"])
def test_damage_of_what_the_start_needs_stops_it_with_a_sentence(
    store: Store, tmp_path: Path, inbox: Any, damage: str
) -> None:
    """The state directory is free again, and the file as it was (F64)."""
    fill(store, inbox)
    inbox.wait(store.close())
    if damage == "kv":
        overwrite(tmp_path, "kv", "leaf", b"\x07")
    elif damage == "a part of it":
        overwrite(tmp_path, "certificates", "leaf", bytes(8))
    else:
        os.truncate(tmp_path / "helen.db", 8 * 4_096)
    content = (tmp_path / "helen.db").read_bytes()
    for _ in range(2):
        with pytest.raises(StateError, match=r"helen\.db (is damaged|cannot be read) \(.*malformed\): put a "):
            Store(tmp_path, inbox).open(now=0)
    assert (tmp_path / "helen.db").read_bytes() == content


def test_a_disk_that_lets_nothing_be_undone_ends_no_thread(store: Store, inbox: Any) -> None:
    """ROLLBACK may fail like anything else; the next call is answered all the same (F64)."""
    real = store._db

    class Failing:
        in_transaction = True

        def execute(self, statement: str, *values: Any) -> Any:
            raise sqlite3.OperationalError("disk I/O error")

    store._db = Failing()  # type: ignore[assignment]
    with pytest.raises(StoreFailed, match="disk I/O error"):
        inbox.wait(store.call(agent_rows.put, "n", "1"))
    store._db = real
    inbox.wait(store.call(agent_rows.put, "n", "2"))
    assert store.trouble is None
