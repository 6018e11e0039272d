"""Schedules: cron lines that submit tasks at their times, once each, also over restarts.

The broker that holds the store is the one holder, so nobody has to agree with anybody. The task of a run is named after
the schedule and the time it was due, and is stored in the transaction that notes the run as done: a run cannot happen
twice, and none is forgotten. What fell due while no broker was running is recorded as missed, or run late once if the
schedule says `catch_up`. Cron lines are read by the package cronsim (the extra `cron`), in any IANA time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
from attrs import evolve, frozen

from zerotask import errors
from zerotask.errors import RpcError
from zerotask.ledger import Ledger, Options, Order
from zerotask.roster import is_name
from zerotask.shelf import Schedule, SqlShelf

try:
    from cronsim import CronSim, CronSimError
except ImportError:  # an extra; everything but schedules works without
    CronSim, CronSimError = None, ValueError

ON_TIME = 60.0  # seconds after its due time in which a run still counts as on time: a restart takes a few
LOOK_BACK = 7 * 86_400.0  # seconds of standstill that are looked through for missed runs; a minutely line has 10,080
FIELDS = 5  # minute, hour, day, month, weekday. Lines by the second would outrun the store
MAX_NAME = 96  # characters, so that name and time fit into a task id of 128
CLIENT = "cron"  # the client in whose name runs are submitted


@frozen
class Run:
    """What one look found for one schedule."""

    due: tuple[float, ...]  # all times since the last look, oldest first
    next: float | None


def checked_name(value: object) -> str:
    if not is_name(value) or len(str(value)) > MAX_NAME:
        raise _invalid(f"a schedule's name is 1 to {MAX_NAME} characters of A-Za-z0-9._:-")
    return str(value)


def check(schedule: Schedule) -> None:
    """SCHEDULE_INVALID if the line or the zone is none."""
    if len(schedule.line.split()) != FIELDS:
        raise _invalid(f"a cron line has {FIELDS} fields: minute, hour, day of month, month, day of week")
    pending(schedule, 0.0, 0.0)


def pending(schedule: Schedule, since: float, until: float) -> Run:
    """The times of the schedule in (since, until], and the first one after them."""
    if CronSim is None:
        raise _invalid("cron lines need the package cronsim; install helen-equus[cron] for the broker")
    try:
        zone = ZoneInfo(schedule.zone)
        times = CronSim(schedule.line, datetime.fromtimestamp(since, zone))
    except (CronSimError, KeyError, OSError, ValueError) as error:  # KeyError: no such zone
        raise _invalid(f"{schedule.line!r} in {schedule.zone!r}: {error}") from None
    due: list[float] = []
    for time in times:
        if time.timestamp() > until:
            return Run(tuple(due), time.timestamp())
        due.append(time.timestamp())
    return Run(tuple(due), None)


def run_due(ledger: Ledger, shelf: SqlShelf, now: float) -> float | None:
    """Submit what is due and record what was missed; when to look again. All in the caller's transaction."""
    upcoming = [_run(ledger, shelf, schedule, now) for schedule in shelf.schedules()]
    return min((time for time in upcoming if time is not None), default=None)


def _run(ledger: Ledger, shelf: SqlShelf, schedule: Schedule, now: float) -> float | None:
    run = pending(schedule, max(schedule.done, now - LOOK_BACK), now)
    if not run.due:
        return run.next
    last = run.due[-1]
    missed = run.due[:-1] if now - last <= ON_TIME or schedule.catch_up else run.due
    shelf.note_missed(schedule.name, missed, now)
    if len(missed) < len(run.due):
        _submit(ledger, schedule, last, now)
    shelf.put_schedule(evolve(schedule, done=last))
    return run.next


def _submit(ledger: Ledger, schedule: Schedule, due: float, now: float) -> None:
    """The id says which run it is; if it is taken, that run has been submitted already."""
    stamp = datetime.fromtimestamp(due, UTC).strftime("%Y%m%dT%H%MZ")
    options = Options(**msgspec.json.decode(schedule.options))
    order = Order(f"cron:{schedule.name}:{stamp}", CLIENT, "", schedule.method, schedule.params, options)
    if ledger.shelf.find(order.task_id) is None:
        ledger.submit(order, now)


def unknown(name: str) -> RpcError:
    return RpcError(errors.SCHEDULE_UNKNOWN, f"no schedule {name}; `zerotask schedule list` names them all")


def _invalid(text: str) -> RpcError:
    return RpcError(errors.SCHEDULE_INVALID, text)
