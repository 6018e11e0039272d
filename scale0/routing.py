"""Requests find workers, replies find clients. Pure: a part of the broker, see context.py.

What holds at every moment (tests/scale0/test_broker_properties.py):
  * an accepted request is in a queue, or with one worker, and nowhere else;
  * it ends once: by a FINAL, by a coded error to those who understand one, or silently for plain clients, whose RFCs
    have no errors;
  * a worker never holds more than its concurrency.

Each attempt has a token of its own. It is all that a worker learns of the client, so it can answer nobody else; and a
reply to an attempt that is over finds no row and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from scale0 import frames as wire
from scale0.context import Context, Options
from scale0.frames import D1, PLAIN
from scale0.lru import Address, Lru, Worker
from scale0.options import encode
from scale0.queues import ATTEMPTS, QUEUE_EXPIRY, Place, Queues, Row

SPILL_SCAN = 16  # waiting requests looked at for a fellow broker; the head may be barred from it, those behind it not


class Routing:
    def __init__(self, context: Context) -> None:
        self._c = context
        self.rows: dict[bytes, Row] = {}
        self.queues = Queues()
        self.lru = Lru()
        self._by_client: dict[tuple[Address, str], Row] = {}
        self._orphans: dict[bytes, Worker] = {}  # attempts whose request has ended, while a worker is busy with them
        # Set by the broker; see fellows.py.
        self.fellow_for: Callable[[Row], Worker | None] = lambda row: None
        self.fellows_idle: Callable[[str], bool] = lambda service: False
        self.fellow_used: Callable[[Worker, str, int], None] = lambda channel, service, change: None

    # ------------------------------------------------------------------------------- from clients

    def accept(self, row: Row) -> None:
        """A request that may be served here: to a worker at once, else into the queue."""
        row.size = sum(map(len, row.body))
        worker = self.lru.next(row.service)
        full = self.queues.full(row) if worker is None else None
        if full:
            self.refuse(row, 429, "too_many", full)
            return
        self.rows[row.token] = row
        if row.correlation:
            self._by_client[row.client, row.correlation] = row
        self._c.counts["accepted"] += 1
        if row.deadline is not None:
            self._c.timers.set(("row", row.token), row.deadline)
        if worker is not None:
            self._dispatch(row, worker)
        else:
            self._wait(row)

    def _wait(self, row: Row, front: bool = False) -> None:
        row.waiting_since = self._c.now
        self.queues.add(row, front)
        if row.deadline is None:
            self._c.later(("row", row.token), QUEUE_EXPIRY)
        self.spill(row.service)

    def refuse(self, row: Row, code: int, reason: str, message: str) -> None:
        """A request that was not accepted; nothing is kept of it."""
        self._c.counts["refused"] += 1
        self._answer_error(row, code, reason, message, refused=True)

    def cancel(self, client: Address, correlation: str) -> None:
        """Gone if it waits; advice to a worker that has it."""
        row = self._by_client.get((client, correlation))
        if row is None:
            return
        if row.place is Place.QUEUED:
            self.queues.remove(row)
            self._end(row)
            self._c.counts["cancelled"] += 1
        else:
            self._advise(row)

    def _advise(self, row: Row) -> None:
        if row.worker is not None and row.worker.dialect not in PLAIN:
            self._c.tell(row.worker.address, row.worker.dialect, "CANCEL", {"id": row.token.hex()})

    # --------------------------------------------------------------------------------- to workers

    def serve(self, service: str) -> None:
        """Whatever waits for this service goes to workers that are free."""
        while (queue := self.queues[service]) is not None and (worker := self.lru.next(service)) is not None:
            row = queue.head()
            assert row is not None
            self.queues.remove(row, served=True)
            self._dispatch(row, worker)

    def serve_worker(self, worker: Worker) -> None:
        """A worker is free: let the services that it offers, and for which requests wait, have it in turn."""
        few, many = self.queues, worker.services
        waiting = [s for s in few if s in many] if len(few) < len(many) else [s for s in many if few[s] is not None]
        for service in waiting:
            if not worker.free:
                return
            self.serve(service)
            self.queues.to_end(service)

    def _dispatch(self, row: Row, worker: Worker) -> None:
        until = self._c.now + self._c.policy(row.service).busy_timeout
        row.place, row.worker = Place.RUNNING, worker
        row.attempt += 1
        if row.deadline is None:
            self._c.timers.cancel(("row", row.token))
        self.lru.take(worker, row.token, until)
        self._c.timers.set(("run", row.token), until)
        if worker.dialect in PLAIN:
            message = wire.to_worker(worker.dialect, "REQUEST", row.token, row.body)
            self._c.send(worker.address, message, row.token)
        else:
            self._send_scale0(row, worker)

    def _send_scale0(self, row: Row, worker: Worker) -> None:
        command = "FORWARD" if worker.fellow else "REQUEST"
        options: Options = {"id": row.token.hex(), "service": row.service, "priority": row.priority}
        options["idempotent"] = row.idempotent
        left = None if row.deadline is None else max(1, int(1000 * (row.deadline - self._c.now)))
        if worker.fellow:
            self.fellow_used(worker, row.service, -1)
            options["path"] = [*row.path, self._c.config.identity]
            options["deadline"] = left or 0
        elif left is not None:
            options["timeout_ms"] = left
        message = wire.scale0(worker.dialect, command, encode(options), row.body)
        self._c.send(worker.address, message, row.token)

    def spill(self, service: str) -> None:
        """What has waited long enough for an own worker, or has none to wait for, goes to a fellow broker."""
        patience = self._c.config.spill_ms / 1000 if service in self.lru else 0.0
        while (queue := self.queues[service]) is not None and self.fellows_idle(service):
            for row in islice(queue, SPILL_SCAN):
                if self._c.now < row.waiting_since + patience:
                    self._c.timers.set(("spill", service), row.waiting_since + patience)
                    return
                channel = self.fellow_for(row)
                if channel is not None:
                    self.queues.remove(row, served=True)
                    self._dispatch(row, channel)
                    break
            else:
                return

    # ------------------------------------------------------------------------------- from workers

    def reply(
        self, worker: Worker, token: bytes, body: Sequence[bytes], final: bool, code: int = 200, reason: str = ""
    ) -> bool:
        """PARTIAL or FINAL. False if the token is another worker's, which is a breach of protocol."""
        row = self.rows.get(token)
        if row is not None and row.worker is not worker:
            return False
        if row is None:
            self._c.counts["stray_replies"] += 1
        elif final:
            self._end(row)
            self._answer(row, body, code, reason)
            if worker.fellow:
                self.fellow_used(worker, row.service, 1)
        elif not self._pass_part(row, body):
            self._end(row)
            self._answer_error(row, 413, "too_large", "more partial replies than can be held for a client of MDP/0.1")
        if final and self._release(worker, token):
            self.serve_worker(worker)
        return True

    def _release(self, worker: Worker, token: bytes) -> bool:
        """The worker is done with an attempt, whatever became of its request."""
        self._orphans.pop(token, None)
        self._c.timers.cancel(("run", token))
        return self.lru.release(worker, token)

    def handed_back(self, worker: Worker, token: bytes) -> None:
        """A fellow broker would not take a FORWARD: somebody else may."""
        row = self.rows.get(token)
        if row is None or row.worker is not worker:
            return
        self._release(worker, token)
        row.refused_by.add(worker.fellow)
        self._again(row, counts=False)

    def _pass_part(self, row: Row, body: Sequence[bytes]) -> bool:
        if row.dialect is D1:
            return row.hold(body)
        row.passed_partial = True
        if row.dialect in PLAIN:
            self._c.send(row.client, wire.to_client(row.dialect, False, row.service, body))
        else:
            self._c.tell(row.client, row.dialect, "PARTIAL", {"id": row.correlation}, body)
        return True

    def _answer(self, row: Row, body: Sequence[bytes], code: int, reason: str) -> None:
        self._c.counts["finished" if code < 400 else "failed"] += 1
        if row.dialect in PLAIN:
            if code < 400:
                self._c.send(row.client, wire.to_client(row.dialect, True, row.service, [*row.parts, *body]))
            return
        options: Options = {"id": row.correlation, "code": code}
        if reason:
            options["reason"] = reason
        self._c.tell(row.client, row.dialect, "FINAL", options, body)

    def _answer_error(self, row: Row, code: int, reason: str, message: str, refused: bool = False) -> None:
        """A coded FINAL for those who understand one; plain clients are never sent an error, as RFCs have none."""
        self._c.counts["errors"] += 1
        if row.dialect not in PLAIN:
            options: Options = {"id": row.correlation, "code": code, "reason": reason, "message": message}
            if refused and row.forwarded:
                options["refused"] = True
            self._c.tell(row.client, row.dialect, "FINAL", options)

    # -------------------------------------------------------------------------------- ends and losses

    def _end(self, row: Row) -> None:
        """Nothing is known of the request from now on. Its worker's credit is another matter: it may be busy still."""
        del self.rows[row.token]
        if row.place is Place.RUNNING and row.worker is not None:
            self._orphans[row.token] = row.worker
        row.place = Place.ENDED
        self._c.timers.cancel(("row", row.token))
        key = (row.client, row.correlation)
        if row.correlation and self._by_client.get(key) is row:
            del self._by_client[key]

    def _again(self, row: Row, counts: bool = True) -> None:
        """Back to the head of its queue under a new token, if it may be tried again."""
        if not counts:
            row.attempt -= 1
        elif not row.idempotent or row.passed_partial or row.attempt >= ATTEMPTS:
            self._end(row)
            self._orphans.pop(row.token, None)
            self._answer_error(row, 502, "worker_lost", f"lost with its worker at attempt {row.attempt}")
            return
        del self.rows[row.token]
        self._c.timers.cancel(("row", row.token))
        row.token = self._c.token()
        self.rows[row.token] = row
        row.parts, row.parts_count, row.parts_bytes = [], 0, 0
        if row.deadline is not None:
            self._c.timers.set(("row", row.token), row.deadline)
        self._wait(row, front=True)
        if row.place is Place.QUEUED:
            self.serve(row.service)

    def lose(self, worker: Worker, undelivered: bytes = b"") -> None:
        """A worker has left or died. What it held is tried elsewhere; the one it was never handed, without count."""
        self.lru.remove(worker)
        tokens = list(worker.inflight)
        worker.inflight.clear()
        for token in tokens:
            self._release(worker, token)
            row = self.rows.get(token)
            if row is not None and row.worker is worker:
                self._again(row, counts=token != undelivered)

    def full(self, worker: Worker, token: bytes) -> None:
        """Its pipe takes no more: not asked again before it is heard of, and the request goes to the next."""
        self.lru.set_slow(worker, True)
        self._release(worker, token)
        self._c.counts["slow_workers"] += 1
        row = self.rows.get(token)
        if row is not None and row.worker is worker:
            if worker.fellow:
                self.fellow_used(worker, row.service, 1)
            self._again(row, counts=False)

    def heard(self, worker: Worker) -> None:
        """A worker that did not read says something: it may be asked again."""
        if not worker.slow:
            return
        self.lru.set_slow(worker, False)
        self.serve_worker(worker)
        for service in list(self.queues) if worker.fellow else ():
            self.spill(service)

    def expire(self, token: bytes) -> None:
        """The request's own time is up, or that of waiting."""
        row = self.rows.get(token)
        if row is None:
            return
        if row.place is Place.QUEUED:
            self.queues.remove(row)
        else:
            self._advise(row)
        self._end(row)
        if row.deadline is None:
            self._answer_error(row, 408, "expired", f"no worker within {QUEUE_EXPIRY:g} s")
        else:
            self._answer_error(row, 504, "deadline", "not answered within timeout_ms")

    def overdue(self, token: bytes) -> Worker | None:
        """busy_timeout is over. A worker that is expected to be silent counts as dead and is named; others go on."""
        row = self.rows.get(token)
        worker = row.worker if row is not None else self._orphans.get(token)
        if worker is None or not worker.beats_while_busy:
            return worker
        self._c.counts["overdue"] += 1
        if row is not None:
            self._advise(row)
            self._end(row)
            self._answer_error(row, 504, "deadline", "not answered within busy_timeout")
        self._release(worker, token)
        self.serve_worker(worker)
        return None

    def drop_all(self, code: int, reason: str, message: str) -> None:
        """The broker is being disabled or ends: each accepted request gets its coded error."""
        for row in list(self.rows.values()):
            worker = row.worker
            if row.place is Place.QUEUED:
                self.queues.remove(row)
            self._end(row)
            if worker is not None:
                self._release(worker, row.token)
            self._answer_error(row, code, reason, message)
