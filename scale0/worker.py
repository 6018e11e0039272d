"""Offers services to the broker network on Twisted, and answers requests for them: a backend.

    worker = Worker(reactor, "helen-1", ["tcp://127.0.0.1:5556"], answer, concurrency=64)
    worker.offer("helen", "helen.helen-1")
    worker.startService()
    worker.offer("equus.web-1", epochs={"equus.web-1": 17})     at any time; sent in bundles, see BUNDLE
    worker.withdraw("equus.web-1")

`answer(request)` returns the body: bytes, a sequence of bytes, a Reply with a code, or a Deferred of one of these. An
exception becomes FINAL 500, and Refused its own code. The broker may give up on a request: then `request.cancelled` is
true and a Deferred that was returned is cancelled; an answer after that is not sent.

The worker finds a broker by itself, and another one when its own dies (scale0/endpoint/negotiation.py). Requests of a
broker that it has lost are neither begun nor answered: that broker sends them to other workers. While the worker
negotiates anew, requests wait until it knows that the broker still counts on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from scale0.endpoint.connection import Connection, KeyRing
from scale0.endpoint.document_holder import DocumentHolder
from scale0.endpoint.effects import State, Target
from scale0.endpoint.requests import OutgoingRequests
from scale0.wire import options as opt

HELD = 1000  # requests that wait for the end of a negotiation: the most that a broker gives to one worker
BUNDLE = 0.02  # seconds in which changes of services are gathered into one SERVICES
PER_MESSAGE = 100  # services in one command: with names of 255 bytes, or epochs and seals of agents, below 64 KiB


@attrs.frozen
class Reply:
    """Holds a final answer with a code."""

    body: Sequence[bytes] = ()
    code: int = 200
    reason: str = ""


class Refused(Exception):
    """Ends a request with this code and reason; the answer function raises it."""

    def __init__(self, code: int, reason: str, body: Sequence[bytes] = ()) -> None:
        super().__init__(f"{code} {reason}")
        self.reply = Reply(body, code, reason)


@attrs.define(eq=False)
class Request:
    """Holds one request for a service of this worker."""

    id: str
    service: str
    body: Sequence[bytes]
    timeout: float | None  # seconds left when it came
    idempotent: bool | None
    _connection: Connection | None
    cancelled: bool = False
    running: Deferred[Any] | None = None
    asked_by: str = ""  # of a service of Helens: who asks, in the broker's words

    def partial(self, *body: bytes) -> None:
        """Send a part of the answer before the rest; after that the request is not retried elsewhere."""
        if self._connection is not None:
            self._connection.tell("PARTIAL", {"id": self.id}, body)

    def forget(self) -> None:
        """Cancel the request without a word to its broker, which is lost."""
        self._connection = None
        self.cancelled = True


@attrs.frozen
class Holder:
    """Describes the newer holder of a service: its identity, the epoch of its attachment, and the seal of both."""

    identity: str
    epoch: int
    seal: str = ""


def holder_of(service: str, o: opt.ServicesDelta) -> Holder | None:
    """Return what SERVICES says of the new holder of a service; None if it says nothing."""
    return Holder(*o.holders[service], o.seals.get(service, "")) if service in o.holders else None


Answer = Callable[[Request], Any]


class Worker(Service):
    """Keeps a session with some broker, and calls `answer` for each request."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        identity: str,
        brokers: Sequence[str | Target],
        answer: Answer,
        concurrency: int = 1,
        keys: KeyRing | None = None,
        interval: float | None = None,
        configured: Callable[[dict[str, Any]], None] | None = None,
        withdrawn: Callable[[str], None] | None = None,
        changed: Callable[[State, str, int], None] | None = None,
        documents: DocumentHolder | None = None,
        seal: Callable[[str, int], str] | None = None,
        superseded: Callable[[str, Holder | None], None] | None = None,
    ) -> None:
        """Make a worker that is not started; `brokers` are endpoints of backend ports, tried in turn.

        `concurrency` is the number of requests at once, `interval` the wanted seconds between heartbeats.
        `configured` gets each configuration for this worker, `withdrawn` each service that a newer holder has
        elsewhere, `superseded` the same with that Holder, `changed` each state of the session with its reason and
        code. `documents` takes part in the documents of the network. `seal` returns a signature over a service and its
        attach epoch.
        """
        self.setName(f"scale0 worker {identity}")
        self._reactor, self._answer, self.concurrency = reactor, answer, concurrency
        self._on_config, self._on_change = configured, changed
        self._on_withdrawn = withdrawn or (lambda service: None)
        self._on_superseded = superseded or (lambda service, holder: None)
        self._services: dict[str, int | None] = {}  # with the attach epoch of those that have one
        self._added: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self._seq = 0
        self._bundle: Any = None
        self._requests: dict[str, Request] = {}
        self._held: dict[str, tuple[opt.Request, Sequence[bytes]]] = {}  # came during a negotiation
        self._documents, self._seal = documents, seal
        self._outgoing = OutgoingRequests(reactor, lambda options, body: self.connection.tell("REQUEST", options, body))
        self.connection = Connection(
            reactor, "backend", identity, brokers, self._received, self._changed, self._configured, keys, interval
        )

    @property
    def state(self) -> State:
        """Return the state of the session."""
        return self.connection.state

    @property
    def services(self) -> Iterable[str]:
        """Return the services that are offered."""
        return self._services.keys()

    @property
    def inflight(self) -> int:
        """Return how many requests are being answered."""
        return len(self._requests)

    def startService(self) -> None:
        """Connect to a broker."""
        super().startService()
        self.connection.negotiation.services = list(self._services)
        self.connection.start()

    def stopService(self) -> None:
        """End the session; requests on their way are cancelled."""
        super().stopService()
        if self._bundle is not None and self._bundle.active():
            self._bundle.cancel()
        self._forget_requests()
        self._outgoing.lost("stopped")
        self.connection.stop()

    def ask(self, service: str, *body: bytes, timeout: float) -> Deferred[Sequence[bytes]]:
        """Ask another service; `timeout` is in seconds.

        The Deferred fires with the body of the answer, or with requests.NotAnswered, at once if there is no broker.
        """
        return self._outgoing.ask(service, body, timeout, self.state is State.ACTIVE)

    # ---------------------------------------------------------------------------------- services

    def offer(self, *services: str, epochs: dict[str, int] | None = None) -> None:
        """Offer these services too.

        `epochs` maps services to attach epochs, numbers that rise with each attachment: of two workers that offer a
        service with an epoch, the one with the higher epoch keeps it.
        """
        for service in services:
            epoch = (epochs or {}).get(service)
            if service not in self._services or self._services[service] != epoch:
                self._services[service] = epoch
                self._added[service] = None
                self._removed.pop(service, None)
        self._tell_soon()

    def withdraw(self, *services: str) -> None:
        """Offer these services no longer."""
        for service in services:
            if self._services.pop(service, self) is not self:
                self._added.pop(service, None)
                self._removed[service] = None
        self._tell_soon()

    def _tell_soon(self) -> None:
        self.connection.negotiation.services = list(self._services)[:PER_MESSAGE]
        if self.state is State.ACTIVE and self._bundle is None:
            self._bundle = self._reactor.callLater(BUNDLE, self._tell_services)

    def _tell_services(self) -> None:
        """Send the changes of services, in pieces that fit into a message."""
        self._bundle = None
        if self.state is not State.ACTIVE:
            return  # READY will list all services
        added, removed = list(self._added), list(self._removed)
        self._added, self._removed = {}, {}
        for piece in range(0, max(len(added), len(removed)), PER_MESSAGE):
            self._tell_delta(added[piece : piece + PER_MESSAGE], removed[piece : piece + PER_MESSAGE])

    def _tell_delta(self, add: list[str], remove: list[str]) -> None:
        self._seq += 1
        options: dict[str, Any] = {"add": add, "remove": remove, "seq": self._seq}
        options |= self._attachments(add)
        self.connection.tell("SERVICES", options)

    def _attachments(self, services: Iterable[str]) -> dict[str, Any]:
        """Return `epochs` and `seals` of those services that have an attach epoch; nothing if none has."""
        epochs = {s: epoch for s in services if (epoch := self._services.get(s)) is not None}
        if not epochs:
            return {}
        given = () if self._seal is None else ((s, self._seal(s, epoch)) for s, epoch in epochs.items())
        seals = {service: seal for service, seal in given if seal}
        return {"epochs": epochs} | ({"seals": seals} if seals else {})

    def _send_ready(self) -> None:
        """Send READY with as many services as fit, and SERVICES with the rest."""
        services = list(self._services)
        first, rest = services[:PER_MESSAGE], services[PER_MESSAGE:]
        self._added, self._removed, self._seq = {}, {}, 0
        options: dict[str, Any] = {
            "services": first,
            "heartbeat": True,
            "hbeatinterval": self.connection.negotiation.interval,
            "time": time.time(),
            "config_version": self.connection.negotiation.version,
            "concurrency": self.concurrency,
        }
        options |= self._attachments(first)
        self.connection.tell("READY", options)
        for at in range(0, len(rest), PER_MESSAGE):
            self._tell_delta(rest[at : at + PER_MESSAGE], [])
        self.connection.ready_sent()
        if self._documents is not None:
            self._documents.begin(self.connection.tell)

    # ------------------------------------------------------------------------------------- events

    def _configured(self, document: dict[str, Any]) -> None:
        self._send_ready()
        if self._on_config is not None:
            self._on_config(document)

    def _changed(self, state: State, why: str, code: int) -> None:
        if state is State.ACTIVE:
            self._begin_held()
        elif state in (State.LOST, State.BACKOFF, State.STOPPED):
            self._forget_requests()
            self._outgoing.lost("no_broker")
            if self._documents is not None:
                self._documents.end()
        if why:
            self._log.info("{name}: {state}: {why}", name=self.name, state=state.value, why=why)
        if self._on_change is not None:
            self._on_change(state, why, code)

    def _forget_requests(self) -> None:
        self._held.clear()
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.forget()
            if request.running is not None:
                request.running.cancel()

    def _received(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        if command == "REQUEST":
            self._take_request(o, body)
        elif command == "CANCEL":
            self._cancel(o.id)
        elif command in ("PARTIAL", "FINAL"):
            self._outgoing.answered(command, o, body)
        elif command == "SERVICES":
            for service in o.remove:
                if self._services.pop(service, self) is not self:
                    self._on_withdrawn(service)
                    self._on_superseded(service, holder_of(service, o))
        elif self._documents is not None:
            self._documents.listen(command, o, body)

    def _take_request(self, o: opt.Request, body: Sequence[bytes]) -> None:
        if self.state is State.ACTIVE:
            self._answer_request(o, body)
        elif self.state in (State.CHECKING, State.CONFIGURED) and len(self._held) < HELD:
            self._held[o.id] = o, body

    def _begin_held(self) -> None:
        held, self._held = self._held, {}
        for o, body in held.values():
            self._answer_request(o, body)

    def _answer_request(self, o: opt.Request, body: Sequence[bytes]) -> None:
        timeout = None if o.timeout_ms is None else o.timeout_ms / 1000
        request = Request(o.id, o.service, body, timeout, o.idempotent, self.connection, asked_by=o.asked_by)
        self._requests[o.id] = request
        request.running = maybeDeferred(self._answer, request)
        request.running.addCallbacks(_as_reply, self._as_error)
        request.running.addCallback(self._reply, request)
        request.running.addErrback(lambda f: self._log.failure("an answer could not be sent", f))

    def _cancel(self, request_id: str) -> None:
        self._held.pop(request_id, None)
        request = self._requests.get(request_id)
        if request is not None and not request.cancelled:
            request.cancelled = True
            if request.running is not None:
                request.running.cancel()

    def _as_error(self, failure: Failure) -> Reply:
        if isinstance(failure.value, Refused):
            return failure.value.reply
        if failure.check(CancelledError):
            return Reply((), 499, "cancelled")
        self._log.failure("an answer failed", failure)
        return Reply((), 500, "internal")

    def _reply(self, reply: Reply, request: Request) -> None:
        if self._requests.get(request.id) is not request:
            return  # its broker is gone
        del self._requests[request.id]
        options: dict[str, Any] = {"id": request.id, "code": reply.code}
        if reply.reason:
            options["reason"] = reply.reason
        if not self.connection.tell("FINAL", options, reply.body):
            self._log.error(
                "the answer to a request for {service} was dropped: the broker does not read, and too much waits",
                service=request.service,
            )


def _as_reply(answer: Any) -> Reply:
    if isinstance(answer, Reply):
        return answer
    return Reply([answer] if isinstance(answer, bytes) else list(answer or ()))
