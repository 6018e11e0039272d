"""Requests on their way, and the queues in which they wait. Pure.

A Row is one accepted request. It is in exactly one place: in a queue, or with a worker; `place` says which. Queues are
per service: what is sent again goes first, then priority, then round robin over clients, first in first out within
one client's requests.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

import attrs

from scale0.frames import Dialect
from scale0.lru import Address, Worker

PER_CLIENT = 1_000  # queued requests of one client, of the design
PER_SERVICE = 100_000
QUEUED_BYTES = 256 << 20  # bodies of all queued requests together; 429 beyond it
QUEUE_EXPIRY = 60.0  # seconds that a request without a timeout waits for a worker
ATTEMPTS = 3
HELD_PARTS = 1_000  # parts kept for a client of MDP/0.1, which knows no partial replies
HELD_BYTES = 1 << 20


class Place(enum.Enum):
    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@attrs.define(eq=False)
class Row:
    """One request: who asked, for what, and where it is."""

    token: bytes
    client: Address
    dialect: Dialect
    service: str
    correlation: str  # the client's id; empty for Majordomo, which has none
    body: Sequence[bytes]
    priority: int
    idempotent: bool
    deadline: float | None  # monotonic; None: bounded only while it waits
    path: tuple[str, ...] = ()  # brokers that it has come through
    place: Place = Place.QUEUED
    worker: Worker | None = None
    attempt: int = 0
    waiting_since: float = 0.0
    passed_partial: bool = False
    parts: list[bytes] = attrs.field(factory=list)  # held for a client of MDP/0.1
    parts_count: int = 0
    parts_bytes: int = 0
    refused_by: set[str] = attrs.field(factory=set)  # fellow brokers that would not take it
    size: int = 0

    @property
    def forwarded(self) -> bool:
        """It came from a fellow broker, which keeps a row of its own."""
        return bool(self.path)

    def hold(self, body: Sequence[bytes]) -> bool:
        """Keep a part for later; False when that would be too much."""
        self.parts_count += 1
        self.parts_bytes += sum(map(len, body))
        if self.parts_count > HELD_PARTS or self.parts_bytes > HELD_BYTES:
            return False
        self.parts += body
        return True


class ServiceQueue:
    """The requests that wait for one service."""

    def __init__(self) -> None:
        self._again: OrderedDict[bytes, Row] = OrderedDict()
        self._levels: dict[int, OrderedDict[Address, OrderedDict[bytes, Row]]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Row]:
        """In the order in which they would be taken, were no more to come."""
        yield from self._again.values()
        for priority in sorted(self._levels, reverse=True):
            columns = deque(iter(rows.values()) for rows in self._levels[priority].values())
            while columns:
                if (row := next(columns[0], None)) is None:
                    columns.popleft()
                else:
                    columns.rotate(-1)
                    yield row

    def append(self, row: Row) -> None:
        clients = self._levels.setdefault(row.priority, OrderedDict())
        clients.setdefault(row.client, OrderedDict())[row.token] = row
        self._length += 1

    def push_front(self, row: Row) -> None:
        """Sent again: before all that waits, after what is sent again already."""
        self._again[row.token] = row
        self._length += 1

    def head(self) -> Row | None:
        if self._again:
            return next(iter(self._again.values()))
        if not self._levels:
            return None
        clients = self._levels[max(self._levels)]
        return next(iter(next(iter(clients.values())).values()))

    def remove(self, row: Row, served: bool = False) -> None:
        """Take a row out. When it was `served`, its client goes to the end of the round."""
        self._length -= 1
        if self._again.pop(row.token, None) is not None:
            return
        clients = self._levels[row.priority]
        rows = clients[row.client]
        del rows[row.token]
        if not rows:
            del clients[row.client]
            if not clients:
                del self._levels[row.priority]
        elif served:
            clients.move_to_end(row.client)


class Queues:
    """All service queues, and the caps that hold over them."""

    def __init__(self) -> None:
        self._queues: dict[str, ServiceQueue] = {}
        self._of_client: dict[Address, int] = {}
        self.bytes = 0
        self.changed: set[str] = set()  # services whose length has changed since somebody cleared this

    def __getitem__(self, service: str) -> ServiceQueue | None:
        return self._queues.get(service)

    def __iter__(self) -> Iterator[str]:
        """Services for which something waits, the one served longest ago first."""
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)

    def to_end(self, service: str) -> None:
        """It has had its turn."""
        if (queue := self._queues.pop(service, None)) is not None:
            self._queues[service] = queue

    def length(self, service: str) -> int:
        return len(self._queues.get(service, ()))

    def total(self) -> int:
        return sum(map(len, self._queues.values()))

    def full(self, row: Row) -> str | None:
        """Why this row cannot wait here, if so."""
        if self._of_client.get(row.client, 0) >= PER_CLIENT:
            return f"{PER_CLIENT} requests of this client are waiting already"
        if self.length(row.service) >= PER_SERVICE:
            return f"{PER_SERVICE} requests for {row.service} are waiting already"
        if self.bytes + row.size > QUEUED_BYTES:
            return "the broker holds as many waiting requests as it has memory for"
        return None

    def add(self, row: Row, front: bool = False) -> None:
        queue = self._queues.setdefault(row.service, ServiceQueue())
        (queue.push_front if front else queue.append)(row)
        row.place, row.worker = Place.QUEUED, None
        self._of_client[row.client] = self._of_client.get(row.client, 0) + 1
        self.bytes += row.size
        self.changed.add(row.service)

    def remove(self, row: Row, served: bool = False) -> None:
        queue = self._queues[row.service]
        queue.remove(row, served)
        if not queue:
            del self._queues[row.service]
        left = self._of_client[row.client] - 1
        if left:
            self._of_client[row.client] = left
        else:
            del self._of_client[row.client]
        self.bytes -= row.size
        self.changed.add(row.service)
