"""Tests a damaged database: readable rows go on, and the others are put aside and named, whatever part is damaged
(F64).
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from running_store import Running, state_of, submitting

from groundwork.sqlite_errors import is_damage
from zerotask import errors
from zerotask.storage import repair as repairing
from zerotask.storage import writer
from zerotask.storage.database import Store
from zerotask.storage.faults import sentence
from zerotask.storage.repair import copies
from zerotask.storage.schema import StoreError
from zerotask.storage.task_table import Schedule, sql_table

TASKS = 400
PAGE = 4_096
BIG = b'["' + b"x" * 9_000 + b'"]'  # lies in a table of its own, on pages of its own


def ids(count=TASKS):
    return [f"task-{number:04}" for number in range(count)]


def claiming(task_id):
    return lambda ledger, now: ledger.claim(task_id, "n", 1, now) is not None


def lost_ids(ledger, now):
    return sorted(task_id for task_id, _ in sql_table(ledger).lost_tasks(10_000))


def filled(folder):
    """Return a store that was ended in order, with tasks, big ones among them, a schedule and a policy."""
    one = Running(folder)
    one.run(*(submitting(task_id, BIG if number % 40 == 7 else b"[1]") for number, task_id in enumerate(ids())))
    row = Schedule("nightly", "0 3 * * *", "UTC", "m", b"[]", b"{}", False, 1.0)
    one.run(lambda ledger, now: sql_table(ledger).save_schedule(row))
    one.run(lambda ledger, now: sql_table(ledger).save_policy("m", b'{"priority":9}'))
    return one


def pages_of(path, name, kind):
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = ?", (name, kind))]


def overwrite(path, numbers, content=None):
    with open(path, "r+b") as file:
        for number in numbers:
            file.seek((number - 1) * PAGE)
            file.write(content or random.Random(number).randbytes(PAGE))


def ten_leaves(path):
    overwrite(path, pages_of(path, "tasks", "leaf")[3:23:2])


def zeroed_leaves(path):
    overwrite(path, pages_of(path, "tasks", "leaf")[:2], bytes(PAGE))


def root_of_tasks(path):
    overwrite(path, pages_of(path, "tasks", "internal"))


def leaf_of_ids(path):
    overwrite(path, pages_of(path, "sqlite_autoindex_tasks_1", "leaf")[1:3])


def root_of_ids(path):
    overwrite(path, pages_of(path, "sqlite_autoindex_tasks_1", "internal"))


def queue_index(path):
    overwrite(path, pages_of(path, "tasks_queue", "leaf")[:3])


def bodies(path):
    overwrite(path, pages_of(path, "params", "overflow")[2:4])


def half_a_file(path):
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size * 3 // 5 // PAGE * PAGE + 700)


def first_page(path):
    overwrite(path, [1])


def header(path):
    with open(path, "r+b") as file:
        file.write(bytes(16))


def free_list(path):
    """Damage free pages first, then a list of them that leads anywhere; and a leaf, or nothing would notice."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE filler (x)")
        db.executemany("INSERT INTO filler VALUES (?)", [(bytes(3_000),)] * 50)
        db.execute("DROP TABLE filler")
    with open(path, "r+b") as file:
        file.seek(32)
        file.write((999_999).to_bytes(4, "big"))
    overwrite(path, pages_of(path, "tasks", "leaf")[5:6])


# The damage, and how many tasks it may cost: a leaf has some 45, an index none.
KINDS = {
    ten_leaves: (100, TASKS - 50),
    zeroed_leaves: (60, 120),
    root_of_tasks: (0, 0),
    leaf_of_ids: (0, 0),
    root_of_ids: (0, 0),
    queue_index: (0, 0),
    bodies: (1, 2),
    half_a_file: (10, TASKS - 50),
    first_page: (0, 0),
    header: (0, 0),
    free_list: (30, 60),
}


