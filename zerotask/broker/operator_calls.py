"""Handles the calls of operators over the control socket: tasks of all clients, nodes, retry, cancel, schedules.

They are never served on the public socket, because an operator sees what belongs to every client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from zerotask import errors
from zerotask.broker import cron
from zerotask.broker.broker_state import BrokerState, Invocation
from zerotask.broker.client_calls import status_of
from zerotask.broker.results import ResultCall
from zerotask.errors import RpcError
from zerotask.storage.task_table import Schedule, SqlTaskTable, sql_table
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import STATES, Options, Task
from zerotask.wire import methods

PAGE = 100  # tasks in one answer, unless asked otherwise
BRIEF = 1_024  # bytes of a status that is shown in a list
LAST = 2**63 - 1  # a seq beyond every task's


def calls(state: BrokerState) -> dict[str, Callable[[Invocation], None]]:
    """Return the handler of each method for operators, by its short name."""
    handlers = _OperatorCalls(state)
    return {
        "broker_status": handlers.status,
        "tasks": handlers.tasks,
        "task": handlers.task,
        "task_result": handlers.result,
        "task_retry": handlers.retry,
        "task_cancel": handlers.cancel,
        "nodes": handlers.nodes,
        "node_drain": handlers.drain,
        "damaged": handlers.damaged,
        "schedules": handlers.schedules,
        "schedule_add": handlers.schedule_add,
        "schedule_remove": handlers.schedule_remove,
    }


class _OperatorCalls:
    """Handles calls of operators. Each method raises RpcError if an argument is wrong."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def status(self, call: Invocation) -> None:
        """Answer with `state`, `trouble`, `tasks` (by state), `clients`, `nodes`, `on_board`, `pending` and the clock.

        `on_board` counts the tasks in the ready window, `pending` the jobs that wait for the store. `clock_steps` says
        how often the wall clock was set since the start, `clock_step` by how many `seconds` last, and `at` when.
        `lost` counts the tasks that were lost with a damaged database, and `damage` tells of it.
        """
        state = self._state
        known = {
            "state": "active" if state.trouble is None else "disabled",
            "trouble": state.trouble,
            "clients": len(state.clients),
            "nodes": len(state.nodes),
            "on_board": len(state.window),
            "pending": state.store.pending,
            "clock_steps": state.clock_steps,
            "clock_step": state.clock_step,
            "lost": state.lost,
            "damage": state.damage,
        }
        state.read(lambda ledger, now: known | {"tasks": sql_table(ledger).counts()}, call.answer)

    def tasks(self, call: Invocation) -> None:
        """Answer with a page of tasks, newest first; `before` is the last seq of the page before.

        Raises RpcError if `state` is no state of a task.
        """
        args = call.args
        state, method = methods.name_or_none(args, "state"), methods.name_or_none(args, "method")
        if state is not None and state not in STATES:
            raise methods.wrong(f"state has to be one of {', '.join(STATES)}")
        before = methods.whole(args, "before", LAST, 0, LAST)
        limit = methods.whole(args, "limit", PAGE, 1, methods.MAX_PAGE)

        def job(ledger: Ledger, now: float) -> list[dict[str, Any]]:
            """Return the page. `now`: task-clock seconds."""
            return [_brief(task, call.unix_ahead) for task in sql_table(ledger).page(state, method, before, limit)]

        self._state.read(job, call.answer)

    def task(self, call: Invocation) -> None:
        """Answer with all about one task."""
        task_id = methods.text(call.args, "task_id")
        self._state.read(lambda ledger, now: _line(ledger.task(task_id, now), call.unix_ahead), call.answer)

    def result(self, call: Invocation) -> None:
        """Answer with the result of a task, at once or when it ends."""
        task_id = methods.text(call.args, "task_id")
        ResultCall(self._state, call, task_id, owner=None).start(lambda ledger, now: ledger.result(task_id, now))

    def retry(self, call: Invocation) -> None:
        """Queue a failed task again."""
        task_id = methods.text(call.args, "task_id")
        self._state.write(lambda ledger, now: ledger.retry(task_id, now), call.answer)

    def cancel(self, call: Invocation) -> None:
        """End a task as cancelled; answer False if it had ended."""
        task_id = methods.text(call.args, "task_id")
        self._state.write(lambda ledger, now: ledger.cancel(task_id, now), call.answer)

    def nodes(self, call: Invocation) -> None:
        """Answer with `node`, `silent` (seconds), `methods`, `slots`, `tasks`, `waiting` and `drained` of each node.

        `waiting` counts those of its tasks that take no slot.
        """
        state = self._state
        lines = [self._node(holder.name, call.now - holder.last_call) for holder in state.nodes]
        call.answer(lines, None)

    def _node(self, name: str, silent: float) -> dict[str, Any]:
        serving = self._state.serving.get(name)
        return {
            "node": name,
            "silent": round(max(silent, 0.0), 3),
            "methods": [] if serving is None else list(serving.methods),
            "slots": None if serving is None else serving.slots,
            "tasks": self._state.window.tasks_of(name),
            "waiting": self._state.window.count_waiting(name),
            "drained": name in self._state.drained,
        }

    def drain(self, call: Invocation) -> None:
        """Give a node no further task, until `drain` is false or the broker ends. It goes on with what it has.

        Raises RpcError NODE_UNKNOWN if no node of this name is connected.
        """
        state, name = self._state, methods.text(call.args, "node")
        if state.nodes.get(name) is None:
            raise RpcError(errors.NODE_UNKNOWN, f"no node {name[:128]} is connected; `zerotask nodes` lists them all")
        if methods.flag(call.args, "drain", True):
            state.drained.add(name)
        else:
            state.drained.discard(name)
        if (serving := state.serving.get(name)) is not None:
            state.window.resize_node(name, state.slots_of(name, serving.slots))
        call.answer(True, None)

    def damaged(self, call: Invocation) -> None:
        """Answer with `task_id` and `noticed` (unix seconds) of tasks that were lost with a damaged database.

        They are at most MAX_PAGE, the newest first. With `forget` all are taken off the record; the answer is how many.
        """
        if not methods.flag(call.args, "forget", False):
            self._state.read(lambda ledger, now: _lost_lines(sql_table(ledger)), call.answer)
            return

        def done(value: Any, error: RpcError | None) -> None:
            """Let the damage be forgotten once the record is empty."""
            if error is None:
                self._state.damage, self._state.lost = None, 0
            call.answer(value, error)

        self._state.write(lambda ledger, now: sql_table(ledger).forget_lost(), done)

    # ----------------------------------------------------------------------------------------- schedules

    def schedules(self, call: Invocation) -> None:
        """Answer with all schedules and the runs that each missed."""

        def job(ledger: Ledger, now: float) -> list[dict[str, Any]]:
            """Return a line for each schedule. `now`: task-clock seconds."""
            table = sql_table(ledger)
            return [_schedule_line(schedule, table.missed(schedule.name), call.wall) for schedule in table.schedules()]

        self._state.read(job, call.answer)

    def schedule_add(self, call: Invocation) -> None:
        """Add a schedule, or change one, which then goes on from now."""
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
            done=call.wall,
        )
        cron.check(schedule)

        def job(ledger: Ledger, now: float) -> bool:
            """Store the schedule; its runs up to now are not made up for. `now`: task-clock seconds."""
            sql_table(ledger).save_schedule(schedule)
            return True

        self._state.write(job, call.answer)
        self._state.cron_due = call.now

    def schedule_remove(self, call: Invocation) -> None:
        """Delete a schedule. Raises RpcError SCHEDULE_UNKNOWN if there is none."""
        name = methods.text(call.args, "name")

        def job(ledger: Ledger, now: float) -> bool:
            """Delete the schedule, or raise RpcError. `now`: task-clock seconds."""
            if not sql_table(ledger).delete_schedule(name):
                raise cron.unknown(name)
            return True

        self._state.write(job, call.answer)


