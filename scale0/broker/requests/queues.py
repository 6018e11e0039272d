"""Holds requests on their way, and the queues in which they wait for a worker. Pure.

A PendingRequest is one accepted request. It is either in a queue or with one worker; `state` says which. There is a
queue for each service: retried requests go first, then by priority, then round robin over clients, first in first out
within one client's requests.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

import attrs

from scale0.broker.requests.worker_pool import Address, Worker
from scale0.wire.frames import Dialect

PER_CLIENT = 1_000  # queued requests of one client, of the design
PER_SERVICE = 100_000
QUEUED_BYTES = 256 << 20  # bodies of all queued requests together; 429 beyond it
QUEUE_EXPIRY = 60.0  # seconds that a request without a timeout waits for a worker
ATTEMPTS = 3
HELD_PARTS = 1_000  # parts kept for a client of MDP/0.1, which has no partial replies
HELD_BYTES = 1 << 20


class RequestState(enum.Enum):
    """Tells where a request is: in a queue, with a worker, or nowhere any more."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@attrs.define(eq=False)
class PendingRequest:
    """Holds one accepted request: its client, its service, its body, and where it is."""

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
    asked_by: str = ""  # of a service of Helens: who asks, for their audit
    state: RequestState = RequestState.QUEUED
    worker: Worker | None = None
    attempt: int = 0
    waiting_since: float = 0.0
    passed_partial: bool = False
    parts: list[bytes] = attrs.field(factory=list)  # held for a client of MDP/0.1
    parts_count: int = 0
    parts_bytes: int = 0
    refused_by: set[str] = attrs.field(factory=set)  # peer brokers that did not take it
    size: int = 0

    @property
    def forwarded(self) -> bool:
        """Return True if a peer broker passed it on; that broker keeps a PendingRequest of its own."""
        return bool(self.path)

    def hold(self, body: Sequence[bytes]) -> bool:
        """Keep a part for the final reply; return False if that would be too much."""
        self.parts_count += 1
        self.parts_bytes += sum(map(len, body))
        if self.parts_count > HELD_PARTS or self.parts_bytes > HELD_BYTES:
            return False
        self.parts += body
        return True


class ServiceQueue:
    """Holds the requests that wait for one service."""

    def __init__(self) -> None:
        self._retried: OrderedDict[bytes, PendingRequest] = OrderedDict()
        self._levels: dict[int, OrderedDict[Address, OrderedDict[bytes, PendingRequest]]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[PendingRequest]:
        """Yield the requests in the order in which workers would get them, were no more to come."""
        yield from self._retried.values()
        for priority in sorted(self._levels, reverse=True):
            columns = deque(iter(of_client.values()) for of_client in self._levels[priority].values())
            while columns:
                if (request := next(columns[0], None)) is None:
                    columns.popleft()
                else:
                    columns.rotate(-1)
                    yield request

    def append(self, request: PendingRequest) -> None:
        """Queue a request behind those of its client."""
        clients = self._levels.setdefault(request.priority, OrderedDict())
        clients.setdefault(request.client, OrderedDict())[request.token] = request
        self._length += 1

    def push_front(self, request: PendingRequest) -> None:
        """Queue a retried request: before new ones, behind those that are retried already."""
        self._retried[request.token] = request
        self._length += 1

    def head(self) -> PendingRequest | None:
        """Return the request that a worker gets next."""
        if self._retried:
            return next(iter(self._retried.values()))
        if not self._levels:
            return None
        clients = self._levels[max(self._levels)]
        return next(iter(next(iter(clients.values())).values()))

    def remove(self, request: PendingRequest, served: bool = False) -> None:
        """Take a request out. When it was `served`, its client goes to the end of the round."""
        self._length -= 1
        if self._retried.pop(request.token, None) is not None:
            return
        clients = self._levels[request.priority]
        of_client = clients[request.client]
        del of_client[request.token]
        if not of_client:
            del clients[request.client]
            if not clients:
                del self._levels[request.priority]
        elif served:
            clients.move_to_end(request.client)


class Queues:
    """Holds all service queues, and the limits over all of them."""

    def __init__(self) -> None:
        self._queues: dict[str, ServiceQueue] = {}
        self._of_client: dict[Address, int] = {}
        self.bytes = 0
        self.changed: set[str] = set()  # services of which the length has changed since the set was cleared

    def __getitem__(self, service: str) -> ServiceQueue | None:
        return self._queues.get(service)

    def __iter__(self) -> Iterator[str]:
        """Yield the services for which requests wait, the one served longest ago first."""
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)

    def to_end(self, service: str) -> None:
        """Move a service that has had its turn behind the others."""
        if (queue := self._queues.pop(service, None)) is not None:
            self._queues[service] = queue

    def length(self, service: str) -> int:
        """Return how many requests wait for a service."""
        return len(self._queues.get(service, ()))

    def total(self) -> int:
        """Return how many requests wait in all."""
        return sum(map(len, self._queues.values()))

    def full(self, request: PendingRequest) -> str | None:
        """Return the reason, as a sentence, for which this request cannot wait here; None if it can."""
        if self._of_client.get(request.client, 0) >= PER_CLIENT:
            return f"{PER_CLIENT} requests of this client are waiting already"
        if self.length(request.service) >= PER_SERVICE:
            return f"{PER_SERVICE} requests for {request.service} are waiting already"
        if self.bytes + request.size > QUEUED_BYTES:
            return "the broker holds as many waiting requests as it has memory for"
        return None

    def add(self, request: PendingRequest, front: bool = False) -> None:
        """Queue a request; `front` is for one that is retried."""
        queue = self._queues.setdefault(request.service, ServiceQueue())
        (queue.push_front if front else queue.append)(request)
        request.state, request.worker = RequestState.QUEUED, None
        self._of_client[request.client] = self._of_client.get(request.client, 0) + 1
        self.bytes += request.size
        self.changed.add(request.service)

    def remove(self, request: PendingRequest, served: bool = False) -> None:
        """Take a request out of its queue; `served`: a worker gets it now."""
        queue = self._queues[request.service]
        queue.remove(request, served)
        if not queue:
            del self._queues[request.service]
        left = self._of_client[request.client] - 1
        if left:
            self._of_client[request.client] = left
        else:
            del self._of_client[request.client]
        self.bytes -= request.size
        self.changed.add(request.service)
