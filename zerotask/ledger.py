"""A task's life, as rules: who may do what to a task at `now`, and what becomes of it.

    queued -> assigned -> running -> finished | failed -> expired -> (forgotten)
    assigned, running -> queued when the lease is lost, given back, or the attempt failed and may be repeated

Pure: no I/O and no clock. Tasks lie on a Shelf (a dict in the tests, SQLite in `store`), `now` comes with each call,
and what others have to hear of (a task waits, is taken, has ended) is left in `notices`. Every refusal is raised
before the shelf is touched, so that a refused call leaves no trace.

A lease is a number that the broker gives to one connection of a node. Beats renew it there and cost nothing here; when
it lapses, all tasks that carry its number are dealt with at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import frozen
from msgspec import Struct
from msgspec.structs import replace

from zerotask import errors
from zerotask.errors import RpcError

QUEUED, ASSIGNED, RUNNING = "queued", "assigned", "running"
FINISHED, FAILED, EXPIRED = "finished", "failed", "expired"
LIVE = (ASSIGNED, RUNNING)
ENDED = (FINISHED, FAILED)
STATES = (QUEUED, *LIVE, *ENDED, EXPIRED)

BACKOFF_FIRST = 1.0  # seconds before the second attempt; doubles with each
BACKOFF_MOST = 300.0  # seconds: a dependency that is down for long is asked every five minutes
TOMBSTONE = 7 * 86_400.0  # seconds in which an expired id still says "expired" and cannot be taken again
OVERRUN_GRACE = 7.5  # seconds beyond time_limit that a node has to kill and report by itself: one lease
SWEEP = 500  # tasks dealt with in one step of a sweep: some milliseconds of the writer's time

# Bounds of what a task may ask for. They keep arithmetic sane; each is far beyond any sensible use.
MOST_ATTEMPTS = 100
LONGEST = 366 * 86_400.0  # seconds, of delay, time_limit and result_ttl


@frozen
class Options:
    """What a submission may ask for; the defaults are the design's."""

    priority: int = 4
    delay: float = 0.0
    time_limit: float = 3600.0
    max_attempts: int = 3
    result_ttl: float = 86_400.0


class Order(Struct, frozen=True):
    """A submission, checked."""

    task_id: str
    client: str
    key: str
    method: str
    params: bytes
    options: Options


class Task(Struct, frozen=True):
    """One row. `seq` is the order of submission. A Struct, because three copies of it are made in each task's life."""

    seq: int
    id: str
    client: str
    key: str
    method: str
    priority: int
    time_limit: float
    max_attempts: int
    result_ttl: float
    submitted: float
    due: float
    state: str
    attempts: int
    node: str | None  # who holds it, or who ended it
    lease: int  # 0 unless held
    claimed: float
    updated: float
    status: bytes  # JSON: what the node said last
    detail: bytes  # JSON object: the kwargs that came with it
    lost_by: str  # names of nodes whose lease lapsed, between spaces: their late finish still counts
    failed_by: str  # who reported the last failure, so that the report may be repeated
    expires: float  # ended: when the result goes; expired: when the id goes; otherwise 0
    params: bytes | None  # JSON; None when it is too big to lie here, or gone
    outcome: bytes | None  # JSON: the result, or the error object; None as above, or while there is none


class Notice(Struct, frozen=True):
    """A task whose state others may want to hear of, as it is now, and the node that held or holds it."""

    task: Task
    holder: str | None = None
    stop: bool = False  # the holder may still be at work, in vain


class Shelf(Protocol):
    """Where tasks lie."""

    def find(self, task_id: str) -> Task | None: ...
    def add(self, task: Task) -> Task: ...  # allots seq
    def save(self, task: Task) -> None: ...
    def conclude(self, task: Task) -> None: ...  # saves the task and its outcome
    def strip(self, task: Task) -> None: ...  # saves the task and drops params and outcome
    def drop(self, task: Task) -> None: ...
    def params(self, task: Task) -> bytes: ...
    def outcome(self, task: Task) -> bytes: ...
    def held(self, lease: int, limit: int) -> Iterable[Task]: ...
    def overrun(self, now: float, grace: float, limit: int) -> Iterable[Task]: ...
    def past(self, now: float, limit: int) -> Iterable[Task]: ...  # 0 < expires <= now


Encode = Callable[[Any], bytes]


