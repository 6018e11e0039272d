"""Brings requests to workers and replies to clients. Pure: a part of the broker, see context.py.

Three things hold at every moment (tests/scale0/broker/test_broker_properties.py):
  * an accepted request is in a queue, or with one worker, and nowhere else;
  * it ends once: by a FINAL, by a coded error to clients that understand one, or silently for plain clients, for which
    the RFCs have no errors;
  * a worker never holds more than its concurrency.

request_table.py keeps the requests, and request_ends.py ends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from scale0.broker.context import Context
from scale0.broker.peers import Peers
from scale0.broker.requests.queues import ATTEMPTS, QUEUE_EXPIRY, PendingRequest, Queues, RequestState
from scale0.broker.requests.request_ends import RequestEnds
from scale0.broker.requests.request_messages import RequestMessages
from scale0.broker.requests.request_table import RequestTable
from scale0.broker.requests.worker_pool import Address, Worker, WorkerPool

SPILL_SCAN = 16  # waiting requests looked at for a peer broker; the head may be barred from it, those behind it not


class Routing:
    """Moves requests between clients, queues and workers."""

    def __init__(self, context: Context, peers: Peers) -> None:
        self._c, self._peers = context, peers
        self._messages = RequestMessages(context, peers)
        self.table = RequestTable()
        self.requests = self.table.requests
        self.queues = Queues()
        self.pool = WorkerPool()
        self.ends = RequestEnds(context, self.table, self.queues, self.pool, self._messages)

    def knows(self, service: str) -> bool:
        """Return True if a live worker offers the service, here or at a reachable peer."""
        return service in self.pool or self._peers.serve(service)

    def accept(self, request: PendingRequest) -> None:
        """Take a request that may be served here: give it to a worker at once, else queue it."""
        request.size = sum(map(len, request.body))
        worker = self.pool.next(request.service)
        full = self.queues.full(request) if worker is None else None
        if full:
            self.refuse(request, 429, "too_many", full)
            return
        self.table.add(request)
        self._c.counts["accepted"] += 1
        if request.deadline is not None:
            self._c.at(("request", request.token), request.deadline)
        if worker is not None:
            self._dispatch(request, worker)
        else:
            self._wait(request)

    def _wait(self, request: PendingRequest, front: bool = False) -> None:
        request.waiting_since = self._c.now
        self.queues.add(request, front)
        if request.deadline is None:
            self._c.later(("request", request.token), QUEUE_EXPIRY)
        self.spill(request.service)

    def refuse(self, request: PendingRequest, code: int, reason: str, message: str) -> None:
        """Answer a request that is not accepted with an error; nothing is kept of it."""
        self._c.counts["refused"] += 1
        self._messages.error(request, code, reason, message, refused=True)

    def cancel(self, client: Address, correlation: str) -> None:
        """Withdraw a client's request: drop it if it waits, else advise the worker that has it to stop."""
        request = self.table.by_client.get((client, correlation))
        if request is None:
            return
        if request.state is RequestState.QUEUED:
            self.queues.remove(request)
            self.ends.end(request)
            self._c.counts["cancelled"] += 1
        else:
            self._messages.advise(request)

    def serve(self, service: str) -> None:
        """Give waiting requests for this service to workers that are free."""
        while (queue := self.queues[service]) is not None and (worker := self.pool.next(service)) is not None:
            request = queue.head()
            assert request is not None
            self.queues.remove(request, served=True)
            self._dispatch(request, worker)

    def serve_worker(self, worker: Worker) -> None:
        """Give a free worker the requests that wait for its services, each service in turn."""
        few, many = self.queues, worker.services
        waiting = [s for s in few if s in many] if len(few) < len(many) else [s for s in many if few[s] is not None]
        for service in waiting:
            if not worker.free:
                return
            self.serve(service)
            self.queues.to_end(service)

    def _dispatch(self, request: PendingRequest, worker: Worker) -> None:
        until = self._c.now + self._c.policy(request.service).busy_timeout
        request.state, request.worker = RequestState.RUNNING, worker
        request.attempt += 1
        if request.deadline is None:
            self._c.timers.cancel(("request", request.token))
        self.pool.take(worker, request.token, until)
        self._c.at(("running", request.token), until)
        self._messages.attempt(request, worker)

    def spill(self, service: str) -> None:
        """Pass requests on to peer brokers that have waited spill_ms for a worker here, or have none to wait for."""
        patience = self._c.config.spill_ms / 1000 if service in self.pool else 0.0
        while (queue := self.queues[service]) is not None and self._peers.any_idle(service):
            for request in islice(queue, SPILL_SCAN):
                if self._c.now < request.waiting_since + patience:
                    self._c.at(("spill", service), request.waiting_since + patience)
                    return
                channel = self._peers.channel_for(request)
                if channel is not None:
                    self.queues.remove(request, served=True)
                    self._dispatch(request, channel)
                    break
            else:
                return

    def reply(
        self, worker: Worker, token: bytes, body: Sequence[bytes], final: bool, code: int = 200, reason: str = ""
    ) -> bool:
        """Pass a PARTIAL or FINAL on to the client; False if another worker has the token, a breach of protocol."""
        request = self.requests.get(token)
        if request is not None and request.worker is not worker:
            return False
        if request is None:
            self._c.counts["stray_replies"] += 1
        elif final:
            self.ends.end(request)
            self._messages.final(request, body, code, reason)
        elif not self._messages.part(request, body):
            self.ends.fail(request, 413, "too_large", "more partial replies than can be held for a client of MDP/0.1")
        orphan = self.table.orphans.get(token)
        if final and orphan is not None and orphan.worker is worker:
            self._freed(worker, token, orphan.service)
        return True

    def _freed(self, worker: Worker, token: bytes, service: str) -> None:
        """Take an attempt from the worker that has ended it, and give its place to a request that waits.

        The table of a peer tells of it later, and not at all if the place was taken and freed between two tables.
        """
        was_free = worker.free
        self.ends.release(worker, token)
        if worker.peer:
            self._peers.used(worker, service, 1)
            for each in [service] if was_free else list(self.queues):  # a full channel held up all services
                self.spill(each)
        else:
            self.serve_worker(worker)

    def handed_back(self, worker: Worker, token: bytes) -> None:
        """Queue a request again that a peer broker refused to take; another may take it."""
        request = self.table.held_by(worker, token)
        if request is None:
            return
        self.ends.release(worker, token)
        request.refused_by.add(worker.peer)
        self._again(request, counts=False)

    def _again(self, request: PendingRequest, counts: bool = True) -> None:
        """Queue a request again, at the head and under a new token, or end it with 502 if it must not be retried."""
        if not counts:
            request.attempt -= 1
        elif not request.idempotent or request.passed_partial or request.attempt >= ATTEMPTS:
            self.ends.end(request)
            self.table.orphans.pop(request.token, None)
            self._messages.error(request, 502, "worker_lost", f"lost with its worker at attempt {request.attempt}")
            return
        self._c.timers.cancel(("request", request.token))
        self.table.begin_anew(request, self._c.token())
        if request.deadline is not None:
            self._c.at(("request", request.token), request.deadline)
        self._wait(request, front=True)
        if request.state is RequestState.QUEUED:
            self.serve(request.service)

    def lose(self, worker: Worker, undelivered: bytes = b"") -> None:
        """Remove a worker that has left or died, and retry the requests that it held.

        `undelivered` is the token of a request that it never received, which does not count as an attempt.
        """
        self.pool.remove(worker)
        tokens = list(worker.inflight)
        worker.inflight.clear()
        for token in tokens:
            self.ends.release(worker, token)
            if (request := self.table.held_by(worker, token)) is not None:
                self._again(request, counts=token != undelivered)

    def full(self, worker: Worker, token: bytes) -> None:
        """Pass over a worker with a full pipe until something is received from it; the request goes to the next."""
        self.pool.set_slow(worker, True)
        self.ends.release(worker, token)
        self._c.counts["slow_workers"] += 1
        if (request := self.table.held_by(worker, token)) is not None:
            if worker.peer:
                self._peers.used(worker, request.service, 1)
            self._again(request, counts=False)

    def received(self, worker: Worker) -> None:
        """Give a worker requests again that did not read, as something was received from it."""
        if not worker.slow:
            return
        self.pool.set_slow(worker, False)
        self.serve_worker(worker)
        for service in list(self.queues) if worker.peer else ():
            self.spill(service)

    def overdue(self, token: bytes) -> Worker | None:
        """End a request after busy_timeout.

        Return its worker if that counts as dead now: a worker that sends no heartbeats while it is busy.
        """
        request = self.requests.get(token)
        worker = self.table.worker_of(token)
        if worker is None or not worker.beats_while_busy:
            return worker
        self._c.counts["overdue"] += 1
        if request is not None:
            self._messages.advise(request)
            self.ends.fail(request, 504, "deadline", "not answered within busy_timeout")
        self.ends.release(worker, token)
        self.serve_worker(worker)
        return None