def check_all(one, least, most):
    """Claim each task: it is there, or it is named as lost. All else works as before."""
    told = one.run(*(claiming(task_id) for task_id in ids()))
    gone = [task_id for task_id, answer in zip(ids(), told, strict=True) if answer == (None, errors.TASK_UNKNOWN)]
    assert [answer for answer in told if answer not in ((True, None), (None, errors.TASK_UNKNOWN))] == []
    assert least <= len(gone) <= most
    assert [trouble for trouble in one.troubles if trouble] == []
    known = one.run(lost_ids)[0][0]
    assert set(known) <= set(gone)
    assert one.run(submitting("fresh"), claiming("fresh")) == [("fresh", None), (True, None)]
    bodies = one.run(*(_params_of(task_id) for task_id in ids() if task_id not in gone), reading=True)
    assert {(value, error) for value, error in bodies} <= {(b"[1]", None), (BIG, None)}
    return gone, known


def _params_of(task_id):
    return lambda ledger, now: ledger.table.params(ledger.task(task_id, now))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_damage_while_no_broker_ran(tmp_path, kind):
    """Damage is noticed at the start or at the first call that meets it; the old file is kept, and the next start is
    clean.
    """
    filled(tmp_path).end()
    path = tmp_path / "tasks.db"
    kind(path)
    before = path.read_bytes()
    one = Running(tmp_path)
    gone, known = check_all(one, *KINDS[kind])
    one.end()
    if kind not in (half_a_file,):
        assert known == gone  # the index of ids is whole
    (kept,) = copies(path)
    assert len(kept.read_bytes()) >= len(before)
    again = Running(tmp_path)
    assert again.damages == [] and again.run(lost_ids)[0][0] == known
    assert again.found.lost == len(known) and (again.found.damage is None) == (not known)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    again.end()


