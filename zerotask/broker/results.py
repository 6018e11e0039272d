"""Answers calls for a result: from the store, or when the task ends if the call waits for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from zerotask import errors
from zerotask.broker.broker_state import BrokerState, Invocation
from zerotask.broker.waiters import Waiter
from zerotask.errors import RpcError
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import ENDED, FINISHED, Notice
from zerotask.wire import methods
from zerotask.wire.jsonrpc import decode

ReadResult = Callable[[Ledger, float], tuple[bool, bytes]]


class ResultCall:
    """Answers one call of client_task_result or task_result, once: by the store or by the end of the task."""

    def __init__(self, state: BrokerState, call: Invocation, task_id: str, owner: tuple[str, str] | None) -> None:
        self._state, self._call, self._task_id = state, call, task_id
        self._owner = owner  # client and key; None is an operator: it may see every task
        self._waiter: Waiter | None = None
        self._answered = False

    def start(self, read_result: ReadResult) -> None:
        """Read the result. With `wait` the answer comes when the task has ended, or when that time is over.

        Raises RpcError if `wait` is out of its bounds, or if too many calls wait.
        """
        wait = methods.number(self._call.args, "wait", 0.0, 0.0, methods.MAX_WAIT)
        if wait:
            until = self._call.now + wait
            self._waiter = self._state.waiters.add(self._task_id, until, self._ended, lambda: self._ask(read_result))
            if self._owner is not None and self._state.owners.get(self._task_id) == self._owner:
                return  # it has not ended and is the caller's own: there is nothing to read before its end
        try:
            self._state.read(read_result, self._done)
        except RpcError as error:
            self._answer(None, error)

    def _ask(self, read_result: ReadResult) -> None:
        self._state.store.read(read_result, self._done)

    def _ended(self, notice: Notice) -> None:
        task = notice.task
        if self._owner in (None, (task.client, task.key)) and task.state in ENDED:
            self._answer((task.state == FINISHED, task.outcome), None)

    def _done(self, value: Any, error: RpcError | None) -> None:
        waits = self._waiter is not None and not self._waiter.over
        if error is None or error.code != errors.NOT_FINISHED or not waits:
            self._answer(value, error)

    def _answer(self, value: Any, error: RpcError | None) -> None:
        if self._answered:
            return
        self._answered = True
        if self._waiter is not None:
            self._state.waiters.forget(self._waiter)
        if error is not None:
            self._call.answer(None, error)
            return
        finished, outcome = value
        if finished:
            self._call.answer(Raw(outcome), None)
        else:
            failed = decode(outcome)
            self._call.answer(None, RpcError(failed["code"], failed["message"], failed.get("data")))
