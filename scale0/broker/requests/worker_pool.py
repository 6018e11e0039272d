"""Chooses the worker for a request: the least recently used one that has credit. Pure.

A worker goes to the end of the order when it becomes free (READY, FINAL), never by a heartbeat. One credit count
serves all services of a worker, and a Helen has one service for each of its agents, so moving it in every service's
order at each reply would cost thousands of steps. Each service keeps a heap of (turn, offer, worker) instead, in which
a worker may stand with an old turn: since turns only rise, a head with an old turn is put back with its present one,
and the first head that is up to date is the true minimum. A worker without credit is taken out ("parked") and comes
back when credit frees.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable

import attrs

from scale0.wire.frames import S0, Dialect

Address = tuple[str, bytes]  # name of our socket, routing id there

SLACK = 16  # entries of a heap that may be outdated before it is built anew


@attrs.define(eq=False)
class Worker:
    """Describes a taker of requests: a backend, or a channel to a peer broker."""

    address: Address
    dialect: Dialect = S0
    concurrency: int = 1
    beats_while_busy: bool = True  # plain workers are silent while they work, and READY may say so of others
    peer: str = ""  # identity of the peer broker, where this is a channel to one
    services: dict[str, int] = attrs.field(factory=dict)  # name -> number of the offer
    epochs: dict[str, int] = attrs.field(factory=dict)  # service -> attach epoch, of those that have one
    seals: dict[str, str] = attrs.field(factory=dict)  # service -> the seal of that epoch, as the worker sent it
    inflight: dict[bytes, float] = attrs.field(factory=dict)  # token -> when it counts as lost; also of ended requests
    turn: int = 0
    parked: set[str] = attrs.field(factory=set)
    slow: bool = False  # its pipe was full; it gets no requests until something is received from it
    alive: bool = True

    @property
    def credit(self) -> int:
        """Return how many more requests the worker takes.

        READY may have lowered the concurrency below what it holds: then there is no credit until those are done.
        """
        return max(0, self.concurrency - len(self.inflight))

    @property
    def free(self) -> bool:
        """Return True if the worker may be given a request now."""
        return self.alive and not self.slow and len(self.inflight) < self.concurrency


class WorkerPool:
    """Holds the workers of each service and their order."""

    def __init__(self) -> None:
        self._heaps: dict[str, list[tuple[int, int, Worker]]] = {}
        self._offering: dict[str, dict[Worker, None]] = {}
        self._turns = itertools.count(1)
        self._offers = itertools.count(1)
        self.changed: set[str] = set()  # services whose [workers, idle] may have changed since the set was cleared

    def __contains__(self, service: str) -> bool:
        return service in self._offering

    def services(self) -> Iterable[str]:
        """Return the services that have a worker."""
        return self._offering.keys()

    def workers(self, service: str) -> Iterable[Worker]:
        """Return the workers of a service, busy ones too."""
        return self._offering.get(service, ())

    def counts(self, service: str) -> tuple[int, int]:
        """Return how many workers a service has, and how many of them are free."""
        workers = self._offering.get(service, ())
        return len(workers), sum(worker.free for worker in workers)

    # ------------------------------------------------------------------------------------ offers

    def offer(self, worker: Worker, services: Iterable[str]) -> None:
        """Add services to a worker; those that it offers already keep their place in the order."""
        for service in services:
            if service not in worker.services:
                worker.services[service] = next(self._offers)
                self._offering.setdefault(service, {})[worker] = None
                self._enter(worker, service)
                self.changed.add(service)

    def withdraw(self, worker: Worker, services: Iterable[str]) -> None:
        """Remove services from a worker; requests that it holds stay with it."""
        for service in list(services):
            if worker.services.pop(service, None) is None:
                continue
            worker.parked.discard(service)
            worker.epochs.pop(service, None)
            worker.seals.pop(service, None)
            offering = self._offering[service]
            del offering[worker]
            if not offering:
                del self._offering[service], self._heaps[service]
            else:
                self._compact(service)
            self.changed.add(service)

    def replace(self, worker: Worker, services: Iterable[str]) -> None:
        """Give a worker these services and no others, as READY says."""
        wanted = dict.fromkeys(services)
        self.withdraw(worker, [s for s in worker.services if s not in wanted])
        self.offer(worker, wanted)

    def remove(self, worker: Worker) -> None:
        """Take a worker out for good."""
        worker.alive = False
        self.withdraw(worker, worker.services)

    # ------------------------------------------------------------------------------------- turns

    def next(self, service: str) -> Worker | None:
        """Return the least recently used worker with credit; it keeps its place until it is freed."""
        heap = self._heaps.get(service)
        while heap:
            turn, offer, worker = heap[0]
            if worker.services.get(service) != offer:
                heapq.heappop(heap)
            elif not worker.free:
                heapq.heappop(heap)
                worker.parked.add(service)
            elif turn != worker.turn:
                heapq.heapreplace(heap, (worker.turn, offer, worker))
            else:
                return worker
        return None

    def take(self, worker: Worker, token: bytes, until: float) -> None:
        """Give a request to a worker; `until` is when it counts as lost, monotonic seconds."""
        worker.inflight[token] = until
        if not worker.free:
            self.changed.update(worker.services)

    def release(self, worker: Worker, token: bytes) -> bool:
        """Take a request from a worker and move it to the end of the order; False if it did not hold the request."""
        was_free = worker.free
        if worker.inflight.pop(token, None) is None:
            return False
        self.freed(worker, was_free)
        return True

    def freed(self, worker: Worker, was_free: bool = False) -> None:
        """Move a worker that may have credit again to the end of the order of each of its services."""
        worker.turn = next(self._turns)
        self._unpark(worker)
        if worker.free != was_free:
            self.changed.update(worker.services)

    def set_slow(self, worker: Worker, slow: bool) -> None:
        """Note that a worker's pipe is full, or that it reads again; its place in the order stays."""
        worker.slow = slow
        self._unpark(worker)
        self.changed.update(worker.services)

    def _unpark(self, worker: Worker) -> None:
        if worker.free:
            parked, worker.parked = worker.parked, set()
            for service in parked:
                self._enter(worker, service)

    def _enter(self, worker: Worker, service: str) -> None:
        entry = (worker.turn, worker.services[service], worker)
        heapq.heappush(self._heaps.setdefault(service, []), entry)

    def _compact(self, service: str) -> None:
        """Rebuild a heap with many outdated entries: without requests none comes to its head, where it would go."""
        heap = self._heaps[service]
        if len(heap) > 2 * len(self._offering[service]) + SLACK:
            heap[:] = [entry for entry in heap if entry[2].services.get(service) == entry[1]]
            heapq.heapify(heap)
