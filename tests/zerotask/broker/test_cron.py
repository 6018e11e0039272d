"""Tests schedules: each run happens once, over restarts too; missed runs are recorded; lines and zones are checked."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from zerotask import errors
from zerotask.broker import cron
from zerotask.errors import RpcError
from zerotask.storage import schema
from zerotask.storage.task_table import MISSED_KEPT, Schedule, SqlTaskTable
from zerotask.tasks.ledger import Ledger
from zerotask.wire.jsonrpc import encode

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
MINUTE, HOUR = 60.0, 3600.0


@pytest.fixture
def ledger():
    connection = schema.connect(":memory:")
    connection.executescript(schema.SCHEMA)
    yield Ledger(SqlTaskTable(connection), lambda: 0.0, encode)
    connection.close()


def schedule(line="0 * * * *", zone="UTC", catch_up=False, done=MIDNIGHT, name="s"):
    return Schedule(name, line, zone, "m", b"[1]", b'{"max_attempts":7}', catch_up, done)


def ids(ledger):
    return sorted(task.id for task in ledger.table.page(None, None, 2**62, 1000))


def test_a_run_is_submitted_once_however_often_it_is_looked_for(ledger):
    ledger.table.save_schedule(schedule())
    for now in (HOUR - 1, HOUR, HOUR + 1, HOUR + 50, 2 * HOUR + 3, 2 * HOUR + 4):
        upcoming = cron.run_due(ledger, ledger.table, MIDNIGHT + now)
    assert ids(ledger) == ["cron:s:20260301T0100Z", "cron:s:20260301T0200Z"]
    assert upcoming == MIDNIGHT + 3 * HOUR
    task = ledger.task("cron:s:20260301T0100Z", MIDNIGHT)
    assert (task.client, task.method, task.params, task.max_attempts) == ("cron", "m", b"[1]", 7)
    assert ledger.table.missed("s") == []


def test_a_run_whose_note_was_lost_is_not_run_again(ledger):
    """A run without its note is not run again, as if the power had failed between both; its id says that
    it was done.
    """
    ledger.table.save_schedule(schedule())
    cron.run_due(ledger, ledger.table, MIDNIGHT + HOUR)
    ledger.table.save_schedule(schedule())
    cron.run_due(ledger, ledger.table, MIDNIGHT + HOUR + 1)
    assert ids(ledger) == ["cron:s:20260301T0100Z"]


@pytest.mark.parametrize("catch_up, run, missed", [(False, [], [3, 2, 1]), (True, ["cron:s:20260301T0300Z"], [2, 1])])
def test_what_fell_due_in_a_standstill_is_on_record(ledger, catch_up, run, missed):
    ledger.table.save_schedule(schedule(catch_up=catch_up))
    cron.run_due(ledger, ledger.table, MIDNIGHT + 3.5 * HOUR)
    assert ids(ledger) == run
    assert ledger.table.missed("s") == [MIDNIGHT + hour * HOUR for hour in missed]


def test_a_short_standstill_costs_no_run(ledger):
    ledger.table.save_schedule(schedule())
    cron.run_due(ledger, ledger.table, MIDNIGHT + HOUR + cron.ON_TIME)
    assert (ids(ledger), ledger.table.missed("s")) == (["cron:s:20260301T0100Z"], [])


def test_a_long_standstill_is_looked_through_within_bounds(ledger):
    ledger.table.save_schedule(schedule("* * * * *"))
    cron.run_due(ledger, ledger.table, MIDNIGHT + 365 * 24 * HOUR + 90)
    kept = ledger.table.missed("s")
    assert len(kept) == MISSED_KEPT
    assert kept[0] == MIDNIGHT + 365 * 24 * HOUR


def test_times_are_those_of_the_zone(ledger):
    """A run at 03:30 in Berlin is at 02:30 UTC before the change to summer time, and at 01:30 UTC after it."""
    start = datetime(2026, 3, 28, tzinfo=UTC).timestamp()
    run = cron.pending(schedule("30 3 * * *", "Europe/Berlin"), start, start + 48 * HOUR)
    assert [datetime.fromtimestamp(time, UTC).strftime("%d %H:%M") for time in run.due] == ["28 02:30", "29 01:30"]


BAD = [
    ("* * * *", "UTC"),
    ("0 0 * * * *", "UTC"),
    ("61 * * * *", "UTC"),
    ("* * * * *", "Mars/Base"),
    ("* * * * *", "../etc"),
]


@pytest.mark.parametrize("line, zone", BAD)
def test_bad_lines_and_zones_are_refused(line, zone):
    with pytest.raises(RpcError) as refusal:
        cron.check(schedule(line, zone))
    assert refusal.value.code == errors.SCHEDULE_INVALID


def test_schedules_are_an_operators(bench):
    def ask(method, **named):
        return bench.ask("op", method, operator=True, **named)

    bench.now = MIDNIGHT + 30.0
    add = {"name": "s", "line": "* * * * *", "params": [1]}
    assert bench.ask("op", "schedule_add", "s", "* * * * *", "m", [1], operator=True) is True
    bench.pass_time(45.0, step=5.0)
    bench.start()
    bench.pass_time(30.0, step=5.0)
    assert [task["id"] for task in ask("tasks")] == ["cron:s:20260301T0001Z"]
    (told,) = ask("schedules")
    assert (told["name"], told["line"], told["missed"]) == ("s", "* * * * *", [])
    assert ask("schedule_remove", name="s") is True
    assert ask("schedule_remove", name="s")[0] == errors.SCHEDULE_UNKNOWN
    assert (
        bench.ask("op", "schedule_add", "bad name", add["line"], "m", [], operator=True)[0] == errors.SCHEDULE_INVALID
    )


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_each_time_is_run_once_or_missed_once(ledger, seed):
    """Each time is run or missed exactly once. Looks come at any time, with standstills, kills, a clock that is set
    back, and both changes of summer time.
    """
    dice = random.Random(seed)
    begin = datetime(2026, dice.choice([3, 10]), 24 + dice.randrange(3), dice.randrange(24), tzinfo=UTC).timestamp()
    plan = schedule(
        dice.choice(["*/20 * * * *", "30 2 * * *", "0 */3 * * *"]), "Europe/Berlin", seed % 2 == 0, begin, "p"
    )
    ledger.table.save_schedule(plan)
    now = latest = begin
    for _ in range(40):
        now += dice.choice([1.0, 30.0, 700.0, 5 * HOUR, -900.0])
        ledger.table.connection.execute("BEGIN")
        cron.run_due(ledger, ledger.table, now)
        is_kept = dice.random() < 0.7
        ledger.table.connection.execute("COMMIT" if is_kept else "ROLLBACK")
        if is_kept:
            latest = max(latest, now)
        else:
            ledger.table = SqlTaskTable(ledger.table.connection)
    due = {datetime.fromtimestamp(time, UTC).strftime("%Y%m%dT%H%MZ") for time in cron.pending(plan, begin, latest).due}
    ran = [name.removeprefix("cron:p:") for name in ids(ledger)]
    missed = [datetime.fromtimestamp(time, UTC).strftime("%Y%m%dT%H%MZ") for time in ledger.table.missed("p")]
    assert len(set(ran)) == len(ran) and not set(ran) & set(missed)
    assert set(ran) | set(missed) == due


@pytest.mark.parametrize(
    "line, ahead", [("* * * * *", 30 * 24 * HOUR), ("0 * * * *", 3 * HOUR), ("30 3 * * 1", 8000 * HOUR)]
)
def test_a_schedule_that_was_run_under_a_clock_that_was_ahead_goes_on_from_now(ledger, line, ahead):
    """The schedule does not wait for the wrong time, and runs nothing again that was run then (F8)."""
    ledger.table.save_schedule(schedule(line))
    cron.run_due(ledger, ledger.table, MIDNIGHT + 1.0)
    wrong = cron.pending(schedule(line), MIDNIGHT + ahead, MIDNIGHT + ahead).next
    cron.run_due(ledger, ledger.table, wrong)
    assert len(ids(ledger)) == 1
    first = cron.pending(schedule(line), MIDNIGHT + 2.0, MIDNIGHT + 2.0).next
    assert cron.run_due(ledger, ledger.table, MIDNIGHT + 2.0) == first
    cron.run_due(ledger, ledger.table, first)
    assert len(ids(ledger)) == 2
    missed = ledger.table.missed("s")
    cron.run_due(ledger, ledger.table, wrong)
    cron.run_due(ledger, ledger.table, wrong + 1.0)
    (kept,) = ledger.table.schedules()
    assert kept.ahead == wrong and set(missed) <= set(ledger.table.missed("s"))
    assert len(ids(ledger)) == 2 and wrong not in ledger.table.missed("s")


def test_a_small_step_back_runs_nothing_twice_and_resets_nothing(ledger):
    ledger.table.save_schedule(schedule("* * * * *"))
    for now in (59.0, 60.0, 58.5, 60.5, 1.0, 60.0):
        cron.run_due(ledger, ledger.table, MIDNIGHT + now)
    assert ids(ledger) == ["cron:s:20260301T0001Z"] and ledger.table.schedules()[0].ahead == 0.0


@pytest.mark.parametrize(
    "zone, day", [("Europe/Berlin", (2026, 10, 25)), ("America/New_York", (2026, 11, 1)), ("UTC", (2026, 10, 25))]
)
@pytest.mark.parametrize("line", ["30 2 * * *", "30 1 * * *", "15 2 * * 0", "*/20 * * * *", "59 * * * *"])
def test_no_time_is_due_that_lies_before_the_last_look(zone, day, line):
    """A look finds only times after the last one, also in the hour that is repeated, and all looks together find each
    once (F83).
    """
    start = datetime(*day, tzinfo=UTC).timestamp() - 2 * HOUR
    whole = cron.pending(schedule(line, zone), start, start + 12 * HOUR).due
    looks, since = [], start
    while since < start + 12 * HOUR:
        run = cron.pending(schedule(line, zone), since, since + 29 * MINUTE)
        assert all(since < time <= since + 29 * MINUTE for time in run.due), (since - start, run.due)
        looks += run.due
        since += 29 * MINUTE
    assert tuple(looks[: len(whole)]) == whole
