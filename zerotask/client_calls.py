"""What clients call: connect, submit, look, fetch, cancel, leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from zerotask import errors, jsonrpc, methods
from zerotask.errors import RpcError
from zerotask.ledger import Ledger, Options, Order, Task
from zerotask.office import Invocation, Office
from zerotask.results import Wanted
from zerotask.roster import new_task_id


def calls(office: Office) -> dict[str, Callable[[Invocation], None]]:
    desk = _ClientDesk(office)
    return {
        "client_connect": desk.connect,
        "client_disconnect": desk.disconnect,
        "client_new_task": desk.new_task,
        "client_task_status": desk.status,
        "client_task_result": desk.result,
        "client_task_cancel": desk.cancel,
        "client_task_close": desk.close,
    }


class _ClientDesk:
    def __init__(self, office: Office) -> None:
        self._office = office

    def connect(self, call: Invocation) -> None:
        wanted, results = methods.name_or_none(call.args, "client_id"), methods.flag(call.args, "results", False)
        if wanted is not None:
            self._sound(wanted, call)
        name, _ = self._office.clients.check(wanted, call.caller, call.now)
        self._office.clients.grant(name, call.caller, call.now).told = results and not call.caller.shared
        call.answer(name, None)

    def _sound(self, name: str, call: Invocation) -> None:
        """A holder whose connection is gone, unnoticed so far, gives way at once; only one that takes notifications can
        be tried."""
        office, holder = self._office, self._office.clients.get(name)
        if holder is None or holder.line == call.caller.line or not holder.told:
            return
        if not office.send(holder.line, jsonrpc.notification(methods.CLIENT_STATUS, [])):
            office.clients.remove(name)

    def disconnect(self, call: Invocation) -> None:
        """Names of clients are not kept over a restart, so there is nothing to store: it is done when it is said."""
        self._office.clients.remove(self._caller(call))
        call.answer(True, None)

    def new_task(self, call: Invocation) -> None:
        client, office = self._caller(call), self._office
        method = methods.task_method(call.args)
        order = Order(
            task_id=methods.given_task_id(call.args) or new_task_id(call.wall),
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
        wanted = Wanted(self._office, call, task_id, owner=(client, key))
        wanted.ask_or_wait(lambda ledger, now: ledger.result(task_id, now, client, key))

    def cancel(self, call: Invocation) -> None:
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        self._office.write(lambda ledger, now: ledger.cancel(task_id, now, client, key), call.answer)

    def close(self, call: Invocation) -> None:
        """Forget a task and its id, whatever its state."""
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key

        def job(ledger: Ledger, now: float) -> bool:
            ledger.close(ledger.look(task_id, now, client, key).id)
            return True

        self._office.write(job, call.answer)

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
