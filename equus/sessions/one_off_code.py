"""Check the signed orders for one-off code, which is in no set, before this host runs it once.

An order is verified (equus_protocol/one_off.py), compared with this host and its policy, and its id is stored on disk.
Only then it becomes a job, so it never runs twice, even if it is sent again. Each refusal is one sentence for the
operator. docs/protocol.rst, section 6, is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from equus.code.library import hash_of
from equus.sandbox.job import Job
from equus_protocol import one_off
from equus_protocol.manifest import ManifestRefused
from equus_protocol.roots import Root
from groundwork.atomic_write import write_durably
from groundwork.one_by_one import OneByOne

FILE = "once.json"
FORGOTTEN = "once-forgotten.json"
# Orders that are stored at once, of 45 bytes each on disk: as many as a person types at `helen repl` in days.
MOST_ORDERS = 10_000

log = Logger(namespace="equus.sessions.one_off_code")


class OrderRefused(Exception):
    """Says that an order is refused; the text says why."""


@frozen
class OrderContext:
    """Holds the facts that an order is compared with.

    `refusal` is a sentence if this host runs no one-off code at all. `libraries` are those of the set in use.
    """

    name: str
    labels: Mapping[str, str]
    root: Root
    refusal: str | None = None
    libraries: Mapping[str, bytes] = field(factory=dict)


class UsedOrders:
    """Holds the ids of orders that were run, until they expire.

    An id goes when a later order comes. The clock may be ahead then, and be put right before the order has expired. So
    orders that were made no later than one that was forgotten are refused from then on.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / FILE
        self._forgotten_path = state / FORGOTTEN
        self._ids: dict[str, float] = {}  # id -> unix seconds of its end
        self._created: dict[str, float] = {}  # id -> unix seconds of its making
        self.since = 0.0  # unix seconds; older orders are refused, because it is unknown which of them ran
        self.forgotten = 0.0  # when the newest order of which the id is gone was made, unix seconds

    def load(self, now: float) -> None:
        """Read the stored ids at the start; `now` is unix seconds. Blocking.

        If a file can't be read, all orders made before `now` are refused, so that none runs twice.
        """
        ids = self._read(self._path, now)
        held = self._read(self._forgotten_path, now)
        self.forgotten = held.pop("", 0.0)
        self._ids = ids
        self._created = {one: held.get(one, expires) for one, expires in ids.items()}

    def _read(self, path: Path, now: float) -> dict[str, float]:
        try:
            return {str(order): float(moment) for order, moment in json.loads(path.read_bytes()).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            log.error("{path} can't be read ({why}): orders made before now are refused", path=path, why=error)
            self.since = now
            return {}

    def add(self, order: one_off.Order, now: float) -> None:
        """Add an order that is to run. Raises OrderRefused if it ran before; `now` is unix seconds."""
        self._forget(now)
        if order.id in self._ids or order.created < self.since or order.created <= self.forgotten:
            raise OrderRefused("this order has run here before: an order is good once")
        if len(self._ids) >= MOST_ORDERS:
            raise OrderRefused(f"{MOST_ORDERS} orders have run here within a day; that is the most")
        self._ids[order.id], self._created[order.id] = order.expires, order.created

    def _forget(self, now: float) -> None:
        for one in [one for one, expires in self._ids.items() if expires <= now]:
            del self._ids[one]
            self.forgotten = max(self.forgotten, self._created.pop(one))

    def save(self) -> None:
        """Store the ids durably, those that are forgotten first: no crash between the two lets one run again. Blocking.

        FORGOTTEN has the time of making of each id and, under the empty name, of the newest order that is forgotten.
        """
        for path, held in ((self._forgotten_path, {"": self.forgotten, **self._created}), (self._path, self._ids)):
            write_durably(path, json.dumps(held, separators=(",", ":")).encode())


class OneOffOrders:
    """Opens orders for the agent. `context` is called for each order, because keys and policy change."""

    def __init__(
        self,
        context: Callable[[], OrderContext],
        used: UsedOrders,
        wall: Callable[[], float],
        defer_to_thread: Callable[..., Deferred[Any]],
    ) -> None:
        self._context = context
        self._used = used
        self._wall = wall
        self._defer_to_thread = defer_to_thread
        self._writing = OneByOne()

    def open(self, blob: bytes) -> Deferred[Job]:
        """Return the job of an order, after its id is stored. Fails with OrderRefused."""
        return Deferred.fromCoroutine(self._open(blob))

    async def _open(self, blob: bytes) -> Job:
        context, now = self._context(), self._wall()
        order = self._verify(blob, context, now)
        self._used.add(order, now)
        try:
            await self._writing.run(lambda: self._defer_to_thread(self._used.save))
        except OSError as error:
            raise OrderRefused(
                f"the order can't be stored on this host's disk, so it does not run: {error.strerror}"
            ) from error
        log.info(
            "order {id} by {signers}: {check} ({code}) runs once", id=order.id, check=order.check,
            signers=", ".join(sorted(order.signers)), code=hash_of(order.source)[:12],
        )  # fmt: skip
        return job_of(order, context)

    def _verify(self, blob: bytes, context: OrderContext, now: float) -> one_off.Order:
        if context.refusal is not None:
            raise OrderRefused(context.refusal)
        if not context.root.keys:
            raise OrderRefused("this agent has pinned no signing keys, so it runs no code that Helen sends")
        try:
            order = one_off.read(blob, context.root.keys, context.root.threshold, now, context.root.typed)
        except ManifestRefused as refused:
            raise OrderRefused(f"{refused.reason}: {refused}") from refused
        if not order.is_for(context.name, context.labels):
            raise OrderRefused(f"the order is for {', '.join(order.on)}, and not for {context.name}")
        return order


def job_of(order: one_off.Order, context: OrderContext) -> Job:
    """Return the job of an order. Its own libraries come before those of the set; it keeps no state."""
    return Job(
        check=order.check,
        source=order.source,
        libraries={**context.libraries, **order.libraries},
        args=json.dumps(order.args, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        code=hash_of(order.source),
        state_key=f"once {order.id}",
        keeps_state=False,
    )
