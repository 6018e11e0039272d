"""A node of ZeroTask on Twisted: claims tasks for its free slots, has them worked on, and reports until it is heard.

    node = Node(link, reactor, "worker-1", {"add": {}}, run, cancel, slots=4)
    node.start()
    ...
    await node.stop()

`run(work, tell)` returns a Deferred of the result (or of TaskFailed) and `cancel(task_id)` ends it early:
`Children.run` for functions in processes of their own, or any other for work that the process does itself, as Helen
does for her agents.

The broker offers tasks directly, one for each free slot, so a node needs no published announcements. A result that
cannot be reported is kept, with its slot, until the broker takes it or says whose it is.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from zerotask import errors, jsonrpc, methods
from zerotask.children import Tell, Work
from zerotask.errors import NoAnswer, RpcError, TaskFailed
from zerotask.links import Link
from zerotask.roster import BEAT, new_name
from zerotask.rpc import Rpc

UNSERVED = 1_000  # offered tasks that wait for a slot here; the broker offers again what is forgotten
RETRY_FIRST, RETRY_MOST = 0.25, 5.0  # seconds between attempts to connect or to report, doubling, with full jitter
STARTED_AFTER = 0.5  # seconds of work after which it is told that it runs; what is shorter is as good as finished
STOP_WAIT = 5.0  # seconds in which work may end by itself when the node stops
NOT_OURS = (errors.NOT_YOUR_LEASE, errors.TASK_UNKNOWN)  # the work was in vain: drop it
ENVELOPE = 2  # levels of nesting that a report puts around a result
PASSING = (errors.OVERLOADED, errors.STORING_FAILED, errors.DISABLED, errors.NODE_TAKEN)

Run = Callable[[Work, Tell], Deferred[Any]]


class Node:
    """One name at one broker, with as many slots as tasks it works on at once."""

    _log = Logger()

    def __init__(
        self,
        link: Link,
        reactor: Any,
        name: str | None,
        served: dict[str, dict[str, Any]],
        run: Run,
        cancel: Callable[[str], None],
        slots: int = 1,
    ) -> None:
        self.name = name or new_name()
        self.on_connected: Callable[[], None] = lambda: None
        self._rpc, self._reactor = Rpc(link, reactor), reactor
        self._served, self._slots = served, slots
        self._run, self._cancel = run, cancel
        self._waiting: OrderedDict[str, None] = OrderedDict()  # offered, not asked for yet
        self._held: dict[str, bool] = {}  # task -> whether it is still worked on
        self._asking: set[str] = set()
        self._connected = self._connecting = self._stopping = False
        self._beats = LoopingCall(self._beat)
        self._beats.clock = reactor
        self._idle: list[Deferred[None]] = []

    # ------------------------------------------------------------------------------------- come and go

    def start(self) -> None:
        self._rpc.on_renewed = self._renewed
        self._rpc.on_notification = self._told
        self._rpc.start()
        self._beats.start(BEAT, now=False)

    def stop(self, wait: float = STOP_WAIT) -> Deferred[None]:
        """Claim no more; give running work a moment, then give back what is left, and leave."""
        self._stopping = True
        self._waiting.clear()
        return Deferred.fromCoroutine(self._stop(wait))

    async def _stop(self, wait: float) -> None:
        if self._held or self._asking:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle.addTimeout(wait, self._reactor, lambda *_: None)
        if self._beats.running:
            self._beats.stop()
        if self._connected:
            self._connected = False  # what ends from now on is not reported: it is given back
            try:
                await self._rpc.call("node_disconnect", [self.name], timeout=1.0)
            except (RpcError, NoAnswer) as error:
                self._log.info("Left without a goodbye: {error}", error=error)
        for task_id in [task_id for task_id, running in self._held.items() if running]:
            self._cancel(task_id)
        self._rpc.close()

    def _renewed(self) -> None:
        self._connected = False
        self._connect()

    def _connect(self) -> None:
        if not self._connecting and not self._stopping:
            self._connecting = True
            Deferred.fromCoroutine(self._introduce()).addErrback(self._odd)

    async def _introduce(self) -> None:
        """Say who we are, what we serve and what we still work on, until the broker takes it."""
        try:
            for pause in _pauses():
                if self._stopping or await self._introduced():
                    return
                await deferLater(self._reactor, pause)
        finally:
            self._connecting = False

    async def _introduced(self) -> bool:
        told = {"node_id": self.name, "methods": self._served, "slots": self._slots, "tasks": list(self._held)}
        try:
            await self._rpc.call("node_connect", told)
        except NoAnswer:
            return False
        except RpcError as error:
            if error.code not in PASSING:
                self._log.error("Refused as node {name}: {error}", name=self.name, error=error)
            return False
        self._connected = True
        self.on_connected()
        self._pump()
        return True

    def _beat(self) -> None:
        if self._connected:
            self._rpc.call("node_heartbeat", [self.name]).addErrback(self._unknown)

    def _unknown(self, failure: Any) -> None:
        """The broker has forgotten us, or does not answer."""
        failure.trap(RpcError, NoAnswer)
        if failure.check(RpcError) and failure.value.code in (errors.NODE_UNKNOWN, errors.UNAUTHORISED):
            self._renewed()

    def _odd(self, failure: Any) -> None:
        self._log.failure("The node {name} met what it did not expect", failure=failure, name=self.name)

    # ------------------------------------------------------------------------------------------- claiming

    def _told(self, method: str, params: Any) -> None:
        """What the broker says without being asked."""
        values = list(params.values()) if isinstance(params, dict) else params
        if method == methods.NEW_TASK and len(values) == 2:
            self._offered(params["task_id"] if isinstance(params, dict) else values[1])
        elif method == methods.CANCEL and len(values) == 1 and self._held.get(values[0]):
            self._cancel(values[0])

    def _offered(self, task_id: Any) -> None:
        if isinstance(task_id, str) and task_id not in self._held and task_id not in self._asking:
            self._waiting[task_id] = None
            if len(self._waiting) > UNSERVED:
                self._waiting.popitem(last=False)
            self._pump()

    def _pump(self) -> None:
        """Ask for as many tasks as there are free slots."""
        while self._waiting and self._connected and len(self._held) + len(self._asking) < self._slots:
            task_id, _ = self._waiting.popitem(last=False)
            self._asking.add(task_id)
            Deferred.fromCoroutine(self._work_on(task_id)).addErrback(self._odd)

    async def _work_on(self, task_id: str) -> None:
        """From the claim to the broker's word that the outcome is stored."""
        try:
            given = await self._claim(task_id)
        finally:
            self._asking.discard(task_id)
        if given:
            self._held[task_id] = True
            try:
                await self._report(task_id, await self._outcome(given))
            finally:
                del self._held[task_id]
        self._pump()
        if not self._held and not self._asking:
            idle, self._idle = self._idle, []
            for waiting in idle:
                waiting.callback(None)

    async def _claim(self, task_id: str) -> dict[str, Any]:
        """Without a timeout: a claim that is answered late is still a task of ours."""
        try:
            return await self._rpc.call("node_task_request", {"task_id": task_id, "details": True}, timeout=None)
        except NoAnswer:
            return {}
        except RpcError as error:
            if error.code in (errors.NODE_UNKNOWN, errors.UNAUTHORISED):
                self._renewed()
            return {}

    # ------------------------------------------------------------------------------------------- working

    async def _outcome(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The call that reports what became of it."""
        task_id = given["id"]
        work = Work(task_id, given["method"], given["params"], given["attempt"], given["time_limit"])
        started = self._reactor.callLater(STARTED_AFTER, self._tell, task_id, "started", {})
        try:
            result = await self._run(work, lambda status, detail: self._tell(task_id, status, detail))
        except TaskFailed as failed:
            error = {"code": failed.code, "message": failed.message}
            if failed.data is not None:
                error["data"] = failed.data
            return "node_task_failed", {"task_id": task_id, "error": error, "retry": failed.retry}
        except Exception as error:
            self._log.failure("Work on {task_id} ended in an exception", task_id=task_id)
            told = {"code": errors.FUNCTION_RAISED, "message": f"{type(error).__name__}: {error}"}
            return "node_task_failed", {"task_id": task_id, "error": told}
        finally:
            self._held[task_id] = False
            if started.active():
                started.cancel()
        try:
            jsonrpc.decode(jsonrpc.encode(result), jsonrpc.MAX_DEPTH - ENVELOPE)
        except (RpcError, TypeError, ValueError, RecursionError) as error:
            return _refused(task_id, error)
        return "node_task_finished", {"task_id": task_id, "task_result": result}

    def _tell(self, task_id: str, status: Any, detail: dict[str, Any]) -> None:
        """Best effort: the next word replaces a lost one."""
        if self._connected:
            named = {name: value for name, value in detail.items() if name not in ("node_id", "task_id", "status")}
            self._rpc.notify("task_status", {"node_id": self.name, "task_id": task_id, "status": status, **named})

    async def _report(self, task_id: str, report: tuple[str, dict[str, Any]]) -> None:
        for pause in _pauses():
            if self._stopping and not self._connected:
                return
            try:
                if self._connected:
                    await self._rpc.call(*report)
                    return
            except NoAnswer:
                pass
            except RpcError as error:
                if error.code in NOT_OURS:
                    self._log.info("The work on {task_id} was in vain: {error}", task_id=task_id, error=error)
                    return
                if error.code in (errors.NODE_UNKNOWN, errors.UNAUTHORISED):
                    self._renewed()
                elif error.code not in PASSING:
                    self._log.error("The outcome of {task_id} is refused: {error}", task_id=task_id, error=error)
                    report = _refused(task_id, error)
            await deferLater(self._reactor, pause)


def _refused(task_id: str, error: Exception) -> tuple[str, dict[str, Any]]:
    """What cannot be stored is a failure, and would be one again."""
    told = {"code": errors.FUNCTION_RAISED, "message": f"the outcome cannot be stored: {error}"[:1_000]}
    return "node_task_failed", {"task_id": task_id, "error": told, "retry": False}


def _pauses() -> Iterator[float]:
    """0.25 s, 0.5 s ... 5 s, each with full jitter, without end."""
    pause = RETRY_FIRST
    while True:
        yield pause * random.random()
        pause = min(2 * pause, RETRY_MOST)
