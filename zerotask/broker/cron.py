"""Submits the tasks of schedules: cron lines that are due once at each of their times, also over restarts.

There is one broker for a store, so no agreement is needed on which one runs a line. The task of a run is named after
the schedule and the time at which it was due, and is stored in the transaction that notes the run as done: a run
cannot happen twice, and none is forgotten. Runs that fell due while no broker was running are recorded as missed; with
`catch_up` the latest is run late. Cron lines are read by the package cronsim (the extra `cron`), in any IANA time zone.
All times are unix seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
from attrs import evolve, frozen
from twisted.logger import Logger

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.storage.task_table import Schedule, SqlTaskTable
from zerotask.tasks.connections import is_name
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import Options, Submission
from zerotask.wire.methods import OF_RUNS

try:
    import cronsim
except ImportError:  # an extra; everything but schedules works without
    cronsim = None  # type: ignore[assignment]

ON_TIME = 60.0  # seconds after its due time in which a run still counts as on time: a restart takes a few
SET_BACK = 6 * 3_600.0  # seconds by which a clock may be set back without a doubt about when a schedule was added
LOOK_BACK = 7 * 86_400.0  # seconds of standstill that are searched for missed runs; a line for each minute has 10,080
FIELDS = 5  # minute, hour, day, month, weekday. Lines by the second would outrun the store
MAX_NAME = 96  # characters, so that name and time fit into a task id of 128
_log = Logger()
CLIENT = "cron"  # the name of the client that submits runs


@frozen
class Run:
    """Lists the times (unix seconds) at which a schedule was due, oldest first, and its next one."""

    due: tuple[float, ...]
    next: float | None


def checked_name(value: object) -> str:
    """Return the name of a schedule. Raises RpcError SCHEDULE_INVALID if it is malformed or too long."""
    if not is_name(value) or len(str(value)) > MAX_NAME:
        raise _invalid(f"a schedule's name is 1 to {MAX_NAME} characters of A-Za-z0-9._:-")
    return str(value)


def check(schedule: Schedule) -> None:
    """Check the line and the zone of a schedule. Raises RpcError SCHEDULE_INVALID if one is malformed."""
    if len(schedule.line.split()) != FIELDS:
        raise _invalid(f"a cron line has {FIELDS} fields: minute, hour, day of month, month, day of week")
    pending(schedule, schedule.done, schedule.done)


def pending(schedule: Schedule, since: float, until: float) -> Run:
    """Return the times of a schedule in (since, until], and the first one after them; all are unix seconds.

    Raises RpcError SCHEDULE_INVALID if the line or the zone is malformed, or if cronsim is not installed.
    """
    if cronsim is None:
        raise _invalid("cron lines need the package cronsim; install helen-equus[cron] for the broker")
    try:
        zone = ZoneInfo(schedule.zone)
        times = cronsim.CronSim(schedule.line, datetime.fromtimestamp(since, zone))
    except (cronsim.CronSimError, KeyError, OSError, ValueError) as error:  # KeyError: no such zone
        raise _invalid(f"{schedule.line!r} in {schedule.zone!r}: {error}") from None
    due: list[float] = []
    for time in times:
        if time.timestamp() <= since:  # in an hour that the zone repeats, a time may have come in its first round
            continue
        if time.timestamp() > until:
            return Run(tuple(due), time.timestamp())
        due.append(time.timestamp())
    return Run(tuple(due), None)


def run_due(ledger: Ledger, table: SqlTaskTable, now: float, at: float | None = None) -> float | None:
    """Submit due runs and record missed ones, in the caller's transaction; return when the next run is due.

    `now` and the answer are unix seconds; None means that no run follows. `at`: task-clock seconds, `now` unless given.
    """
    at = now if at is None else at
    upcoming = [_run(ledger, table, schedule, now, at) for schedule in table.schedules()]
    return min((time for time in upcoming if time is not None), default=None)


def _run(ledger: Ledger, table: SqlTaskTable, schedule: Schedule, now: float, at: float) -> float | None:
    schedule = _put_right(table, schedule, now)
    run = pending(schedule, max(schedule.done, now - LOOK_BACK), now)
    if not run.due:
        return run.next
    last = run.due[-1]
    missed = run.due[:-1] if now - last <= ON_TIME or schedule.catch_up else run.due
    # Times that have been before, under a clock that was ahead, may have been run then.
    fresh = [time for time in missed if time > schedule.ahead or ledger.table.find(_run_id(schedule, time)) is None]
    table.add_missed(schedule.name, fresh, now)
    if len(missed) < len(run.due):
        _submit(ledger, schedule, last, at)
        table.delete_missed(schedule.name, last)
    table.save_schedule(evolve(schedule, done=last))
    return run.next


def _put_right(table: SqlTaskTable, schedule: Schedule, now: float) -> Schedule:
    """Let a schedule go on from `now` (unix seconds) if its last run lies beyond its next possible one.

    Then it was run under a clock that was ahead, and would not be run until that time comes. Times that were run then
    are not run again, nor are those before the schedule began, unless that was under such a clock, too.
    """
    if not schedule.begun:
        schedule = evolve(schedule, begun=schedule.done)
        table.save_schedule(schedule)
    if schedule.done <= now:
        return schedule
    start = max(now, schedule.begun) if schedule.begun - now <= SET_BACK else now
    upcoming = pending(schedule, start, start).next
    if upcoming is None or schedule.done <= upcoming:
        return schedule
    text = "Schedule {name} was run for a time that lies {ahead} s ahead, under a wrong clock; it goes on from now"
    _log.warn(text, name=schedule.name, ahead=round(schedule.done - now))
    schedule = evolve(schedule, done=start, ahead=max(schedule.ahead, schedule.done))
    table.save_schedule(schedule)
    return schedule


def _run_id(schedule: Schedule, due: float) -> str:
    """Return the id of the task of one run; it names the run, so that none is submitted twice."""
    return f"{OF_RUNS}{schedule.name}:{datetime.fromtimestamp(due, UTC).strftime('%Y%m%dT%H%MZ')}"


def _submit(ledger: Ledger, schedule: Schedule, due: float, at: float) -> None:
    """Submit one run, unless its id is taken: then it has been submitted already. `at`: task-clock seconds."""
    options = Options(**msgspec.json.decode(schedule.options))
    order = Submission(_run_id(schedule, due), CLIENT, "", schedule.method, schedule.params, options)
    if ledger.table.find(order.task_id) is None:
        ledger.submit(order, at)


def unknown(name: str) -> RpcError:
    """Return the error for a schedule that does not exist."""
    return RpcError(errors.SCHEDULE_UNKNOWN, f"no schedule {name}; `zerotask schedule list` lists them all")


def _invalid(text: str) -> RpcError:
    return RpcError(errors.SCHEDULE_INVALID, text)
