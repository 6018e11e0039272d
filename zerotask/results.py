"""A result that somebody asked for: read from the store, or waited for and told by the notice of the task's end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Raw

from zerotask import errors, methods
from zerotask.errors import RpcError
from zerotask.jsonrpc import decode
from zerotask.ledger import ENDED, FINISHED, Ledger, Notice
from zerotask.office import Invocation, Office
from zerotask.waiters import Waiter

Look = Callable[[Ledger, float], tuple[bool, bytes]]


class Wanted:
    """One call of client_task_result or task_result. It is answered once, whatever comes first."""

    def __init__(self, office: Office, call: Invocation, task_id: str, owner: tuple[str, str] | None) -> None:
        self._office, self._call, self._task_id = office, call, task_id
        self._owner = owner  # client and key; None is an operator, who may see everything
        self._waiter: Waiter | None = None
        self._answered = False

    def ask_or_wait(self, look: Look) -> None:
        """With `wait` the answer comes as soon as the task has ended, or when the time is over."""
        wait = methods.number(self._call.args, "wait", 0.0, 0.0, methods.MAX_WAIT)
        if wait:
            until = self._call.now + wait
            self._waiter = self._office.waiters.add(self._task_id, until, self._told, lambda: self._ask(look))
            if self._owner is not None and self._office.live.get(self._task_id) == self._owner:
                return  # known to be alive and the caller's own: nothing to read before its end
        try:
            self._office.read(look, self._read)
        except RpcError as error:
            self._answer(None, error)

    def _ask(self, look: Look) -> None:
        self._office.store.read(look, self._read)

    def _told(self, notice: Notice) -> None:
        task = notice.task
        if self._owner in (None, (task.client, task.key)) and task.state in ENDED:
            self._answer((task.state == FINISHED, task.outcome), None)

    def _read(self, value: Any, error: RpcError | None) -> None:
        waits = self._waiter is not None and not self._waiter.over
        if error is None or error.code != errors.NOT_FINISHED or not waits:
            self._answer(value, error)

    def _answer(self, value: Any, error: RpcError | None) -> None:
        if self._answered:
            return
        self._answered = True
        if self._waiter is not None:
            self._office.waiters.forget(self._waiter)
        if error is not None:
            self._call.answer(None, error)
            return
        finished, outcome = value
        if finished:
            self._call.answer(Raw(outcome), None)
        else:
            failed = decode(outcome)
            self._call.answer(None, RpcError(failed["code"], failed["message"], failed.get("data")))
