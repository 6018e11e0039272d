"""Ends requests: by a reply, by a deadline, with the broker, or for lack of a worker. Pure: a part of the broker.

A request ends once. Times are monotonic seconds of the broker's context.
"""

from __future__ import annotations

from scale0.broker.context import Context
from scale0.broker.requests.queues import QUEUE_EXPIRY, PendingRequest, Queues, RequestState
from scale0.broker.requests.request_messages import RequestMessages
from scale0.broker.requests.request_table import RequestTable
from scale0.broker.requests.worker_pool import Worker, WorkerPool


class RequestEnds:
    """Takes requests out of the table and the queues, and attempts from their workers."""

    def __init__(
        self, context: Context, table: RequestTable, queues: Queues, pool: WorkerPool, messages: RequestMessages
    ) -> None:
        self._c, self._table, self._queues, self._pool, self._messages = context, table, queues, pool, messages

    def end(self, request: PendingRequest) -> None:
        """Forget a request and its deadline; a worker that is busy with it keeps the attempt."""
        self._table.end(request)
        self._c.timers.cancel(("request", request.token))

    def release(self, worker: Worker, token: bytes) -> None:
        """Take an attempt from its worker, whatever happens to the request."""
        self._table.orphans.pop(token, None)
        self._c.timers.cancel(("running", token))
        self._pool.release(worker, token)

    def fail(self, request: PendingRequest, code: int, reason: str, message: str) -> None:
        """End a request with an error to its client."""
        self.end(request)
        self._messages.error(request, code, reason, message)

    def expire(self, token: bytes) -> None:
        """End a request because its deadline has passed, or it has waited QUEUE_EXPIRY."""
        request = self._table.requests.get(token)
        if request is None:
            return
        if request.state is RequestState.QUEUED:
            self._queues.remove(request)
        else:
            self._messages.advise(request)
        if request.deadline is None:
            self.fail(request, 408, "expired", f"no worker within {QUEUE_EXPIRY:g} s")
        else:
            self.fail(request, 504, "deadline", "not answered within timeout_ms")

    def drop_all(self, code: int, reason: str, message: str) -> None:
        """End all requests with an error, as the broker is disabled or stops."""
        for request in list(self._table.requests.values()):
            worker = request.worker
            if request.state is RequestState.QUEUED:
                self._queues.remove(request)
            self.end(request)
            if worker is not None:
                self.release(worker, request.token)
            self._messages.error(request, code, reason, message)

    def slept(self, seconds: float) -> None:
        """Move the ends of all requests by `seconds` of a stall, in which neither answers nor workers were heard.

        Each lasts at least one more interval: so long it may take to read what has come meanwhile.
        """
        least = self._c.now + self._c.config.default_heartbeat_interval
        for token, request in self._table.requests.items():
            request.waiting_since += seconds
            if request.deadline is not None:
                request.deadline = max(request.deadline + seconds, least)
                self._c.at(("request", token), request.deadline)
            elif request.state is RequestState.QUEUED:
                self._c.at(("request", token), max(request.waiting_since + QUEUE_EXPIRY, least))
        for worker in {id(w): w for w in self._table.busy_workers()}.values():
            for token, until in worker.inflight.items():
                worker.inflight[token] = max(until + seconds, least)
                self._c.at(("running", token), worker.inflight[token])
