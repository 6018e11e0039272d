"""Asks the broker network for services on Twisted: a frontend.

    client = Client(reactor, "asker-1", ["tcp://127.0.0.1:5555"])
    client.startService()
    reply = await client.request("equus.web-1", b"disk", b"{}", timeout=30)      Reply(code, reason, body)

The Deferred of a request fires once: with a Reply of a code below 400, or with RequestFailed. A request that is
`idempotent` (the default) is sent again, with the time that is left, when the broker was lost before it answered; one
that is not fails with 502 then, since it may have been served already. Cancelling the Deferred tells the broker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from scale0.endpoint.connection import Connection, KeyRing
from scale0.endpoint.effects import State, Target
from scale0.endpoint.requests import GRACE, is_late
from scale0.wire import options as opt

WAITING = 10_000  # requests without an answer; as many as a broker's pipe to this client holds answers


@attrs.frozen
class Reply:
    """Holds the answer to a request."""

    code: int
    reason: str
    body: Sequence[bytes]


class RequestFailed(Exception):
    """Reports a request that was not served; codes are those of HTTP."""

    def __init__(self, code: int, reason: str, body: Sequence[bytes] = ()) -> None:
        super().__init__(f"{code} {reason}")
        self.code, self.reason, self.body = code, reason, body


@attrs.define(eq=False)
class _Pending:
    id: str
    service: str
    body: Sequence[bytes]
    deadline: float | None
    priority: int
    idempotent: bool
    on_partial: Callable[[Sequence[bytes]], None] | None
    answer: Deferred[Reply]
    sent: bool = False
    timer: Any = None


class Client(Service):
    """Keeps a session with some broker, and the requests that wait for an answer."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        identity: str,
        brokers: Sequence[str | Target],
        keys: KeyRing | None = None,
        interval: float | None = None,
        configured: Callable[[dict[str, Any]], None] | None = None,
        changed: Callable[[State, str, int], None] | None = None,
    ) -> None:
        """Make a client that is not started; `brokers` are endpoints of frontend ports, tried in turn.

        `interval` is the wanted time between heartbeats in seconds. `configured` gets each configuration for this
        client, `changed` each state of the session with its reason and code.
        """
        self.setName(f"scale0 client {identity}")
        self._reactor, self._on_config, self._on_change = reactor, configured, changed
        self._numbers = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self.connection = Connection(
            reactor, "frontend", identity, brokers, self._received, self._changed, self._configured, keys, interval
        )

    @property
    def state(self) -> State:
        """Return the state of the session."""
        return self.connection.state

    def startService(self) -> None:
        """Connect to a broker."""
        super().startService()
        self.connection.start()

    def stopService(self) -> None:
        """End the session; requests without an answer fail with 503."""
        super().stopService()
        for pending in list(self._pending.values()):
            self._fail(pending, 503, "stopped")
        self.connection.stop()

    def request(
        self,
        service: str,
        *body: bytes,
        timeout: float | None = None,
        priority: int = 4,
        idempotent: bool = True,
        on_partial: Callable[[Sequence[bytes]], None] | None = None,
    ) -> Deferred[Reply]:
        """Ask a service; the Deferred fires with a Reply, or with RequestFailed.

        Before there is a broker the request waits, within WAITING and its `timeout` in seconds. `priority` is 0 to 9,
        9 first; `on_partial` gets the body of each partial reply.
        """
        answer: Deferred[Reply] = Deferred(self._cancelled)
        number = str(next(self._numbers))
        deadline = None if timeout is None else self._reactor.seconds() + timeout
        pending = _Pending(number, service, body, deadline, priority, idempotent, on_partial, answer)
        if len(self._pending) >= WAITING:
            answer.errback(RequestFailed(429, "too_many"))
            return answer
        self._pending[number] = pending
        if timeout is not None:
            pending.timer = self._reactor.callLater(timeout + GRACE, self._expire, pending)
        if self.state is State.ACTIVE:
            self._send(pending)
        elif self.state is State.STOPPED:
            self._fail(pending, 503, "no_broker")
        return answer

    def _send(self, pending: _Pending) -> None:
        options: dict[str, Any] = {"id": pending.id, "service": pending.service, "priority": pending.priority}
        options["idempotent"] = pending.idempotent
        if pending.deadline is not None:
            options["timeout_ms"] = max(1, int(1000 * (pending.deadline - self._reactor.seconds())))
        pending.sent = self.connection.tell("REQUEST", options, pending.body)
        if not pending.sent:
            self._fail(pending, 429, "too_many")

    # ------------------------------------------------------------------------------------- events

    def _received(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        if command not in ("PARTIAL", "FINAL"):
            return
        pending = self._pending.get(o.id)
        if pending is None:
            return  # sent twice because a broker was lost, or cancelled
        if command == "PARTIAL":
            if pending.on_partial is not None:
                pending.on_partial(body)
        else:
            self._end(pending, o, body)

    def _end(self, pending: _Pending, o: opt.Reply, body: Sequence[bytes]) -> None:
        if o.code >= 400:
            self._fail(pending, o.code, o.reason, body)
        else:
            self._forget(pending)
            pending.answer.callback(Reply(o.code, o.reason, body))

    def _expire(self, pending: _Pending) -> None:
        if is_late(self._reactor, pending.timer):
            pending.timer = self._reactor.callLater(GRACE, self._expire, pending)
        else:
            self._fail(pending, 504, "deadline")

    def _fail(self, pending: _Pending, code: int, reason: str, body: Sequence[bytes] = ()) -> None:
        self._forget(pending)
        pending.answer.errback(RequestFailed(code, reason, body))

    def _forget(self, pending: _Pending) -> None:
        self._pending.pop(pending.id, None)
        if pending.timer is not None and pending.timer.active():
            pending.timer.cancel()

    def _cancelled(self, answer: Deferred[Reply]) -> None:
        pending = next((p for p in self._pending.values() if p.answer is answer), None)
        if pending is not None:
            self._forget(pending)
            if pending.sent:
                self.connection.tell("CANCEL", {"id": pending.id})

    def _configured(self, document: dict[str, Any]) -> None:
        if self._on_config is not None:
            self._on_config(document)

    def _changed(self, state: State, why: str, code: int) -> None:
        if state is State.ACTIVE:
            for pending in [p for p in self._pending.values() if not p.sent]:
                self._send(pending)
        elif state in (State.LOST, State.BACKOFF, State.STOPPED):
            self._lost(state)
        if why:
            self._log.info("{name}: {state}: {why}", name=self.name, state=state.value, why=why)
        if self._on_change is not None:
            self._on_change(state, why, code)

    def _lost(self, state: State) -> None:
        """Keep requests that may be sent twice, and fail the others, as the broker is lost."""
        for pending in list(self._pending.values()):
            if state is State.STOPPED:
                self._fail(pending, 503, "no_broker")
            elif pending.sent and not pending.idempotent:
                self._fail(pending, 502, "broker_lost")
            else:
                pending.sent = False
