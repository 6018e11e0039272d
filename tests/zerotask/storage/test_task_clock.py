"""Tests the clock of tasks: it is even over steps of the wall clock, and over restarts under any clock."""

from __future__ import annotations

import sqlite3
import time

import pytest

from zerotask.storage import schema
from zerotask.storage.database import Store
from zerotask.storage.task_clock import DOWNTIME_MOST, KeptClock, TaskClock
from zerotask.storage.task_table import SqlTaskTable
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import Options, Submission
from zerotask.wire.jsonrpc import encode


@pytest.mark.parametrize("step", [-1e6, -3.0, 0.0, 3.0, 1e6])
def test_steps_do_not_move_it(step):
    now, wall = [50.0], [1_000.0]
    clock = TaskClock(None, lambda: now[0], lambda: wall[0])
    assert clock() == 1_000.0
    now[0], wall[0] = now[0] + 5.0, wall[0] + 5.0 + step
    assert clock() == 1_005.0


# wall clock at the start -> task seconds, and those that are left out; 1,000 was seen when unix was 100 ahead
STARTS = [
    (1_100.0, 1_000.0, 0.0),
    (1_107.5, 1_007.5, 0.0),
    (900.0, 1_000.0, 0.0),
    (-1e9, 1_000.0, 0.0),
    (1_100.0 + DOWNTIME_MOST, 1_000.0 + DOWNTIME_MOST, 0.0),
    (1_100.0 + DOWNTIME_MOST + 25 * 3600.0, 1_000.0 + DOWNTIME_MOST, 25 * 3600.0),
]


@pytest.mark.parametrize("wall, first, skipped", STARTS)
def test_it_goes_on_after_a_restart(wall, first, skipped):
    """The clock goes on by the time that has passed, an hour at most, so a clock far ahead destroys no result (F7)."""
    clock = TaskClock(KeptClock(1_000.0, 100.0), lambda: 0.0, lambda: wall)
    assert (clock(), clock.skipped) == (first, skipped)


def _run(folder, job=None):
    calls = []
    store = Store(folder, calls.append, lambda flush: flush())
    store.open()
    if job is not None:
        store.write(job, lambda value, error: None)
    store.end(), store.join()
    return store


def test_a_store_keeps_its_clock_and_delays_run_on_over_a_long_standstill(tmp_path):
    """A task that is delayed by less than the standstill is due at the start; results are as old as they were (F7)."""

    def job(ledger, now):
        for name, delay in (("soon", 2 * 3600.0), ("late", 9 * 3600.0), ("ended", 0.0)):
            ledger.submit(Submission(name, "c", "", "m", b"[]", Options(delay=delay, result_ttl=7200.0)), now)
        ledger.cancel("ended", now)
        ledger.table.save_clock(KeptClock(now - 6 * 3600.0, time.time() - now))
        ledger.table.connection.execute("UPDATE tasks SET due = due - 21600, submitted = submitted - 21600")
        ledger.table.connection.execute("UPDATE tasks SET expires = expires - 21600 WHERE expires > 0")

    _run(tmp_path, job)
    store = _run(tmp_path)
    assert abs(store.clock() - (time.time() - 5 * 3600.0)) < 60
    connection = sqlite3.connect(store.path)
    ledger = Ledger(SqlTaskTable(connection), lambda: 0.5, encode)
    assert ledger.claim("soon", "n", 1, store.clock()) is not None
    assert ledger.claim("late", "n", 1, store.clock()) is None
    assert 2.9 * 3600.0 < ledger.table.find("late").due - store.clock() < 3.1 * 3600.0
    assert ledger.task("ended", store.clock()).state == "failed"
    connection.close()
    assert schema.SCHEMA_VERSION == 2