class Ledger:
    """The rules over one shelf."""

    def __init__(self, shelf: Shelf, chance: Callable[[], float], encode: Encode) -> None:
        self.shelf = shelf
        self.notices: list[Notice] = []
        self._chance = chance  # 0 <= x < 1, for the jitter
        self._encode = encode

    # ------------------------------------------------------------------------------------------- clients

    def submit(self, order: Order, now: float) -> str:
        """A new task, queued. The same submission again is refused with data that says so."""
        known = self.shelf.find(order.task_id)
        if known is not None:
            same = self._is_same(known, order)
            said = f"task id {order.task_id} is taken" + (" by this very task" if same else "; choose another")
            raise RpcError(errors.TASK_TAKEN, said, {"identical": same})
        task = self.shelf.add(_born(order, now))
        self.notices.append(Notice(task))
        return task.id

    def _is_same(self, known: Task, order: Order) -> bool:
        mine = (known.client, known.key, known.method) == (order.client, order.key, order.method)
        return mine and known.state != EXPIRED and self.shelf.params(known) == order.params

    def look(self, task_id: str, now: float, client: str | None = None, key: str = "") -> Task:
        """The task as it stands at `now`. A client sees its own; without a client everything is seen."""
        task = self._known(task_id)
        if client is not None and (task.client, task.key) != (client, key):
            raise _unknown(task_id)
        return replace(task, state=EXPIRED) if _is_past(task, now) else task

    def result(self, task_id: str, now: float, client: str | None = None, key: str = "") -> tuple[bool, bytes]:
        """Whether it finished, and its result or its error as JSON."""
        task = self.look(task_id, now, client, key)
        if task.state == EXPIRED:
            raise RpcError(errors.EXPIRED, f"the result of {task_id} has expired; submit the task again")
        if task.state not in ENDED:
            raise RpcError(errors.NOT_FINISHED, f"{task_id} is {task.state}; ask again later", {"state": task.state})
        return task.state == FINISHED, self.shelf.outcome(task)

    def cancel(self, task_id: str, now: float, client: str | None = None, key: str = "") -> bool:
        """End it as failed with CANCELLED. True if that ended it, false if it had ended already."""
        task = self.look(task_id, now, client, key)
        if task.state in (*ENDED, EXPIRED):
            return False
        self._fail_for_good(task, errors.CANCELLED, "cancelled on request", now)
        return True

    def retry(self, task_id: str, now: float) -> bool:
        """Queue a failed task afresh, with all its attempts."""
        task = self.look(task_id, now)
        if task.state != FAILED:
            raise RpcError(errors.TASK_INVALID, f"{task_id} is {task.state}; only a failed task can be retried")
        fresh = replace(task, state=QUEUED, attempts=0, node=None, due=now, updated=now, expires=0.0)
        self._save(replace(fresh, lost_by="", failed_by=""), None)
        return True

    def close(self, task_id: str) -> None:
        """Forget a task at once, whatever its state, and its id with it. An unknown one is no fault."""
        task = self.shelf.find(task_id)
        if task is not None:
            self.shelf.drop(task)
            self.notices.append(Notice(replace(task, state=EXPIRED, lease=0), task.node, task.state in LIVE))

    # --------------------------------------------------------------------------------------------- nodes

    def claim(self, task_id: str, node: str, lease: int, now: float) -> tuple[Task, bytes] | None:
        """The task and its parameters, now this node's; None if it is not to be had. Losing a race is normal."""
        task = self._known(task_id)
        if task.state != QUEUED or task.due > now:
            return None
        held = replace(
            task, state=ASSIGNED, attempts=task.attempts + 1, node=node, lease=lease, claimed=now, updated=now
        )
        self.shelf.save(held)
        self.notices.append(Notice(held, node))
        return held, self.shelf.params(task)

    def report(self, task_id: str, node: str, lease: int, status: Any, detail: dict[str, Any], now: float) -> bool:
        """What the node says of its work. The first word makes an assigned task a running one."""
        task = self._known(task_id)
        if task.state not in LIVE or task.node != node:
            raise _not_yours(task_id)
        told = replace(task, status=self._encode(status), detail=self._encode(detail))
        self.shelf.save(replace(told, state=RUNNING, lease=lease, updated=now))
        return True

    def finish(self, task_id: str, node: str, result: bytes, now: float) -> bool:
        """The first finish wins, from the holder or from one that lost its lease; its repetition is true again."""
        task = self._known(task_id)
        if task.state == FINISHED and task.node == node:
            return True
        if task.state not in (QUEUED, *LIVE) or not (_holds(task, node) or _lost(task, node)):
            raise _not_yours(task_id)
        self._end(task, FINISHED, node, result, now)
        return True

    def fail(self, task_id: str, node: str, error: dict[str, Any], retry: bool, now: float) -> bool:
        """An attempt that failed: queued again with backoff while attempts are left and `retry`, else final."""
        task = self._known(task_id)
        if task.state in (QUEUED, FAILED) and task.failed_by == node:
            return True
        if not _holds(task, node):
            raise _not_yours(task_id)
        task = replace(task, failed_by=node)
        if retry and task.attempts < task.max_attempts:
            self._requeue(task, self._backoff(task), now)
        else:
            self._end(task, FAILED, node, self._encode(error), now)
        return True

    def adopt(self, node: str, lease: int, tasks: Iterable[str], now: float) -> int:
        """A node that came back on a new connection names what it still works on: that goes on under the new lease.

        Also what was queued because the node seemed lost, if nobody else has taken it: it need not be run twice.
        """
        adopted = 0
        for task_id in tasks:
            task = self.shelf.find(task_id)
            if task is None or not (_holds(task, node) or (task.state == QUEUED and _lost(task, node))):
                continue
            state = ASSIGNED if task.state == QUEUED else task.state
            held = replace(task, state=state, node=node, lease=lease, updated=now)
            self._save(held, node)
            adopted += 1
        return adopted

    # ------------------------------------------------------------------------------------- what time does

    def release(self, lease: int, now: float) -> int:
        """The node gives back what it holds: queued at once. A step; once more while it says SWEEP."""
        tasks = list(self.shelf.held(lease, SWEEP))
        for task in tasks:
            self._lose(task, 0.0, task.lost_by, now)
        return len(tasks)

    def lapse(self, lease: int, now: float) -> int:
        """The node is silent or gone. It may still finish, if it comes first. A step, as above."""
        tasks = list(self.shelf.held(lease, SWEEP))
        for task in tasks:
            self._lose(task, self._backoff(task), _and(task.lost_by, task.node), now)
        return len(tasks)

    def overrun(self, now: float) -> int:
        """Tasks whose node neither kept to the time limit nor said so."""
        tasks = list(self.shelf.overrun(now, OVERRUN_GRACE, SWEEP))
        for task in tasks:
            if task.attempts < task.max_attempts:
                late = replace(task, lost_by=_and(task.lost_by, task.node))
                self._requeue(late, self._backoff(task), now, stop=True)
            else:
                said = f"no end within the time limit of {task.time_limit:g} s"
                self._fail_for_good(task, errors.TIME_LIMIT, said, now)
        return len(tasks)

    def expire(self, now: float) -> int:
        """Results whose time is over go, and later their ids."""
        tasks = list(self.shelf.past(now, SWEEP))
        for task in tasks:
            if task.state == EXPIRED:
                self.shelf.drop(task)
            else:
                self.shelf.strip(
                    replace(task, state=EXPIRED, expires=now + TOMBSTONE, updated=now, params=None, outcome=None)
                )
        return len(tasks)

    # --------------------------------------------------------------------------------------------- steps

    def _known(self, task_id: str) -> Task:
        task = self.shelf.find(task_id)
        if task is None:
            raise _unknown(task_id)
        return task

    def _backoff(self, task: Task) -> float:
        """Between half and all of 1 s, 2 s, 4 s ..., so that what failed together does not return together."""
        whole = min(BACKOFF_FIRST * 2.0 ** min(task.attempts - 1, 32), BACKOFF_MOST)
        return whole * (1.0 - self._chance() / 2)

    def _lose(self, task: Task, wait: float, lost_by: str, now: float) -> None:
        if task.attempts < task.max_attempts:
            self._requeue(replace(task, lost_by=lost_by), wait, now)
        else:
            said = f"node {task.node} was lost in attempt {task.attempts} of {task.max_attempts}"
            self._fail_for_good(task, errors.NODE_LOST, said, now)

    def _requeue(self, task: Task, wait: float, now: float, stop: bool = False) -> None:
        queued = replace(task, state=QUEUED, node=None, lease=0, due=now + wait, updated=now)
        self._save(queued, task.node, stop)

    def _save(self, task: Task, holder: str | None, stop: bool = False) -> None:
        self.shelf.save(task)
        self.notices.append(Notice(task, holder, stop))

    def _fail_for_good(self, task: Task, code: int, message: str, now: float) -> None:
        outcome = self._encode({"code": code, "message": message})
        self._end(task, FAILED, task.node, outcome, now, stop=task.state in LIVE)

    def _end(self, task: Task, state: str, node: str | None, outcome: bytes, now: float, stop: bool = False) -> None:
        expires = now + task.result_ttl
        ended = replace(task, state=state, node=node, lease=0, updated=now, expires=expires, outcome=outcome)
        self.shelf.conclude(ended)
        self.notices.append(Notice(ended, task.node, stop or task.node not in (None, node)))


