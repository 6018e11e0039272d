"""A client of ZeroTask on Twisted: submit, look, wait, cancel; with patience where repeating is safe.

    client = Client(SocketLink(reactor, "tcp://127.0.0.1:5555"), reactor, "reports")
    client.start()
    task_id = await client.submit("add", [1, 2], max_attempts=5)
    value = await client.wait(task_id, timeout=60)          TaskFailed if it failed
    await client.stop()

A submission carries its id, so it is repeated until the broker has answered: a task that was stored before the answer
got lost is recognised, not stored twice. All methods return Deferreds.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import deferLater

from zerotask import errors, methods
from zerotask.errors import NoAnswer, RpcError, TaskFailed
from zerotask.links import Link
from zerotask.roster import new_name, new_task_id
from zerotask.rpc import ANSWER_WAIT, Rpc

PATIENCE = 30.0  # seconds for which a call is repeated: a restart of the broker and a lapse of our old name fit in
RETRY_FIRST, RETRY_MOST = 0.1, 2.0  # seconds between repetitions, doubling, with jitter
ASK_EVERY = 20.0  # seconds after which a task whose end we were not told of is asked about all the same
MINE = 20_000  # submitted tasks whose end will be told; the ends of older ones are asked for
STRANGER = (errors.CLIENT_UNKNOWN, errors.UNAUTHORISED)  # the broker does not know us: connect, then again
PASSING = (errors.OVERLOADED, errors.STORING_FAILED, errors.DISABLED, errors.CLIENT_TAKEN)  # worth another try
OF_THE_CALL = (  # errors of client_task_result that say nothing about the task's own end
    *STRANGER,
    *PASSING,
    errors.NOT_FINISHED,
    errors.TASK_UNKNOWN,
    errors.EXPIRED,
    errors.INVALID_PARAMS,
    errors.INTERNAL,
)

Told = tuple[bool, Any]  # whether it finished, and its result or its error object


class Client:
    """One name at one broker. Without a name the broker gives one."""

    def __init__(self, link: Link, reactor: Any, name: str | None = None) -> None:
        self.name = name or new_name()
        self._rpc, self._reactor = Rpc(link, reactor), reactor
        self._connected = False
        self._rpc.on_renewed = self._forgotten
        self._rpc.on_notification = self._heard
        self._is_told = True  # whether the broker tells of ends; one of the bare seed does not
        self._mine: OrderedDict[str, list[Deferred[Told | None]]] = OrderedDict()  # submitted, and who waits for each

    def start(self) -> None:
        self._rpc.start()

    def stop(self) -> Deferred[None]:
        """Say goodbye, if anybody listens. Tasks live on."""
        if not self._connected:
            self._rpc.close()
            return succeed(None)
        leaving = self._rpc.call("client_disconnect", [self.name], timeout=1.0)
        leaving.addErrback(lambda failure: failure.trap(RpcError, NoAnswer) and None)
        return leaving.addCallback(lambda _: self._rpc.close())

    def _forgotten(self) -> None:
        """What ended while nobody could tell us has to be asked for."""
        self._connected = False
        mine, self._mine = self._mine, OrderedDict()
        for waiting in mine.values():
            _fire(waiting, None)

    def _heard(self, method: str, params: Any) -> None:
        if method == methods.TASK_ENDED and isinstance(params, list) and len(params) == 3:
            task_id, finished, outcome = params
            _fire(self._mine.pop(task_id, []), (finished, outcome))

    def _note(self, task_id: str) -> None:
        """From now on its end will be told."""
        if self._is_told and self._connected:
            self._mine.setdefault(task_id, [])
            if len(self._mine) > MINE:
                _fire(self._mine.popitem(last=False)[1], None)

    # --------------------------------------------------------------------------------------------- tasks

    def submit(
        self, method: str, params: Any = (), task_id: str | None = None, patience: float = PATIENCE, **options: Any
    ) -> Deferred[str]:
        """The id of the task, which is stored by then. `options`: priority, delay, time_limit, max_attempts, ..."""
        named = params if isinstance(params, dict) else list(params)
        order = {"method": method, "params": named, "task_id": task_id or new_task_id(time.time()), **options}
        return Deferred.fromCoroutine(self._submit(order, patience))

    async def _submit(self, order: dict[str, Any], patience: float) -> str:
        task_id = str(order["task_id"])
        self._note(task_id)
        try:
            return str(await self._persist("client_new_task", order, patience))
        except RpcError as error:
            self._forget(task_id)
            if error.code == errors.TASK_TAKEN and (error.data or {}).get("identical"):
                return task_id
            raise

    def _forget(self, task_id: str) -> None:
        """Its end may have been told before we listened."""
        _fire(self._mine.pop(task_id, []), None)

    def call(self, method: str, params: dict[str, Any], patience: float = PATIENCE) -> Deferred[Any]:
        """Any method that takes a client id, which is put in here."""
        return Deferred.fromCoroutine(self._persist(method, params, patience))

    def status(self, task_id: str, patience: float = PATIENCE) -> Deferred[dict[str, Any]]:
        return self.call("client_task_status", {"task_id": task_id}, patience)

    def cancel(self, task_id: str, patience: float = PATIENCE) -> Deferred[bool]:
        """True once it is ended for good by this; false if it had ended before."""
        return self.call("client_task_cancel", {"task_id": task_id}, patience)

    def result(self, task_id: str, patience: float = PATIENCE) -> Deferred[Any]:
        """What the task came to, now; RpcError NOT_FINISHED while it has not, TaskFailed if it failed."""
        return Deferred.fromCoroutine(self._result({"task_id": task_id}, patience))

    def wait(self, task_id: str, timeout: float) -> Deferred[Any]:
        """The same, when it has ended; RpcError NOT_FINISHED when time is up."""
        return Deferred.fromCoroutine(self._wait(task_id, timeout))

    async def _wait(self, task_id: str, timeout: float) -> Any:
        deadline = self._reactor.seconds() + timeout
        while True:
            left = max(deadline - self._reactor.seconds(), 0.0)
            told = await self._told(task_id, min(left, ASK_EVERY))
            if told is not None:
                return _value(told)
            left = max(deadline - self._reactor.seconds(), 0.0)
            wait = 0.0 if task_id in self._mine else min(left, methods.MAX_WAIT / 2)
            try:
                return await self._result({"task_id": task_id, "wait": wait}, max(left, ANSWER_WAIT))
            except RpcError as error:
                if error.code != errors.NOT_FINISHED or self._reactor.seconds() >= deadline:
                    raise

    async def _told(self, task_id: str, patience: float) -> Told | None:
        """What the broker tells of its end; None when it has to be asked."""
        waiting = self._mine.get(task_id)
        if waiting is None:
            return None
        told: Deferred[Told | None] = Deferred()
        waiting.append(told)
        try:
            return await told.addTimeout(patience, self._reactor, lambda *_: None)
        finally:
            if told in waiting:
                waiting.remove(told)

    async def _result(self, asked: dict[str, Any], patience: float) -> Any:
        try:
            return await self._persist("client_task_result", asked, patience)
        except RpcError as error:
            if error.code in OF_THE_CALL:
                raise
            raise TaskFailed(error.code, error.message, error.data) from error

    # ---------------------------------------------------------------------------------------- persistence

    async def _persist(self, method: str, params: dict[str, Any], patience: float) -> Any:
        """Call until there is an answer that repeating cannot change, or patience is over."""
        deadline, pause = self._reactor.seconds() + patience, RETRY_FIRST
        while True:
            try:
                return await self._once(method, params)
            except NoAnswer:
                if self._reactor.seconds() >= deadline:
                    raise
            except RpcError as error:
                if error.code in STRANGER:
                    self._connected = False
                elif error.code not in PASSING:
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
        """Asking to be told of ends, where the broker knows that."""
        try:
            await self._rpc.call("client_connect", {"client_id": self.name, "results": True})
        except RpcError as error:
            if error.code != errors.INVALID_PARAMS:
                raise
            self._is_told = False
            await self._rpc.call("client_connect", [self.name])


def _value(told: Told) -> Any:
    finished, outcome = told
    if finished:
        return outcome
    raise TaskFailed(outcome["code"], outcome["message"], outcome.get("data"))


def _fire(waiting: list[Deferred[Told | None]], told: Told | None) -> None:
    for one in list(waiting):
        one.callback(told)
