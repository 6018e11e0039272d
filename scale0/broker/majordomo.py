"""Serves Majordomo clients and workers, which know nothing of Scale0. Pure: a part of the broker.

RFC 7 and RFC 18 have no errors: a request that can't be served is dropped, and counted; a worker that is out of turn is
sent DISCONNECT, upon which it opens a new socket and begins again. The broker itself answers `mmi.*` (RFC 8).
"""

from __future__ import annotations

from collections.abc import Sequence

from scale0.broker.context import Context
from scale0.broker.requests.queues import PendingRequest
from scale0.broker.requests.routing import Routing
from scale0.broker.requests.worker_pool import Address, Worker
from scale0.broker.session import Session
from scale0.broker.sessions import Sessions
from scale0.wire.frames import Dialect, Message, to_client
from scale0.wire.options import Fault, check_service_names
from scale0.wire.zap import Origin

PRIORITY = 4  # of requests that can't name one: the middle


class Majordomo:
    """Takes the messages of both Majordomo dialects."""

    def __init__(self, context: Context, sessions: Sessions, routing: Routing) -> None:
        self._c, self._sessions, self._routing = context, sessions, routing

    def request(self, address: Address, origin: Origin, message: Message) -> None:
        """Take a request of a client. One that it may not make is dropped: it could not be told of a refusal."""
        c, service = self._c, message.service
        if not c.config.allow_plain_mdp:
            c.counts["dropped_plain"] += 1
        elif service.startswith("mmi."):
            code = self.mmi(service, message.body)
            c.send(address, to_client(message.dialect, True, service, [code]))
        elif not c.serves(service):
            c.counts["dropped_elsewhere"] += 1
        elif c.grants.why_not_ask(caller := c.grants.caller(origin, c.config), service, origin.key):
            c.counts["not_allowed"] += 1
        else:
            idempotent = c.policy(service).idempotent
            request = PendingRequest(
                c.token(), address, message.dialect, service, "", message.body, PRIORITY, idempotent, deadline=None
            )
            request.asked_by = c.grants.asker(caller, service, "", origin)
            self._routing.accept(request)

    def mmi(self, service: str, body: Sequence[bytes]) -> bytes:
        """Return the answer to a request for mmi.*: `200` or `404` to mmi.service, `501` to all others."""
        if service != "mmi.service":
            return b"501"
        wanted = body[0].decode("utf-8", "replace") if body else ""
        return b"200" if self._routing.knows(wanted) else b"404"

    def worker(self, address: Address, origin: Origin, message: Message) -> None:
        """Take any message of a worker."""
        session = self._sessions.all.get(address)
        if message.command == "READY":
            self._ready(address, origin, message.dialect, message.service)
        elif message.command == "DISCONNECT":
            if session is not None:
                self._sessions.drop(session)
        elif session is None or not session.is_plain or session.worker is None:
            self._sessions.force(address, message.dialect, "unknown worker")
        elif message.command != "HEARTBEAT":
            final = message.command == "FINAL"
            if not self._routing.reply(session.worker, message.token, message.body, final):
                self._sessions.drop(session)
                self._sessions.disconnect(address, message.dialect)

    def _ready(self, address: Address, origin: Origin, dialect: Dialect, service: str) -> None:
        """Begin the session of a worker: one service, one request at a time; a second READY ends it."""
        c, session = self._c, self._sessions.all.get(address)
        try:
            check_service_names([service])
        except Fault:
            c.failures.add(origin.name, "READY for mmi.*", c.now)
            service = ""
        may_not = c.grants.why_not_offer(c.grants.caller(origin, c.config), [service], origin.key) if service else ""
        if may_not:
            c.counts["not_allowed"] += 1
            c.alarm_once(f"a Majordomo worker at {origin.name} may not offer what it offers: {may_not}")
        allowed = c.config.allow_plain_mdp and c.serves(service) and not may_not
        if session is not None or not service or not allowed:
            if session is not None:
                self._sessions.drop(session)
            self._sessions.disconnect(address, dialect)
            return
        interval = c.config.default_heartbeat_interval
        session = Session(address, origin, dialect, "backend", "", interval, c.now, since=c.now)
        session.worker = worker = Worker(address, dialect, beats_while_busy=False)
        session.ready = True
        self._sessions.enter(session)
        self._routing.pool.offer(worker, [service])
        self._routing.pool.freed(worker)
        self._sessions.beat(session)
        self._routing.serve(service)
