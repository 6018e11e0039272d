"""What operators call over the control socket: tasks and nodes of everybody, retry, cancel, schedules.

They see what belongs to all clients, which is why they are never served on the public socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve
from msgspec import Raw

from zerotask import cron, methods
from zerotask.client_calls import status_of
from zerotask.ledger import STATES, Ledger, Options, Task
from zerotask.office import Invocation, Office
from zerotask.results import Wanted
from zerotask.shelf import Schedule, SqlShelf

PAGE = 100  # tasks in one answer, unless asked otherwise
BRIEF = 1_024  # bytes of a status that is shown in a list
LAST = 2**63 - 1  # a seq that is newer than all


def calls(office: Office) -> dict[str, Callable[[Invocation], None]]:
    desk = _OperatorDesk(office)
    return {
        "broker_status": desk.status,
        "tasks": desk.tasks,
        "task": desk.task,
        "task_result": desk.result,
        "task_retry": desk.retry,
        "task_cancel": desk.cancel,
        "nodes": desk.nodes,
        "schedules": desk.schedules,
        "schedule_add": desk.schedule_add,
        "schedule_remove": desk.schedule_remove,
    }


class _OperatorDesk:
    def __init__(self, office: Office) -> None:
        self._office = office

    def status(self, call: Invocation) -> None:
        """The broker at a glance."""
        office = self._office
        known = {
            "state": "active" if office.trouble is None else "disabled",
            "trouble": office.trouble,
            "clients": len(office.clients),
            "nodes": len(office.nodes),
            "on_board": len(office.board),
            "pending": office.store.pending,
        }
        office.read(lambda ledger, now: known | {"tasks": _shelf(ledger).counts()}, call.answer)

    def tasks(self, call: Invocation) -> None:
        """Newest first; `before` is the seq of the last one of the former page."""
        args = call.args
        state, method = methods.name_or_none(args, "state"), methods.name_or_none(args, "method")
        if state is not None and state not in STATES:
            raise methods.wrong(f"state has to be one of {', '.join(STATES)}")
        before = methods.whole(args, "before", LAST, 0, LAST)
        limit = methods.whole(args, "limit", PAGE, 1, methods.MAX_PAGE)

        def job(ledger: Ledger, now: float) -> list[dict[str, Any]]:
            return [_brief(task) for task in _shelf(ledger).page(state, method, before, limit)]

        self._office.read(job, call.answer)

    def task(self, call: Invocation) -> None:
        task_id = methods.text(call.args, "task_id")
        self._office.read(lambda ledger, now: _line(ledger.look(task_id, now)), call.answer)

    def result(self, call: Invocation) -> None:
        task_id = methods.text(call.args, "task_id")
        Wanted(self._office, call, task_id, owner=None).ask_or_wait(lambda ledger, now: ledger.result(task_id, now))

    def retry(self, call: Invocation) -> None:
        task_id = methods.text(call.args, "task_id")
        self._office.write(lambda ledger, now: ledger.retry(task_id, now), call.answer)

    def cancel(self, call: Invocation) -> None:
        task_id = methods.text(call.args, "task_id")
        self._office.write(lambda ledger, now: ledger.cancel(task_id, now), call.answer)

    def nodes(self, call: Invocation) -> None:
        office = self._office
        lines = [self._node(holder.name, call.now - holder.seen) for holder in office.nodes]
        call.answer(lines, None)

    def _node(self, name: str, silent: float) -> dict[str, Any]:
        told = self._office.served.get(name)
        return {
            "node": name,
            "silent": round(max(silent, 0.0), 3),
            "methods": [] if told is None else list(told.methods),
            "slots": None if told is None else told.slots,
            "tasks": self._office.board.tasks_of(name),
        }

    # ----------------------------------------------------------------------------------------- schedules

    def schedules(self, call: Invocation) -> None:
        def job(ledger: Ledger, now: float) -> list[dict[str, Any]]:
            shelf = _shelf(ledger)
            return [_schedule_line(schedule, shelf.missed(schedule.name)) for schedule in shelf.schedules()]

        self._office.read(job, call.answer)

    def schedule_add(self, call: Invocation) -> None:
        """New, or changed: then it goes on from now."""
        args = call.args
        given = {name: args[name] for name in methods.POLICY_NAMES if name in args}
        methods.options(given, Options())
        schedule = Schedule(
            name=cron.checked_name(args["name"]),
            line=methods.text(args, "line"),
            zone=methods.text({"zone": "UTC"} | args, "zone"),
            method=methods.task_method(args),
            params=methods.params(args),
            options=methods.body(given, "options"),
            catch_up=methods.flag(args, "catch_up", False),
            done=0.0,
        )
        cron.check(schedule)

        def job(ledger: Ledger, now: float) -> bool:
            _shelf(ledger).put_schedule(evolve(schedule, done=now))
            return True

        self._office.write(job, call.answer)
        self._office.cron_due = call.now

    def schedule_remove(self, call: Invocation) -> None:
        name = methods.text(call.args, "name")

        def job(ledger: Ledger, now: float) -> bool:
            if not _shelf(ledger).drop_schedule(name):
                raise cron.unknown(name)
            return True

        self._office.write(job, call.answer)


def _line(task: Task) -> dict[str, Any]:
    """A task as operators see it."""
    return status_of(task) | {
        "id": task.id,
        "seq": task.seq,
        "method": task.method,
        "client": task.client,
        "priority": task.priority,
        "max_attempts": task.max_attempts,
        "time_limit": task.time_limit,
        "submitted": task.submitted,
        "due": task.due,
    }


def _brief(task: Task) -> dict[str, Any]:
    """The same in a list, where a thousand long words would not fit."""
    line = _line(task)
    del line["detail"]
    if len(task.status) > BRIEF:
        line["status"] = None
    return line


def _schedule_line(schedule: Schedule, missed: list[float]) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "line": schedule.line,
        "zone": schedule.zone,
        "method": schedule.method,
        "params": Raw(schedule.params),
        "options": Raw(schedule.options),
        "catch_up": schedule.catch_up,
        "done": schedule.done,
        "missed": missed,
    }


def _shelf(ledger: Ledger) -> SqlShelf:
    assert isinstance(ledger.shelf, SqlShelf)
    return ledger.shelf
