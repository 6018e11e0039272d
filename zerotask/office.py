"""What the calls of clients, nodes and operators share: the names, the leases, the board, the store, and the way out.

Not a class of behaviour but of things: who sits in the broker and knows whom. It reads no clock and opens nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from attrs import define, field
from msgspec import Struct

from zerotask import errors
from zerotask.board import Board
from zerotask.errors import RpcError
from zerotask.ledger import ENDED, EXPIRED, SWEEP, Ledger, Options, Task
from zerotask.roster import CLIENTS, NODES, Caller, Leases, Names
from zerotask.store import Job, Store
from zerotask.waiters import Waiters

LIVE_MOST = 50_000  # living tasks whose owner is known without the store; some 20 MB
MAX_PENDING = 20_000  # calls in the store's hands; at 3,000 a second that is more than anybody waits

Answer = Callable[[Any, RpcError | None], None]
Send = Callable[[Hashable, bytes], bool]  # to a line; False when it is gone
How = Callable[[Ledger, int, float], int]  # Ledger.lapse or Ledger.release


class Invocation(Struct, frozen=True):
    """A call that passed the checks of its form."""

    caller: Caller
    args: dict[str, Any]
    now: float
    wall: float
    answer: Answer


@define
class Node:
    """What a node told beyond its name. Only such a node is sent anything that it did not ask for: a REQ socket would
    take it for the answer to its next question."""

    methods: tuple[str, ...]
    slots: int


@define
class Office:
    store: Store
    send: Send
    leases: Leases
    policies: dict[str, Options] = field(factory=dict)
    clients: Names = field(factory=lambda: Names(CLIENTS))
    nodes: Names = field(factory=lambda: Names(NODES))
    served: dict[str, Node] = field(factory=dict)
    board: Board = field(factory=Board)
    waiters: Waiters = field(factory=Waiters)
    live: OrderedDict[str, tuple[str, str]] = field(factory=OrderedDict)  # tasks known to be so -> client and key
    cron_due: float | None = None  # when (monotonic) to look at the schedules; None: there are none
    trouble: str | None = None  # why nothing can be stored at the moment

    def write(self, job: Job, answer: Answer, durable: bool = True) -> None:
        self._admit()
        self.store.write(job, answer, durable)

    def read(self, job: Job, answer: Answer) -> None:
        self._admit()
        self.store.read(job, answer)

    def note_life(self, task: Task) -> None:
        """Remember whose a living task is, the newest LIVE_MOST of them, so that waiting for it costs no reading."""
        if task.state in ENDED or task.state == EXPIRED:
            self.live.pop(task.id, None)
            return
        self.live[task.id] = (task.client, task.key)
        if len(self.live) > LIVE_MOST:
            self.live.popitem(last=False)

    def _admit(self) -> None:
        if self.store.pending >= MAX_PENDING:
            raise RpcError(errors.OVERLOADED, "too many calls are waiting for the disk; try again in a second")

    def tell(self, node: str, text: bytes) -> bool:
        """Send a node what it did not ask for. False if it takes no such thing, or is gone."""
        holder = self.nodes.get(node)
        return holder is not None and node in self.served and self.send(holder.line, text)

    def lose(self, node: str, now: float) -> None:
        """A node is silent or gone: its name is free, and what it held is queued again."""
        holder = self.nodes.remove(node)
        self.served.pop(node, None)
        self.board.dismiss(node)
        if holder is not None:
            self.lapse(holder.lease, node, now)

    def lapse(self, lease: int, node: str, now: float) -> None:
        """Give up a lease; where that cannot be stored, it is tried again one lease later."""
        self.requeue([lease], node, now, Ledger.lapse, lambda value, error: None)

    def requeue(self, leases: list[int], node: str, now: float, how: How, answer: Answer) -> None:
        """What is held under these leases is for others; answers true when all of it is. In steps, since a node may
        hold any number of tasks, and others wait for the disk as well."""
        if not leases:
            answer(True, None)
            return

        def done(value: Any, error: RpcError | None) -> None:
            if error is None and value:
                self.requeue(leases, node, now, how, answer)
                return
            if error is not None:
                for lease in leases:
                    self.leases.orphan(lease, node, now)
            answer(None if error else True, error)

        self.store.write(lambda ledger, wall: max(how(ledger, lease, wall) for lease in leases) >= SWEEP, done)
