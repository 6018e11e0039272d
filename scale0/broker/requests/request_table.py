"""Keeps the requests that a broker has accepted, by token and by client, and the attempts without a request. Pure.

Each attempt has a token of its own. A worker learns nothing else of the client, so it can answer no other; and a reply
to an attempt that is over finds no request and is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from scale0.broker.requests.queues import PendingRequest, RequestState
from scale0.broker.requests.worker_pool import Address, Worker


@attrs.frozen
class Orphan:
    """Describes an attempt that its worker is busy with while the request has ended."""

    worker: Worker
    service: str


class RequestTable:
    """Holds every request that has not ended. `requests` and `orphans` are by the token of the attempt."""

    def __init__(self) -> None:
        self.requests: dict[bytes, PendingRequest] = {}
        self.orphans: dict[bytes, Orphan] = {}
        self.by_client: dict[tuple[Address, str], PendingRequest] = {}  # those that their client can name

    def add(self, request: PendingRequest) -> None:
        """Keep a request that was accepted."""
        self.requests[request.token] = request
        if request.correlation:
            self.by_client[request.client, request.correlation] = request

    def end(self, request: PendingRequest) -> None:
        """Forget a request. Its worker may be busy with it still, and so keeps the attempt as an orphan."""
        del self.requests[request.token]
        if request.state is RequestState.RUNNING and request.worker is not None:
            self.orphans[request.token] = Orphan(request.worker, request.service)
        request.state = RequestState.ENDED
        key = (request.client, request.correlation)
        if request.correlation and self.by_client.get(key) is request:
            del self.by_client[key]

    def begin_anew(self, request: PendingRequest, token: bytes) -> None:
        """Give a request the token of its next attempt, and let go of replies to the last one."""
        del self.requests[request.token]
        request.token = token
        self.requests[token] = request
        request.parts, request.parts_count, request.parts_bytes = [], 0, 0

    def held_by(self, worker: Worker, token: bytes) -> PendingRequest | None:
        """Return the request of an attempt if this worker has it."""
        request = self.requests.get(token)
        return request if request is not None and request.worker is worker else None

    def worker_of(self, token: bytes) -> Worker | None:
        """Return the worker that has an attempt, whether or not its request has ended."""
        request, orphan = self.requests.get(token), self.orphans.get(token)
        return request.worker if request is not None else orphan.worker if orphan is not None else None

    def busy_workers(self) -> Iterator[Worker]:
        """Yield each worker that has an attempt, once for each."""
        yield from (orphan.worker for orphan in self.orphans.values())
        yield from (request.worker for request in self.requests.values() if request.worker is not None)
