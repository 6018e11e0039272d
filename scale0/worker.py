"""A backend on Twisted: offers services to the broker network and answers requests for them.

    worker = Worker(reactor, "helen-1", ["tcp://127.0.0.1:5556"], answer, concurrency=64)
    worker.offer("helen", "helen.helen-1")
    worker.startService()
    worker.offer("equus.web-1", epochs={"equus.web-1": 17})     in real time; told in bundles, see BUNDLE
    worker.withdraw("equus.web-1")

`answer(request)` returns the body: bytes, a sequence of bytes, a Reply with a code, or a Deferred of one of these. An
exception becomes FINAL 500, and Refused its own code. The broker may give up on a request: then `request.cancelled` is
true and a Deferred that was returned is cancelled; what it says after that is not sent to anybody.

The worker finds a broker by itself and another one when its own dies (negotiation.py). Requests that it held of a
broker that it has lost are answered by nobody: their broker sends them to others.
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

from scale0 import options as opt
from scale0.asking import Asking
from scale0.link import Keys, Link
from scale0.negotiation import State, Target
from scale0.sharer import Sharer

BUNDLE = 0.02  # seconds in which changes of services are gathered into one SERVICES
PER_MESSAGE = 200  # services in one command: with names of 255 bytes still below the 64 KiB of its options


@attrs.frozen
class Reply:
    """A FINAL with a code."""

    body: Sequence[bytes] = ()
    code: int = 200
    reason: str = ""


class Refused(Exception):
    """Raised by an answer: FINAL with this code and reason."""

    def __init__(self, code: int, reason: str, body: Sequence[bytes] = ()) -> None:
        super().__init__(f"{code} {reason}")
        self.reply = Reply(body, code, reason)


@attrs.define(eq=False)
class Request:
    """What somebody asks of one of our services."""

    id: str
    service: str
    body: Sequence[bytes]
    timeout: float | None  # seconds left when it came
    idempotent: bool | None
    _link: Link | None
    cancelled: bool = False
    running: Deferred[Any] | None = None

    def partial(self, *body: bytes) -> None:
        """A part of the answer, before the rest is there. After it the request is not tried elsewhere."""
        if self._link is not None:
            self._link.tell("PARTIAL", {"id": self.id}, body)

    def forget(self) -> None:
        """Its broker is gone: nobody waits for the answer."""
        self._link = None
        self.cancelled = True


Answer = Callable[[Request], Any]


class Worker(Service):
    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        identity: str,
        brokers: Sequence[str | Target],
        answer: Answer,
        concurrency: int = 1,
        keys: Keys | None = None,
        interval: float | None = None,
        configured: Callable[[dict[str, Any]], None] | None = None,
        withdrawn: Callable[[str], None] | None = None,
        changed: Callable[[State, str, int], None] | None = None,
        sharer: Sharer | None = None,
    ) -> None:
        """`configured` gets each [ CLIENT CONFIG ]; `withdrawn` a service that somebody newer holds elsewhere."""
        self.setName(f"scale0 worker {identity}")
        self._reactor, self._answer, self.concurrency = reactor, answer, concurrency
        self._on_config, self._on_withdrawn, self._on_change = configured, withdrawn, changed
        self._services: dict[str, int | None] = {}  # with the attach epoch of those that have one
        self._added: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self._seq = 0
        self._bundle: Any = None
        self._requests: dict[str, Request] = {}
        self._sharer = sharer
        self.asking = Asking(reactor, lambda options, body: self.link.tell("REQUEST", options, body))
        self.link = Link(
            reactor, "backend", identity, brokers, self._heard, self._changed, self._configured, keys, interval
        )

    @property
    def state(self) -> State:
        return self.link.state

    @property
    def services(self) -> Iterable[str]:
        return self._services.keys()

    @property
    def inflight(self) -> int:
        return len(self._requests)

    def startService(self) -> None:
        super().startService()
        self.link.negotiation.services = list(self._services)
        self.link.start()

    def stopService(self) -> None:
        super().stopService()
        if self._bundle is not None and self._bundle.active():
            self._bundle.cancel()
        self._forget_requests()
        self.asking.lost("stopped")
        self.link.stop()

    def ask(self, service: str, *body: bytes, timeout: float) -> Deferred[Sequence[bytes]]:
        """A backend may want something, too. Fails with asking.NotAnswered, at once where there is no broker."""
        return self.asking.ask(service, body, timeout, self.state is State.ACTIVE)

    # ---------------------------------------------------------------------------------- services

    def offer(self, *services: str, epochs: dict[str, int] | None = None) -> None:
        """From now on these too. An epoch says since when an agent is here: the newest holder wins."""
        for service in services:
            epoch = (epochs or {}).get(service)
            if service not in self._services or self._services[service] != epoch:
                self._services[service] = epoch
                self._added[service] = None
                self._removed.pop(service, None)
        self._tell_soon()

    def withdraw(self, *services: str) -> None:
        for service in services:
            if self._services.pop(service, self) is not self:
                self._added.pop(service, None)
                self._removed[service] = None
        self._tell_soon()

    def _tell_soon(self) -> None:
        self.link.negotiation.services = list(self._services)[:PER_MESSAGE]
        if self.state is State.ACTIVE and self._bundle is None:
            self._bundle = self._reactor.callLater(BUNDLE, self._tell_services)

    def _tell_services(self) -> None:
        """SERVICES, in pieces that fit."""
        self._bundle = None
        if self.state is not State.ACTIVE:
            return  # READY will say it all
        added, removed = list(self._added), list(self._removed)
        self._added, self._removed = {}, {}
        for piece in range(0, max(len(added), len(removed)), PER_MESSAGE):
            self._tell_delta(added[piece : piece + PER_MESSAGE], removed[piece : piece + PER_MESSAGE])

    def _tell_delta(self, add: list[str], remove: list[str]) -> None:
        self._seq += 1
        options: dict[str, Any] = {"add": add, "remove": remove, "seq": self._seq}
        if epochs := self._epochs(add):
            options["epochs"] = epochs
        self.link.tell("SERVICES", options)

    def _epochs(self, services: Iterable[str]) -> dict[str, int]:
        return {s: epoch for s in services if (epoch := self._services.get(s)) is not None}

    def _say_ready(self) -> None:
        """READY with as many services as fit; SERVICES with the rest."""
        services = list(self._services)
        first, rest = services[:PER_MESSAGE], services[PER_MESSAGE:]
        self._added, self._removed, self._seq = {}, {}, 0
        options: dict[str, Any] = {
            "services": first,
            "heartbeat": True,
            "hbeatinterval": self.link.negotiation.interval,
            "time": time.time(),
            "config_version": self.link.negotiation.version,
            "concurrency": self.concurrency,
        }
        if epochs := self._epochs(first):
            options["epochs"] = epochs
        self.link.tell("READY", options)
        for at in range(0, len(rest), PER_MESSAGE):
            self._tell_delta(rest[at : at + PER_MESSAGE], [])
        self.link.ready_said()
        if self._sharer is not None:
            self._sharer.begin(self.link.tell)

    # ------------------------------------------------------------------------------------- events

    def _configured(self, document: dict[str, Any]) -> None:
        self._say_ready()
        if self._on_config is not None:
            self._on_config(document)

    def _changed(self, state: State, why: str, code: int) -> None:
        if state in (State.LOST, State.BACKOFF, State.STOPPED):
            self._forget_requests()
            self.asking.lost("no_broker")
            if self._sharer is not None:
                self._sharer.end()
        if why:
            self._log.info("{name}: {state}: {why}", name=self.name, state=state.value, why=why)
        if self._on_change is not None:
            self._on_change(state, why, code)

    def _forget_requests(self) -> None:
        requests, self._requests = self._requests, {}
        for request in requests.values():
            request.forget()
            if request.running is not None:
                request.running.cancel()

    def _heard(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        if command == "REQUEST":
            self._asked(o, body)
        elif command == "CANCEL":
            self._cancel(o.id)
        elif command in ("PARTIAL", "FINAL"):
            self.asking.answered(command, o, body)
        elif command == "SERVICES":
            for service in o.remove:
                if self._services.pop(service, self) is not self and self._on_withdrawn is not None:
                    self._on_withdrawn(service)
        elif self._sharer is not None:
            self._sharer.listen(command, o, body)

    def _asked(self, o: opt.Request, body: Sequence[bytes]) -> None:
        timeout = None if o.timeout_ms is None else o.timeout_ms / 1000
        request = Request(o.id, o.service, body, timeout, o.idempotent, self.link)
        self._requests[o.id] = request
        request.running = maybeDeferred(self._answer, request)
        request.running.addCallbacks(_as_reply, self._as_error)
        request.running.addCallback(self._reply, request)
        request.running.addErrback(lambda f: self._log.failure("an answer could not be sent", f))

    def _cancel(self, about: str) -> None:
        request = self._requests.get(about)
        if request is not None and not request.cancelled:
            request.cancelled = True
            if request.running is not None:
                request.running.cancel()

    def _as_error(self, failure: Failure) -> Reply:
        if failure.check(Refused):
            reply: Reply = failure.value.reply
            return reply
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
        if not self.link.tell("FINAL", options, reply.body):
            self._log.error("the answer to a request for {service} finds no room", service=request.service)


def _as_reply(answer: Any) -> Reply:
    if isinstance(answer, Reply):
        return answer
    return Reply([answer] if isinstance(answer, bytes) else list(answer or ()))
