"""Writes messages about a request to its worker and its client, in the dialect of each. Pure; see context.py."""

from __future__ import annotations

from collections.abc import Sequence

from scale0.broker.context import Context, Options
from scale0.broker.peers import Peers
from scale0.broker.requests.queues import PendingRequest
from scale0.broker.requests.worker_pool import Worker
from scale0.wire import frames as wire
from scale0.wire.frames import D1, PLAIN
from scale0.wire.options import encode


class RequestMessages:
    """Sends each message through the context; of the request it changes only the partial replies that it holds."""

    def __init__(self, context: Context, peers: Peers) -> None:
        self._c, self._peers = context, peers

    def attempt(self, request: PendingRequest, worker: Worker) -> None:
        """Send an attempt of a request to a worker, or to a peer broker."""
        if worker.dialect in PLAIN:
            message = wire.to_worker(worker.dialect, "REQUEST", request.token, request.body)
            self._c.send(worker.address, message, request.token)
        else:
            self._scale0_attempt(request, worker)

    def _scale0_attempt(self, request: PendingRequest, worker: Worker) -> None:
        command = "FORWARD" if worker.peer else "REQUEST"
        options: Options = {"id": request.token.hex(), "service": request.service, "priority": request.priority}
        options["idempotent"] = request.idempotent
        if request.asked_by:
            options["asked_by"] = request.asked_by
        left = None if request.deadline is None else max(1, int(1000 * (request.deadline - self._c.now)))
        if worker.peer:
            self._peers.used(worker, request.service, -1)
            options["path"] = [*request.path, self._c.config.identity]
            options["deadline"] = left or 0
        elif left is not None:
            options["timeout_ms"] = left
        message = wire.scale0(worker.dialect, command, encode(options), request.body)
        self._c.send(worker.address, message, request.token)

    def advise(self, request: PendingRequest) -> None:
        """Tell the worker of a request that its reply is not wanted any more. Plain MDP has no message for that."""
        if request.worker is not None and request.worker.dialect not in PLAIN:
            self._c.tell(request.worker.address, request.worker.dialect, "CANCEL", {"id": request.token.hex()})

    def part(self, request: PendingRequest, body: Sequence[bytes]) -> bool:
        """Pass a partial reply on to the client; return False if no more can be held for one of MDP/0.1."""
        if request.dialect is D1:
            return request.hold(body)
        request.passed_partial = True
        if request.dialect in PLAIN:
            self._c.send(request.client, wire.to_client(request.dialect, False, request.service, body))
        else:
            self._c.tell(request.client, request.dialect, "PARTIAL", {"id": request.correlation}, body)
        return True

    def final(self, request: PendingRequest, body: Sequence[bytes], code: int, reason: str) -> None:
        """Send the last reply to the client; a coded one says nothing to plain clients."""
        self._c.counts["finished" if code < 400 else "failed"] += 1
        if request.dialect in PLAIN:
            if code < 400:
                self._c.send(
                    request.client, wire.to_client(request.dialect, True, request.service, [*request.parts, *body])
                )
            return
        options: Options = {"id": request.correlation, "code": code}
        if reason:
            options["reason"] = reason
        self._c.tell(request.client, request.dialect, "FINAL", options, body)

    def error(self, request: PendingRequest, code: int, reason: str, message: str, refused: bool = False) -> None:
        """Send a coded FINAL; plain clients are never sent an error, as the RFCs have none."""
        self._c.counts["errors"] += 1
        if request.dialect not in PLAIN:
            options: Options = {"id": request.correlation, "code": code, "reason": reason, "message": message}
            if refused and request.forwarded:
                options["refused"] = True
            self._c.tell(request.client, request.dialect, "FINAL", options)
