"""What clients call: connect, submit, look, fetch, cancel, leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from zerotask import errors, methods
from zerotask.errors import RpcError
from zerotask.jsonrpc import decode
from zerotask.ledger import Ledger, Options, Order, Task
from zerotask.office import Answer, Invocation, Office
from zerotask.roster import new_name


def calls(office: Office) -> dict[str, Callable[[Invocation], None]]:
    desk = _ClientDesk(office)
    return {
        "client_connect": desk.connect,
        "client_disconnect": desk.disconnect,
        "client_new_task": desk.new_task,
        "client_task_status": desk.status,
        "client_task_result": desk.result,
        "client_task_cancel": desk.cancel,
    }


class _ClientDesk:
    def __init__(self, office: Office) -> None:
        self._office = office

    def connect(self, call: Invocation) -> None:
        wanted = methods.name_or_none(call.args, "client_id")
        name, _ = self._office.clients.check(wanted, call.caller, call.now)
        self._office.clients.grant(name, call.caller, call.now)
        call.answer(name, None)

    def disconnect(self, call: Invocation) -> None:
        """Names of clients are not kept over a restart, so there is nothing to store: it is done when it is said."""
        self._office.clients.remove(self._caller(call))
        call.answer(True, None)

    def new_task(self, call: Invocation) -> None:
        client, office = self._caller(call), self._office
        method = methods.task_method(call.args)
        order = Order(
            task_id=methods.new_task_id(call.args) or new_name(),
            client=client,
            key=call.caller.key,
            method=method,
            params=methods.params(call.args),
            options=methods.options(call.args, office.policies.get(method, Options())),
        )
        if office.trouble is not None:
            said = f"no new tasks while the broker cannot store: {office.trouble}; make room on its disk"
            raise RpcError(errors.DISABLED, said)
        office.write(lambda ledger, now: ledger.submit(order, now), call.answer)

    def status(self, call: Invocation) -> None:
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        self._office.read(lambda ledger, now: status_of(ledger.look(task_id, now, client, key)), call.answer)

    def result(self, call: Invocation) -> None:
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        answer_result(self._office, call, task_id, lambda ledger, now: ledger.result(task_id, now, client, key))

    def cancel(self, call: Invocation) -> None:
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        self._office.write(lambda ledger, now: ledger.cancel(task_id, now, client, key), call.answer)

    def _caller(self, call: Invocation) -> str:
        return self._office.clients.speaking(call.args["client_id"], call.caller, call.now).name


def status_of(task: Task) -> dict[str, Any]:
    return {
        "state": task.state,
        "status": Raw(task.status),
        "detail": Raw(task.detail),
        "attempts": task.attempts,
        "node": task.node,
        "updated": task.updated,
    }


Look = Callable[[Ledger, float], tuple[bool, bytes]]


def answer_result(office: Office, call: Invocation, task_id: str, look: Look) -> None:
    """A result as it was stored, or the stored error as this call's error; with `wait`, as soon as there is one."""
    wait = methods.number(call.args, "wait", 0.0, 0.0, methods.MAX_WAIT)

    def done(value: Any, error: RpcError | None) -> None:
        if error is not None and error.code == errors.NOT_FINISHED and waiter is not None and not waiter.over:
            return  # the waiter asks again
        if waiter is not None:
            office.waiters.forget(waiter)
        answer_outcome(call.answer, value, error)

    def again() -> None:
        office.store.read(look, done)

    waiter = office.waiters.add(task_id, call.now + wait, again) if wait else None
    office.read(look, done)


def answer_outcome(answer: Answer, value: Any, error: RpcError | None) -> None:
    if error is not None:
        answer(None, error)
        return
    finished, outcome = value
    if finished:
        answer(Raw(outcome), None)
    else:
        failed = decode(outcome)
        answer(None, RpcError(failed["code"], failed["message"], failed.get("data")))
