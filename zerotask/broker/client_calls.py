"""Handles the calls of clients: connect, submit, look up, fetch, cancel, close, disconnect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from zerotask import errors
from zerotask.broker.broker_state import BrokerState, Invocation
from zerotask.broker.results import ResultCall
from zerotask.errors import RpcError
from zerotask.tasks.connections import new_task_id
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import Options, Submission, Task
from zerotask.wire import jsonrpc, methods
from zerotask.wire.actions import submitting


def calls(state: BrokerState) -> dict[str, Callable[[Invocation], None]]:
    """Return the handler of each method for clients, by its short name."""
    handlers = _ClientCalls(state)
    return {
        "client_connect": handlers.connect,
        "client_disconnect": handlers.disconnect,
        "client_new_task": handlers.new_task,
        "client_task_status": handlers.status,
        "client_task_result": handlers.result,
        "client_task_cancel": handlers.cancel,
        "client_task_close": handlers.close,
    }


class _ClientCalls:
    """Handles calls of clients. Each method raises RpcError if an argument is wrong or the client unknown."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def connect(self, call: Invocation) -> None:
        """Grant a name and answer with it."""
        wanted, results = methods.name_or_none(call.args, "client_id"), methods.flag(call.args, "results", False)
        if wanted is not None:
            self._free_if_gone(wanted, call)
        name, _ = self._state.clients.check(wanted, call.caller, call.now)
        holder = self._state.clients.grant(name, call.caller, call.now)
        holder.wants_results = results and not call.caller.shared
        call.answer(name, None)

    def _free_if_gone(self, name: str, call: Invocation) -> None:
        """Free a name at once if its holder's connection is gone. Only one that takes notifications can be tried."""
        state, holder = self._state, self._state.clients.get(name)
        if holder is None or holder.connection == call.caller.connection or not holder.wants_results:
            return
        if not state.send(holder.connection, jsonrpc.notification(methods.CLIENT_STATUS, [])):
            state.clients.remove(name)

    def disconnect(self, call: Invocation) -> None:
        """Free the client's name. Names of clients don't survive a restart, so nothing is stored."""
        self._state.clients.remove(self._caller(call))
        call.answer(True, None)

    def new_task(self, call: Invocation) -> None:
        """Submit a task and answer with its id.

        Raises RpcError DISABLED while nothing can be stored, and UNAUTHORISED for a task of Helen's without the role.
        """
        client, state = self._caller(call), self._state
        method = methods.task_method(call.args)
        call.hold_to(submitting(method))
        submission = Submission(
            task_id=methods.given_task_id(call.args) or new_task_id(call.wall),
            client=client,
            key=call.caller.key,
            method=method,
            params=methods.params(call.args),
            options=methods.options(call.args, state.policies.get(method, Options())),
        )
        if state.trouble is not None:
            message = f"no new tasks while the broker cannot store: {state.trouble}"
            raise RpcError(errors.DISABLED, message)
        state.write(lambda ledger, now: ledger.submit(submission, now), call.answer)

    def status(self, call: Invocation) -> None:
        """Answer with the state of a task."""
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        self._state.read(lambda ledger, now: status_of(ledger.task(task_id, now, client, key)), call.answer)

    def result(self, call: Invocation) -> None:
        """Answer with the result of a task, at once or when it ends."""
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        ResultCall(self._state, call, task_id, owner=(client, key)).start(
            lambda ledger, now: ledger.result(task_id, now, client, key)
        )

    def cancel(self, call: Invocation) -> None:
        """End a task as cancelled; answer False if it had ended."""
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key
        self._state.write(lambda ledger, now: ledger.cancel(task_id, now, client, key), call.answer)

    def close(self, call: Invocation) -> None:
        """Delete a task in any state, and free its id."""
        client, task_id, key = self._caller(call), methods.text(call.args, "task_id"), call.caller.key

        def job(ledger: Ledger, now: float) -> bool:
            """Delete the task if it is the client's own. `now`: task-clock seconds."""
            ledger.close(ledger.task(task_id, now, client, key).id)
            return True

        self._state.write(job, call.answer)

    def _caller(self, call: Invocation) -> str:
        return self._state.clients.require(call.args["client_id"], call.caller, call.now).name


def status_of(task: Task) -> dict[str, Any]:
    """Return `state`, `status`, `detail`, `attempts`, `node` and `updated` (unix seconds) of a task."""
    return {
        "state": task.state,
        "status": Raw(task.status),
        "detail": Raw(task.detail),
        "attempts": task.attempts,
        "node": task.node,
        "updated": task.updated,
    }
