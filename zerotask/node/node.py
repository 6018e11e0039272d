"""Runs a node of ZeroTask on Twisted: it claims tasks for its free slots, has them run, and reports their outcome.

    node = Node(link, reactor, "worker-1", {"add": {}}, run, cancel, slots=4)
    node.start()
    ...
    await node.stop()

`run(work, tell)` returns a Deferred that fires with the result or fails with TaskFailed, and `cancel(task_id)` ends it
early. `WorkerProcesses` has both for functions in processes of their own; Helen has its own, which ask its agents.

The broker offers tasks directly, one for each free slot, so a node needs no published announcements. A result that
cannot be reported keeps its slot until the broker takes it, or says that the task belongs to another node.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger

from groundwork.event import Event
from zerotask import errors
from zerotask.errors import NoAnswer, RpcError, TaskFailed, has_lost_name
from zerotask.node.worker_processes import Tell, Work
from zerotask.tasks.connections import BEAT, new_name
from zerotask.wire import jsonrpc, methods
from zerotask.wire.calls import Rpc
from zerotask.wire.links import Link

WAITING_MOST = 10_000  # held tasks that take no slot; the broker takes 20,000 held ones
UNSERVED = 1_000  # offered tasks that wait for a slot here; the broker offers again what is dropped
RETRY_FIRST, RETRY_MOST = 0.25, 5.0  # seconds between attempts to connect or to report, doubling, with full jitter
STARTED_AFTER = 0.5  # seconds of work after which the status `started` is reported; shorter work is finished before
STOP_WAIT = 5.0  # seconds in which work may end by itself when the node stops
LEAVE_WAIT = 1.0  # seconds for the answer of a broker that is told that this node disconnects
LOOK_EVERY = 0.05  # seconds between looks at the connection meanwhile: a broker that stops as well does not answer
NOT_OURS = (errors.NOT_YOUR_LEASE, errors.TASK_UNKNOWN)  # the result counts no more: drop it
ENVELOPE = 2  # levels of nesting that a report puts around a result
TRANSIENT = (errors.OVERLOADED, errors.STORING_FAILED, errors.DISABLED, errors.NODE_TAKEN)

Run = Callable[[Work, Tell], Deferred[Any]]


class Node:
    """Works on tasks of one broker under one name, as many at once as it has slots.

    `served` has the methods with their policies. `on_connected` is called whenever the broker has taken the node.
    """

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
        self.on_connected: Event[[]] = Event()
        self._rpc, self._reactor = Rpc(link, reactor, self._renewed, self._notified), reactor
        self._served, self._slots = served, slots
        self._run, self._cancel = run, cancel
        self._offers: OrderedDict[str, None] = OrderedDict()  # offered, not claimed yet
        self._held: dict[str, bool] = {}  # task -> True while it is worked on, False while it is reported
        self._waits: set[str] = set()  # held tasks whose work waits: they take no slot
        self._claiming: set[str] = set()
        self._connected = self._connecting = self._stopping = False
        self._beats = LoopingCall(self._beat)
        self._beats.clock = reactor
        self._idle: list[Deferred[None]] = []
        self._told_refusal = ""  # the last refusal of node_connect that stands in the log
        self._is_heard: bool  # the last heartbeat was answered; set as the broker takes this node

    # ------------------------------------------------------------------------------------- come and go

    def start(self) -> None:
        """Connect, and go on connecting. Raises SocketError if the link can't be opened."""
        self._rpc.start()
        self._beats.start(BEAT, now=False)

    @property
    def running(self) -> int:
        """Return how many tasks this node holds."""
        return len(self._held)

    @property
    def is_working(self) -> bool:
        """Return whether it runs a task or has asked for one: a `stop` waits for these."""
        return bool(self._held or self._claiming)

    def stop(self, wait: float = STOP_WAIT) -> Deferred[None]:
        """Claim no more, wait up to `wait` seconds for running work, give back what is left, and disconnect."""
        self._stopping = True
        self._offers.clear()
        return Deferred.fromCoroutine(self._stop(wait))

    def stop_waiting(self) -> None:
        """Let a `stop` that waits for running work go on at once."""
        idle, self._idle = self._idle, []
        for waiting in idle:
            waiting.callback(None)

    async def _stop(self, wait: float) -> None:
        if wait > 0 and self.is_working:
            idle: Deferred[None] = Deferred()
            self._idle.append(idle)
            await idle.addTimeout(wait, self._reactor, lambda *_: None)
            self._idle = [waiting for waiting in self._idle if waiting is not idle]
        if self._beats.running:
            self._beats.stop()
        if self._connected:
            self._connected = False  # work that ends from now on is not reported: it is given back
            await self._leave()
        for task_id in [task_id for task_id, running in self._held.items() if running]:
            self._cancel(task_id)
        self._rpc.close()

    async def _leave(self) -> None:
        """Tell the broker that this node disconnects, unless there is no connection, or none any more."""

        def look() -> None:
            if self._rpc.trouble:
                self._rpc.give_up(self._rpc.trouble)

        looks = LoopingCall(look)
        looks.clock = self._reactor
        left = self._rpc.call("node_disconnect", [self.name], timeout=LEAVE_WAIT)
        looks.start(LOOK_EVERY).addErrback(self._failed)
        try:
            await left
        except (RpcError, NoAnswer) as error:
            self._log.info("The broker was not told that this node disconnects: {error}", error=error)
        finally:
            looks.stop()

    def _renewed(self) -> None:
        self._connected = False
        self._connect()

    def _connect(self) -> None:
        if not self._connecting and not self._stopping:
            self._connecting = True
            Deferred.fromCoroutine(self._introduce()).addErrback(self._failed)

    async def _introduce(self) -> None:
        """Call node_connect until the broker takes this node."""
        try:
            for pause in _pauses():
                if not self._stopping:
                    await self._try_to_join()
                if self._stopping or self._connected:
                    return
                await deferLater(self._reactor, pause)
        finally:
            self._connecting = False

    async def _try_to_join(self) -> None:
        """Call node_connect once; afterwards this node is connected if the broker has taken it."""
        params = {"node_id": self.name, "methods": self._served, "slots": self._slots, "tasks": list(self._held)}
        try:
            await self._rpc.call("node_connect", params)
        except NoAnswer:
            return
        except RpcError as error:
            self._refused(error)
            return
        self._connected, self._told_refusal, self._is_heard = True, "", True
        for task_id in self._waits:
            self._tell_waits(task_id)
        self.on_connected()
        self._pump()

    def _refused(self, error: RpcError) -> None:
        """Tell of a refusal once, and again when another one follows: the node goes on trying, for ever if need be."""
        if str(error) != self._told_refusal:
            self._told_refusal = str(error)
            text = "Node {name} is refused and serves nothing so far; it goes on trying: {error}"
            self._log.error(text, name=self.name, error=error)

    def _beat(self) -> None:
        if self._connected:
            self._rpc.call("node_heartbeat", [self.name]).addCallbacks(self._beat_answered, self._beat_failed)

    def _beat_answered(self, answer: Any) -> None:
        self._is_heard = True

    @property
    def trouble(self) -> str:
        """Return the reason for which the broker gives this node no tasks; empty if it may."""
        if not self._connected:
            return self._told_refusal or "the broker has not taken this node yet"
        return "" if self._is_heard else "the broker does not answer heartbeats"

    def _beat_failed(self, failure: Any) -> None:
        """Connect again if the broker knows this node no more; it may also just not have answered."""
        failure.trap(RpcError, NoAnswer)
        self._is_heard = False
        if failure.check(RpcError) and has_lost_name(failure.value, errors.NODE_UNKNOWN):
            self._renewed()

    def _failed(self, failure: Any) -> None:
        self._log.failure("The node {name} failed at an unexpected error", failure=failure, name=self.name)

    # ------------------------------------------------------------------------------------------- claiming

    def _notified(self, method: str, params: Any) -> None:
        """Take a notification: the offer of a task, or its cancellation."""
        values = list(params.values()) if isinstance(params, dict) else params
        if method == methods.NEW_TASK and len(values) == 2:
            self._offered(params["task_id"] if isinstance(params, dict) else values[1])
        elif method == methods.CANCEL and len(values) == 1 and self._held.get(values[0]):
            self._cancel(values[0])

    def _offered(self, task_id: Any) -> None:
        if isinstance(task_id, str) and task_id not in self._held and task_id not in self._claiming:
            self._offers[task_id] = None
            if len(self._offers) > UNSERVED:
                self._offers.popitem(last=False)
            self._pump()

    def _pump(self) -> None:
        """Claim offered tasks for the free slots."""
        while self._offers and self._connected and self._busy() < self._slots:
            task_id, _ = self._offers.popitem(last=False)
            self._claiming.add(task_id)
            Deferred.fromCoroutine(self._work_on(task_id)).addErrback(self._failed)

    def _busy(self) -> int:
        return len(self._held) - len(self._waits) + len(self._claiming)

    def set_waiting(self, task_id: str, waits: bool) -> None:
        """Let a held task take no slot while its work waits for something else, or take one again.

        A broker of an earlier version does not know of it; then the slot stays taken, as it does beyond WAITING_MOST.
        """
        if task_id not in self._held or waits is (task_id in self._waits):
            return
        if not waits:
            self._waits.discard(task_id)
        elif len(self._waits) < WAITING_MOST:
            self._waits.add(task_id)
        else:
            return
        if self._connected:
            self._tell_waits(task_id)
        self._pump()

    def _tell_waits(self, task_id: str) -> None:
        told = self._rpc.call("node_task_waits", {"task_id": task_id, "waits": task_id in self._waits})
        told.addErrback(self._waits_not_told, task_id)

    def _waits_not_told(self, failure: Any, task_id: str) -> None:
        """Count the slot as taken if the broker knows no waiting; after a lost connection the next one tells it."""
        failure.trap(RpcError, NoAnswer)
        if failure.check(RpcError) and failure.value.code == errors.UNKNOWN_METHOD:
            self._waits.discard(task_id)

    async def _work_on(self, task_id: str) -> None:
        """Claim a task, run it, and report its outcome until the broker has stored it."""
        try:
            given = await self._claim(task_id)
        finally:
            self._claiming.discard(task_id)
        if given:
            self._held[task_id] = True
            try:
                await self._report(task_id, await self._outcome(given))
            finally:
                del self._held[task_id]
                self._waits.discard(task_id)
        self._pump()
        if not self._held and not self._claiming:
            self.stop_waiting()

    async def _claim(self, task_id: str) -> dict[str, Any] | None:
        """Claim a task; return None if it is not to be had. There is no timeout: after a late answer it is ours."""
        try:
            given = await self._rpc.call("node_task_request", {"task_id": task_id, "details": True}, timeout=None)
            return dict(given)
        except NoAnswer:
            return None
        except RpcError as error:
            if has_lost_name(error, errors.NODE_UNKNOWN):
                self._renewed()
            return None

    # ------------------------------------------------------------------------------------------- working

    async def _outcome(self, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Run a claimed task; return the call that reports its outcome, as method and params."""
        task_id = given["id"]
        submitter = str(given.get("client", "")), str(given.get("key", ""))
        work = Work(task_id, given["method"], given["params"], given["attempt"], given["time_limit"], *submitter)
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
            raised = {"code": errors.FUNCTION_RAISED, "message": f"{type(error).__name__}: {error}"}
            return "node_task_failed", {"task_id": task_id, "error": raised}
        finally:
            self._held[task_id] = False
            if started.active():
                started.cancel()
        try:
            jsonrpc.decode(jsonrpc.encode(result), jsonrpc.MAX_DEPTH - ENVELOPE)
        except (RpcError, TypeError, ValueError, RecursionError) as error:
            return _not_storable(task_id, error)
        return "node_task_finished", {"task_id": task_id, "task_result": result}

    def _tell(self, task_id: str, status: Any, detail: dict[str, Any]) -> None:
        """Report a status, without an answer: the next one replaces one that gets lost."""
        if self._connected:
            named = {name: value for name, value in detail.items() if name not in ("node_id", "task_id", "status")}
            self._rpc.notify("task_status", {"node_id": self.name, "task_id": task_id, "status": status, **named})

    async def _report(self, task_id: str, report: tuple[str, dict[str, Any]]) -> None:
        """Call until the broker has stored the outcome, or says that it belongs to another node."""
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
                    self._log.info("The outcome of {task_id} counts no more: {error}", task_id=task_id, error=error)
                    return
                if has_lost_name(error, errors.NODE_UNKNOWN):
                    self._renewed()
                elif error.code not in TRANSIENT:
                    self._log.error("The outcome of {task_id} is refused: {error}", task_id=task_id, error=error)
                    report = _not_storable(task_id, error)
            await deferLater(self._reactor, pause)


def _not_storable(task_id: str, error: Exception) -> tuple[str, dict[str, Any]]:
    """Return the report of a final failure: a result that cannot be stored now cannot be stored next time either."""
    refused = {"code": errors.FUNCTION_RAISED, "message": f"the outcome cannot be stored: {error}"[:1_000]}
    return "node_task_failed", {"task_id": task_id, "error": refused, "retry": False}


def _pauses() -> Iterator[float]:
    """Yield 0.25 s, 0.5 s ... 5 s, each with full jitter, without end."""
    pause = RETRY_FIRST
    while True:
        yield pause * random.random()
        pause = min(2 * pause, RETRY_MOST)
