"""Holds what the broker's calls share: names, leases, the ready window, the store, and the way to a connection.

It reads no clock: the broker keeps the times of the latest event here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from attrs import define, field
from msgspec import Struct

from groundwork.authority import Action, decide
from zerotask import errors
from zerotask.broker.ready_window import ReadyWindow
from zerotask.broker.waiters import Waiters
from zerotask.errors import RpcError
from zerotask.storage.database import Store
from zerotask.storage.jobs import Job
from zerotask.tasks.connections import CLIENTS, NODES, Caller, Leases, Names
from zerotask.tasks.lease_ends import SWEEP
from zerotask.tasks.ledger import Ledger
from zerotask.tasks.task import ENDED, EXPIRED, Options, Task

OWNERS_MOST = 50_000  # tasks with a remembered owner; some 20 MB
MAX_PENDING = 20_000  # calls that wait for the store: 7 s at 3,000 a second, and callers don't wait longer

Answer = Callable[[Any, RpcError | None], None]
Send = Callable[[Hashable, bytes], bool]  # to a connection; False if it is gone
EndLease = Callable[[Ledger, int, float], int]  # Ledger.lapse or Ledger.release


class Invocation(Struct, frozen=True):
    """Holds a call with checked arguments. `now`: monotonic seconds, `wall`: unix seconds."""

    caller: Caller
    args: dict[str, Any]
    now: float
    wall: float
    unix_ahead: float  # unix seconds minus task-clock seconds, for times that are shown
    answer: Answer

    def hold_to(self, action: Action) -> None:
        """Raise RpcError UNAUTHORISED if the caller may not do this."""
        refusal = decide(self.caller.authority, action)
        if refusal is not None:
            advice = f'a key whose file says `role = "{refusal.scope}"` may' if refusal.scope else ""
            raise RpcError(errors.UNAUTHORISED, f"{refusal.why}; {advice}", {"role": refusal.scope})


@define
class ServingNode:
    """Describes a node that named its methods and slots.

    Only such a node gets notifications: a REQ socket would take one for the answer to its next call.
    """

    methods: tuple[str, ...]
    slots: int


@define
class BrokerState:
    """Holds the state of one broker in memory; its tasks are in the store."""

    store: Store
    send: Send
    leases: Leases
    now: float  # monotonic seconds of the latest event
    wall: float  # unix seconds of the same
    at: float  # task-clock seconds of the same
    policies: dict[str, Options] = field(factory=dict)
    clients: Names = field(factory=lambda: Names(CLIENTS))
    nodes: Names = field(factory=lambda: Names(NODES))
    serving: dict[str, ServingNode] = field(factory=dict)
    drained: set[str] = field(factory=set)  # nodes that are given no further task, by an operator's word
    window: ReadyWindow = field(factory=ReadyWindow)
    waiters: Waiters = field(factory=Waiters)
    owners: OrderedDict[str, tuple[str, str]] = field(factory=OrderedDict)  # task that has not ended -> client, key
    cron_due: float | None = None  # monotonic seconds of the next look at the schedules; None: there are none
    clock_steps: int = 0  # times that the wall clock was set since the start
    clock_step: dict[str, float] | None = None  # the last of them: `seconds`, and `at` in unix seconds
    name_of_key: Callable[[str], str] = field(default=lambda key: "")  # of a CURVE key, as its file says
    trouble: str | None = None  # the error for which nothing can be stored at the moment
    damage: str | None = None  # a sentence about tasks that were lost with a damaged database
    lost: int = 0  # tasks that are on record as lost

    def write(self, job: Job, answer: Answer, durable: bool = True) -> None:
        """Run a writing job of a call. Raises RpcError OVERLOADED if too many calls wait for the store."""
        self._admit()
        self.store.write(job, answer, durable)

    def read(self, job: Job, answer: Answer) -> None:
        """Run a reading job of a call. Raises RpcError OVERLOADED if too many calls wait for the store."""
        self._admit()
        self.store.read(job, answer)

    def _admit(self) -> None:
        if self.store.pending >= MAX_PENDING:
            raise RpcError(errors.OVERLOADED, "too many calls are waiting for the disk; try again in a second")

    def remember_owner(self, task: Task) -> None:
        """Note the client of a task until its end, so that a call that waits for its own task reads nothing.

        The newest OWNERS_MOST are kept.
        """
        if task.state in ENDED or task.state == EXPIRED:
            self.owners.pop(task.id, None)
            return
        self.owners[task.id] = (task.client, task.key)
        if len(self.owners) > OWNERS_MOST:
            self.owners.popitem(last=False)

    def slots_of(self, node: str, slots: int) -> int:
        """Return the slots that a node is offered tasks for: none if it is drained."""
        return 0 if node in self.drained else slots

    def notify_node(self, node: str, text: bytes) -> bool:
        """Send a notification to a node; return False if it takes none, or if its connection is gone."""
        holder = self.nodes.get(node)
        return holder is not None and node in self.serving and self.send(holder.connection, text)

    def lose_node(self, node: str) -> None:
        """Free the name of a silent or vanished node, and queue its tasks."""
        holder = self.nodes.remove(node)
        self.serving.pop(node, None)
        self.window.remove_node(node)
        if holder is not None:
            self.lapse(holder.lease, node)

    def lapse(self, lease: int, node: str) -> None:
        """Queue the tasks under a lease; if that can't be stored, it is tried again one lease time later."""
        self.end_leases([lease], node, Ledger.lapse, lambda value, error: None)

    def end_leases(self, leases: list[int], node: str, how: EndLease, answer: Answer) -> None:
        """Queue all tasks under a node's leases, then answer True.

        It goes in steps, because a node may hold any number of tasks, and other calls wait for the disk as well.
        """
        if not leases:
            answer(True, None)
            return

        def done(value: Any, error: RpcError | None) -> None:
            if error is None and value:
                self.end_leases(leases, node, how, answer)
                return
            if error is not None:
                for lease in leases:
                    self.leases.orphan(lease, node, self.now)
            answer(None if error else True, error)

        self.store.write(lambda ledger, now: max(how(ledger, lease, now) for lease in leases) >= SWEEP, done)