def _lost_lines(table: SqlTaskTable) -> list[dict[str, Any]]:
    return [{"task_id": task_id, "noticed": noticed} for task_id, noticed in table.lost_tasks(methods.MAX_PAGE)]


def _line(task: Task, unix_ahead: float) -> dict[str, Any]:
    """Return a task as operators see it: `status_of`, and its id, method, client, options and times (unix seconds)."""
    return status_of(task) | {
        "id": task.id,
        "seq": task.seq,
        "method": task.method,
        "client": task.client,
        "priority": task.priority,
        "max_attempts": task.max_attempts,
        "time_limit": task.time_limit,
        "submitted": task.submitted + unix_ahead,
        "due": task.due + unix_ahead,
    }


def _brief(task: Task, unix_ahead: float) -> dict[str, Any]:
    """Return a task for a list, without long parts: a thousand of them would not fit into one message."""
    line = _line(task, unix_ahead)
    del line["detail"]
    if len(task.status) > BRIEF:
        line["status"] = None
    return line


def _schedule_line(schedule: Schedule, missed: list[float], wall: float) -> dict[str, Any]:
    """Return a schedule as operators see it; times are unix seconds. `wall`: unix seconds.

    `next` is None if no run follows. `ahead` is a time up to which it was run under a clock that was ahead, None once
    that is over.
    """
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
        "next": cron.pending(schedule, max(schedule.done, wall), wall).next,
        "ahead": schedule.ahead if schedule.ahead > wall else None,
    }
