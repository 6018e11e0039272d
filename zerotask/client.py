"""Submits tasks to a broker, waits for their results and cancels them, from a Twisted program.

    client = Client(SocketLink(reactor, "tcp://127.0.0.1:5555"), reactor, "reports")
    client.start()
    task_id = await client.submit("add", [1, 2], max_attempts=5)
    value = await client.wait(task_id, timeout=60)          raises TaskFailed if it failed
    await client.stop()

A submission carries its id, so it can be repeated until the broker has answered: a task that was stored before its
answer got lost is recognised, not stored twice. The other calls are repeated as well. All methods return Deferreds.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import deferLater

from zerotask import errors
from zerotask.errors import NoAnswer, RpcError, TaskFailed, has_lost_name
from zerotask.tasks.connections import new_name, new_task_id
from zerotask.wire import jsonrpc, methods
from zerotask.wire.calls import ANSWER_WAIT, Rpc
from zerotask.wire.links import Link

PATIENCE = (
    30.0  # seconds for which a call is repeated: long enough for a restart of the broker and the lapse of an old name
)
RETRY_FIRST, RETRY_MOST = 0.1, 2.0  # seconds between repetitions, doubling, with jitter
ASK_EVERY = 20.0  # seconds after which the broker is asked for a result that it has not sent: the message may be lost
FOLLOWED_MOST = 20_000  # submitted tasks that the broker sends the result of; for older ones it is asked
NOT_CONNECTED = (errors.CLIENT_UNKNOWN, errors.UNAUTHORISED)  # connect, then call again
TRANSIENT = (errors.OVERLOADED, errors.STORING_FAILED, errors.DISABLED, errors.CLIENT_TAKEN)  # the next try may succeed
OF_THE_CALL = (  # errors of client_task_result that say nothing about the task's own end
    *NOT_CONNECTED,
    *TRANSIENT,
    errors.NOT_FINISHED,
    errors.TASK_UNKNOWN,
    errors.EXPIRED,
    errors.INVALID_PARAMS,
    errors.INTERNAL,
)

End = tuple[bool, Any]  # True and the result of a finished task, or False and the error object of a failed one


class Client:
    """Calls one broker under one name, a random one unless given.

    `patience` is in seconds: for so long a call is repeated if the broker does not answer, or refuses it for a reason
    that passes. Then the Deferred fails with NoAnswer or RpcError.
    """

    def __init__(self, link: Link, reactor: Any, name: str | None = None) -> None:
        self.name = name or new_name()
        self._rpc, self._reactor = Rpc(link, reactor, self._renewed, self._notified), reactor
        self._connected = False
        self._gets_ends = True  # the broker sends the ends of tasks; False for one that does not know `results`
        self._followed: OrderedDict[str, list[Deferred[End | None]]] = OrderedDict()  # task -> those that wait for it

    def start(self) -> None:
        """Connect, and go on connecting. Raises SocketError if the link can't be opened."""
        self._rpc.start()

    def stop(self) -> Deferred[None]:
        """Disconnect, and give the name back if the broker answers within a second. Tasks go on."""
        if not self._connected:
            self._rpc.close()
            return succeed(None)
        leaving = self._rpc.call("client_disconnect", [self.name], timeout=1.0)
        leaving.addErrback(lambda failure: failure.trap(RpcError, NoAnswer))
        return leaving.addCallback(lambda _: self._rpc.close())

    def _renewed(self) -> None:
        """Let all that wait ask the broker: a task may have ended while there was no connection."""
        self._connected = False
        followed, self._followed = self._followed, OrderedDict()
        for waiting in followed.values():
            _fire(waiting, None)

    def _notified(self, method: str, params: Any) -> None:
        if method == methods.TASK_ENDED and isinstance(params, list) and len(params) == 3:
            task_id, finished, outcome = params
            _fire(self._followed.pop(task_id, []), (finished, outcome))

    def _follow(self, task_id: str) -> None:
        """Expect that the broker sends the end of a task."""
        if self._gets_ends and self._connected:
            self._followed.setdefault(task_id, [])
            if len(self._followed) > FOLLOWED_MOST:
                _fire(self._followed.popitem(last=False)[1], None)

    # --------------------------------------------------------------------------------------------- tasks

    def submit(
        self, method: str, params: Any = (), task_id: str | None = None, patience: float = PATIENCE, **options: Any
    ) -> Deferred[str]:
        """Submit a task; the Deferred fires with its id when it is stored. `patience`: seconds, see the class.

        It fails with RpcError INVALID_PARAMS if the params are not JSON, as NaN is not.
        `options` are those of docs/zerotask.rst: priority, delay, time_limit, max_attempts, result_ttl.
        """
        named = params if isinstance(params, dict) else list(params)
        try:
            jsonrpc.encode(named)
        except (TypeError, ValueError, RecursionError) as error:
            return fail(RpcError(errors.INVALID_PARAMS, f"params are not JSON: {error}"))
        submission = {"method": method, "params": named, "task_id": task_id or new_task_id(time.time()), **options}
        return Deferred.fromCoroutine(self._submit(submission, patience))

    async def _submit(self, submission: dict[str, Any], patience: float) -> str:
        task_id = str(submission["task_id"])
        self._follow(task_id)
        try:
            return str(await self._repeat("client_new_task", submission, patience))
        except RpcError as error:
            self._unfollow(task_id)
            if error.code == errors.TASK_TAKEN and (error.data or {}).get("identical"):
                return task_id
            raise

    def _unfollow(self, task_id: str) -> None:
        """Let those that wait for a task ask the broker: its end may have been sent before."""
        _fire(self._followed.pop(task_id, []), None)

    def call(self, method: str, params: dict[str, Any], patience: float = PATIENCE) -> Deferred[Any]:
        """Call a method that takes a client id, which is added here. `patience`: seconds, see the class."""
        return Deferred.fromCoroutine(self._repeat(method, params, patience))

    def status(self, task_id: str, patience: float = PATIENCE) -> Deferred[dict[str, Any]]:
        """Return `state`, `status`, `detail`, `attempts`, `node` and `updated` (unix seconds) of a task.

        `patience`: seconds, see the class.
        """
        return self.call("client_task_status", {"task_id": task_id}, patience)

    def cancel(self, task_id: str, patience: float = PATIENCE) -> Deferred[bool]:
        """End a task as cancelled. `patience`: seconds, see the class.

        The Deferred fires with True if the task has ended as cancelled, by whichever try of this call, and with False
        if it had ended otherwise or before.
        """
        return Deferred.fromCoroutine(self._cancel(task_id, patience))

    async def _cancel(self, task_id: str, patience: float) -> bool:
        lost: list[NoAnswer] = []
        if await self._repeat("client_task_cancel", {"task_id": task_id}, patience, lost.append):
            return True
        if not lost:
            return False
        try:  # a try that was not answered may have ended it
            await self._result({"task_id": task_id}, patience)
        except TaskFailed as failed:
            return failed.code == errors.CANCELLED
        except RpcError:
            pass
        return False

    def result(self, task_id: str, patience: float = PATIENCE) -> Deferred[Any]:
        """Return the result of an ended task. `patience`: seconds, see the class.

        The Deferred fails with TaskFailed if the task failed, with RpcError NOT_FINISHED if it has not ended.
        """
        return Deferred.fromCoroutine(self._result({"task_id": task_id}, patience))

    def wait(self, task_id: str, timeout: float) -> Deferred[Any]:
        """Return the result of a task when it has ended, within `timeout` seconds.

        The Deferred fails with TaskFailed if the task failed, with RpcError NOT_FINISHED when the time is over.
        """
        return Deferred.fromCoroutine(self._wait(task_id, timeout))

    async def _wait(self, task_id: str, timeout: float) -> Any:
        deadline = self._reactor.seconds() + timeout
        while True:
            left = max(deadline - self._reactor.seconds(), 0.0)
            end = await self._end(task_id, min(left, ASK_EVERY))
            if end is not None:
                return _value(end)
            left = max(deadline - self._reactor.seconds(), 0.0)
            wait = 0.0 if task_id in self._followed else min(left, methods.MAX_WAIT / 2)
            try:
                return await self._result({"task_id": task_id, "wait": wait}, max(left, ANSWER_WAIT))
            except RpcError as error:
                if error.code != errors.NOT_FINISHED or self._reactor.seconds() >= deadline:
                    raise

    async def _end(self, task_id: str, patience: float) -> End | None:
        """Return the end of a task as the broker sends it; None if the broker has to be asked."""
        waiting = self._followed.get(task_id)
        if waiting is None:
            return None
        end: Deferred[End | None] = Deferred()
        waiting.append(end)
        try:
            return await end.addTimeout(patience, self._reactor, lambda *_: None)
        finally:
            if end in waiting:
                waiting.remove(end)

    async def _result(self, asked: dict[str, Any], patience: float) -> Any:
        try:
            return await self._repeat("client_task_result", asked, patience)
        except RpcError as error:
            if error.code in OF_THE_CALL:
                raise
            raise TaskFailed(error.code, error.message, error.data) from error

    # ------------------------------------------------------------------------------------------ repeating

    async def _repeat(
        self,
        method: str,
        params: dict[str, Any],
        patience: float,
        on_lost: Callable[[NoAnswer], None] = lambda lost: None,
    ) -> Any:
        """Call until there is an answer that repeating cannot change, or until `patience` seconds are over.

        `on_lost` is called for each try that got no answer, and that may have been obeyed.
        """
        deadline, pause = self._reactor.seconds() + patience, RETRY_FIRST
        while True:
            try:
                return await self._once(method, params)
            except NoAnswer as lost:
                on_lost(lost)
                if self._reactor.seconds() >= deadline:
                    raise
            except RpcError as error:
                if has_lost_name(error, errors.CLIENT_UNKNOWN):
                    self._connected = False
                elif error.code not in TRANSIENT:
                    raise
                if self._reactor.seconds() >= deadline:
                    raise
            await deferLater(self._reactor, pause * (0.5 + random.random() / 2))
            pause = min(2 * pause, RETRY_MOST)

    async def _once(self, method: str, params: dict[str, Any]) -> Any:
        if not self._connected:
            await self._connect()
            self._connected = True
        wait = params.get("wait", 0.0)
        asked = {"client_id": self.name, **params}
        return await self._rpc.call(method, asked, timeout=wait + ANSWER_WAIT, alone=wait > 0)

    async def _connect(self) -> None:
        """Connect, and ask for the ends of tasks if the broker knows `results`."""
        try:
            await self._rpc.call("client_connect", {"client_id": self.name, "results": True})
        except RpcError as error:
            if error.code != errors.INVALID_PARAMS:
                raise
            self._gets_ends = False
            await self._rpc.call("client_connect", [self.name])


def _value(end: End) -> Any:
    finished, outcome = end
    if finished:
        return outcome
    raise TaskFailed(outcome["code"], outcome["message"], outcome.get("data"))


def _fire(waiting: list[Deferred[End | None]], end: End | None) -> None:
    for one in list(waiting):
        one.callback(end)