def _born(order: Order, now: float) -> Task:
    options = order.options
    return Task(
        seq=0,
        id=order.task_id,
        client=order.client,
        key=order.key,
        method=order.method,
        priority=options.priority,
        time_limit=options.time_limit,
        max_attempts=options.max_attempts,
        result_ttl=options.result_ttl,
        submitted=now,
        due=now + options.delay,
        state=QUEUED,
        attempts=0,
        node=None,
        lease=0,
        claimed=0.0,
        updated=now,
        status=b"null",
        detail=b"{}",
        lost_by=" ",
        failed_by="",
        expires=0.0,
        params=order.params,
        outcome=None,
    )


def _holds(task: Task, node: str) -> bool:
    return task.state in LIVE and task.node == node


def _lost(task: Task, node: str) -> bool:
    return f" {node} " in task.lost_by


def _and(lost_by: str, node: str | None) -> str:
    return lost_by if node is None or f" {node} " in lost_by else f"{lost_by or ' '}{node} "


def _is_past(task: Task, now: float) -> bool:
    return task.state in ENDED and task.expires <= now


def _unknown(task_id: str) -> RpcError:
    return RpcError(errors.TASK_UNKNOWN, f"no task {task_id}")


def _not_yours(task_id: str) -> RpcError:
    return RpcError(errors.NOT_YOUR_LEASE, f"this node does not hold {task_id}; drop the work")


COLUMNS = Task.__struct_fields__
