"""Peers that speak Majordomo and nothing else: what a client asks, what a worker says. Pure: a part of the broker.

RFC 7 and RFC 18 have no errors: what can't be served is dropped, and counted; and a worker that is out of turn is told
DISCONNECT, upon which it opens a new socket and begins again. `mmi.*` (RFC 8) is answered by the broker itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from scale0.context import Context
from scale0.fellows import Fellows
from scale0.frames import Message, to_client
from scale0.lru import Address
from scale0.queues import Row
from scale0.routing import Routing
from scale0.sessions import Sessions
from scale0.zap import Origin

PRIORITY = 4  # of requests that can't name one: the middle


class Majordomo:
    def __init__(self, context: Context, sessions: Sessions, routing: Routing, fellows: Fellows) -> None:
        self._c, self._sessions, self._routing, self._fellows = context, sessions, routing, fellows

    def request(self, address: Address, message: Message) -> None:
        c, service = self._c, message.service
        if not c.config.allow_plain_mdp:
            c.counts["dropped_plain"] += 1
        elif service.startswith("mmi."):
            code = self.mmi(service, message.body)
            c.send(address, to_client(message.dialect, True, service, [code]))
        elif not c.serves(service):
            c.counts["dropped_elsewhere"] += 1
        else:
            idempotent = c.policy(service).idempotent
            row = Row(
                c.token(), address, message.dialect, service, "", message.body, PRIORITY, idempotent, deadline=None
            )
            self._routing.accept(row)

    def mmi(self, service: str, body: Sequence[bytes]) -> bytes:
        """RFC 8. Nobody but the broker answers mmi.*"""
        if service != "mmi.service":
            return b"501"
        wanted = body[0].decode("utf-8", "replace") if body else ""
        return b"200" if self._fellows.knows(wanted) else b"404"

    def worker(self, address: Address, origin: Origin, message: Message) -> None:
        session = self._sessions.all.get(address)
        if message.command == "READY":
            self._sessions.plain_ready(address, origin, message.dialect, message.service)
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