@pytest.mark.parametrize(
    "kind", [ten_leaves, root_of_tasks, leaf_of_ids, half_a_file, first_page], ids=lambda f: f.__name__
)
def test_damage_while_the_broker_runs(tmp_path, kind):
    one = filled(tmp_path)
    one.run(lambda ledger, now: ledger.table.connection.close())  # its next connection has no page in memory
    one.troubles.clear()
    with closing(sqlite3.connect(one.store.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    kind(one.store.path)
    _, known = check_all(one, *KINDS[kind])
    assert len(one.damages) == 1 and len(copies(one.store.path)) == 1
    text, lost = one.damages[0]
    assert list(lost) == known and text.startswith("the database was damaged and was made anew; ")
    assert copies(one.store.path)[0].name in text
    one.end()


def killed(folder):
    """Return the files of a store as a killed broker leaves them: the newest changes are in the log alone."""
    one = filled(folder / "alive")
    with closing(sqlite3.connect(one.store.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for task_id in ids(50):
        one.run(claiming(task_id))
    (folder / "killed").mkdir()
    for name in ("tasks.db", "tasks.db-wal"):
        shutil.copy(folder / "alive" / name, folder / "killed" / name)
    one.end()
    return folder / "killed"


def assigned(one):
    states = one.run(*(state_of(task_id) for task_id in ids(50)), reading=True)
    return [value for value, _ in states].count("assigned")


def log_of(folder, offset, content):
    with open(folder / "tasks.db-wal", "r+b") as file:
        file.seek(offset)
        file.write(content)


def test_a_sound_log_is_taken_over_without_a_word(tmp_path):
    folder = killed(tmp_path)
    one = Running(folder)
    assert (assigned(one), one.found.damage, copies(one.store.path)) == (50, None, [])
    assert sorted(path.name for path in folder.glob("*looked-at*")) == []
    one.end()


@pytest.mark.parametrize("offset", [0, 20, 32 + 24 + 100, 32 + 5 * (24 + PAGE) + 24 + 3_000, 32 + 7 * (24 + PAGE) + 17])
def test_a_damaged_log_of_changes_costs_no_more_than_the_pages_that_are_bad(tmp_path, offset):
    """Changes behind such a place are kept; SQLite would leave out all of them, and say nothing."""
    folder = killed(tmp_path)
    log_of(folder, offset, b"\xa5" * 8)
    one = Running(folder)
    assert one.found.damage is not None and "was damaged and was made anew" in one.found.damage
    (kept,) = copies(one.store.path)
    assert kept.with_name(f"{kept.name}-wal").stat().st_size > 50 * PAGE
    lost = one.run(lost_ids)[0][0]
    assert assigned(one) + len([task_id for task_id in lost if task_id in ids(50)]) == 50
    assert len(lost) <= 50
    one.end()


def test_a_transaction_that_a_kill_cut_short_is_no_damage(tmp_path):
    folder = killed(tmp_path)
    with open(folder / "tasks.db-wal", "r+b") as file:
        file.truncate(folder.joinpath("tasks.db-wal").stat().st_size - 2_000)
    one = Running(folder)
    assert (one.found.damage, copies(one.store.path)) == (None, [])
    one.end()


def test_a_task_that_was_lost_says_so(tmp_path):
    filled(tmp_path).end()
    ten_leaves(tmp_path / "tasks.db")
    one, said = Running(tmp_path), []
    one.run(*(claiming(task_id) for task_id in ids()))
    lost = one.run(lost_ids)[0][0]
    one.store.read(lambda ledger, now: ledger.task(lost[0], now), lambda value, error: said.append(str(error)))
    one.until(lambda: said)
    assert said == [
        f"task {lost[0]} was lost when the broker's database was damaged; submit it again ({errors.TASK_UNKNOWN})"
    ]
    assert one.run(submitting(lost[0]), claiming(lost[0])) == [(lost[0], None), (True, None)]
    assert one.run(lambda ledger, now: sql_table(ledger).forget_lost())[0][0] == len(lost)
    one.end()
    assert Running(tmp_path).found.lost == 0


def test_a_read_that_meets_damage_is_answered_after_the_repair(tmp_path):
    filled(tmp_path).end()
    root_of_tasks(tmp_path / "tasks.db")
    one = Running(tmp_path)
    assert one.run(*(state_of(task_id) for task_id in ids(40)), reading=True) == [("queued", None)] * 40
    assert len(one.damages) == 1 and one.store.pending == 0
    one.end()


def test_a_part_of_a_task_that_is_missing_is_damage(tmp_path):
    """Params of a task that waits are a loss; of one that has ended they are not, its result is."""
    one = filled(tmp_path)
    one.run(*(submitting(task_id, BIG) for task_id in ("waits", "ended", "dull")))
    for task_id, result in (("ended", b"7"), ("dull", BIG)):
        one.run(
            claiming(task_id), lambda ledger, now, task_id=task_id, body=result: ledger.finish(task_id, "n", body, now)
        )
    one.run(lambda ledger, now: ledger.table.connection.execute("DELETE FROM params") and None)
    one.run(lambda ledger, now: ledger.table.connection.execute("DELETE FROM outcomes") and None)
    assert one.run(claiming("waits"), claiming("task-0001"))[1] == (True, None)
    assert {"waits", "dull"} <= set(one.damages[0][1])
    assert one.run(lambda ledger, now: ledger.result("ended", now), reading=True) == [((True, b"7"), None)]
    one.end()


def test_where_no_repair_is_possible_the_call_that_met_the_damage_fails_alone(tmp_path, monkeypatch):
    """The sentence names the damage; the damaged file stays where it is, and other calls go on."""
    filled(tmp_path).end()
    ten_leaves(tmp_path / "tasks.db")
    monkeypatch.setattr(repairing, "SCHEMA", "CREATE TABLE nothing (x);")
    one = Running(tmp_path)
    said = []
    for task_id in ids():
        one.store.write(claiming(task_id), lambda value, error: said.append((value, error and error.message)))
    one.until(lambda: len(said) == TASKS)
    failed = {message for value, message in said if not value}
    assert failed == {
        "storing failed: the database is damaged (database disk image is malformed); nothing of this call was kept:"
        " repeat it"
    }
    assert 100 <= len([value for value, _ in said if value]) < TASKS
    assert len(one.damages) == 1 and copies(one.store.path) == []
    assert one.run(submitting("fresh"), claiming("fresh")) == [("fresh", None), (True, None)]
    one.end()


def test_a_disk_that_damages_without_end_is_not_filled_with_copies(tmp_path):
    filled(tmp_path).end()
    root_of_tasks(tmp_path / "tasks.db")
    for number in range(repairing.MOST_COPIES):
        (tmp_path / f"tasks.db.damaged-{number}").touch()
    with pytest.raises(StoreError, match="10 damaged files are kept beside it already: move the folder"):
        repairing.repair(tmp_path / "tasks.db", 0.0)


def test_what_is_no_database_of_ours_is_left_as_it_is(tmp_path):
    content = random.Random(1).randbytes(60_000)
    (tmp_path / "tasks.db").write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read: it has no rows of ZeroTask"):
        Store(tmp_path, lambda call: None, lambda call: None).open()
    assert (tmp_path / "tasks.db").read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("tasks")) == ["tasks.db"]


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_in_place_of_any_pages(tmp_path, seed):
    """A task is there as it was or told to be lost after any overwriting, and nothing else is raised."""
    chance = random.Random(seed)
    filled(tmp_path).end()
    path = tmp_path / "tasks.db"
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(0, len(content) - 600)
        content[at : at + 600] = chance.randbytes(600)
    path.write_bytes(content)
    one = Running(tmp_path)
    told = one.run(*(claiming(task_id) for task_id in ids()))
    assert set(told) <= {(True, None), (False, None), (None, errors.TASK_UNKNOWN)}
    assert one.run(submitting("fresh"), claiming("fresh")) == [("fresh", None), (True, None)]
    one.end()


CODES = {
    sqlite3.SQLITE_FULL: "the disk is full: make room on the broker's disk",
    sqlite3.SQLITE_READONLY: "the store is read-only: look at the owner and mode of its files, and how it is mounted",
    sqlite3.SQLITE_READONLY_DBMOVED: "the store is read-only: look at the owner and mode",
    sqlite3.SQLITE_IOERR_WRITE: "the disk fails: look at the kernel's log",
    sqlite3.SQLITE_BUSY: "another program holds the database: end it",
    sqlite3.SQLITE_LOCKED: "another program holds the database: end it",
    sqlite3.SQLITE_CANTOPEN: "the store cannot be opened: look at its folder",
}


def failing_with(code):
    error = sqlite3.OperationalError("its own words")
    error.sqlite_errorcode = code

    def job(ledger, now):
        raise error

    return job


def messages_of(one, *jobs):
    said = []
    for job in jobs:
        one.store.write(job, lambda value, error: said.append(error.message if error else value))
    one.until(lambda: len(said) == len(jobs))
    return said


@pytest.mark.parametrize("code", CODES)
def test_each_error_of_the_disk_says_what_is_wrong(tmp_path, monkeypatch, code):
    """An error of the disk is told to all calls of the transaction that it undoes, here two that wait
    for the writer.
    """
    monkeypatch.setattr(writer, "BATCH_SECONDS", 3_600.0)
    one, queued = Running(tmp_path), threading.Event()
    one.store.write(lambda ledger, now: queued.wait(), lambda value, error: None)
    said = []
    for job in (submitting("with"), failing_with(code)):
        one.store.write(job, lambda value, error: said.append(error.message if error else value))
    queued.set()
    one.until(lambda: len(said) == 2)
    for message in said:
        assert message.startswith(f"storing failed: {CODES[code]}")
        assert message.endswith(" (its own words); nothing of this call was kept: repeat it")
    assert one.troubles[0].startswith(CODES[code]) and one.damages == []
    one.end()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT_NOTNULL, sqlite3.SQLITE_MISMATCH])
def test_what_a_single_call_cannot_have_stored_costs_the_others_nothing(tmp_path, code):
    one = Running(tmp_path)
    said = messages_of(one, submitting("before"), failing_with(code), submitting("behind"))
    assert (said[0], said[2]) == ("before", "behind") and said[1].startswith("storing failed: ")
    assert one.troubles == []
    one.end()


def test_a_file_that_is_cut_off_under_the_broker_is_damage_though_sqlite_calls_it_an_error_of_the_disk():
    short, write = sqlite3.OperationalError("disk I/O error"), sqlite3.OperationalError("disk I/O error")
    short.sqlite_errorcode, write.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_WRITE
    assert (is_damage(short), is_damage(write), is_damage(None)) == (True, False, False)
    assert sentence(short) == "the database is damaged (disk I/O error)"
