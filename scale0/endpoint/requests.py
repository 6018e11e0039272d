"""Sends the requests of a backend on its own connection, without a second socket, a priority or a retry.

A program with many requests is a frontend (client.py). Here a request is sent at once or fails, and fails when its
broker is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, fail

WAITING = 1_000  # requests without an answer
GRACE = 2.0  # seconds after a request's timeout in which the broker should have said 504 itself


class NotAnswered(Exception):
    """Reports a request that failed; codes are those of HTTP."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


@define(eq=False)
class _Pending:
    answer: Deferred[Sequence[bytes]]
    timer: Any
    parts: list[bytes]


def is_late(reactor: Any, timer: Any) -> bool:
    """Return True if a timer fires so late that this process must have stood still: what has come is read first."""
    return bool(reactor.seconds() - timer.getTime() > GRACE)


class OutgoingRequests:
    """Holds the requests without an answer. `tell(options, body)` sends a REQUEST, and returns False without room."""

    def __init__(self, reactor: Any, tell: Callable[[dict[str, Any], Sequence[bytes]], bool]) -> None:
        self._reactor, self._tell = reactor, tell
        self._numbers = itertools.count(1)
        self._pending: dict[str, _Pending] = {}

    def ask(self, service: str, body: Sequence[bytes], timeout: float, active: bool) -> Deferred[Sequence[bytes]]:
        """Send a request; the Deferred fires with the body of the answer, parts first, or with NotAnswered.

        `timeout` is in seconds. `active`: there is a broker; without one the request fails at once.
        """
        if not active or len(self._pending) >= WAITING:
            return fail(NotAnswered(503, "no_broker") if not active else NotAnswered(429, "too_many"))
        number = f"a{next(self._numbers)}"
        timer = self._reactor.callLater(timeout + GRACE, self._expire, number)
        answer: Deferred[Sequence[bytes]] = Deferred(lambda _: self._forget(number))
        self._pending[number] = _Pending(answer, timer, [])
        if not self._tell({"id": number, "service": service, "timeout_ms": int(1000 * timeout)}, body):
            self._fail(number, 429, "too_many")
        return answer

    def answered(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        """Take a PARTIAL or FINAL; one for a request that has ended is dropped."""
        found = self._pending.get(o.id)
        if found is None:
            return
        if command == "PARTIAL":
            found.parts.extend(body)
        elif o.code >= 400:
            self._fail(o.id, o.code, o.reason)
        else:
            self._forget(o.id)
            found.answer.callback([*found.parts, *body])

    def lost(self, reason: str) -> None:
        """Fail all requests, as their broker is lost."""
        for number in list(self._pending):
            self._fail(number, 503, reason)

    def _expire(self, number: str) -> None:
        found = self._pending.get(number)
        if found is not None and is_late(self._reactor, found.timer):
            found.timer = self._reactor.callLater(GRACE, self._expire, number)
        else:
            self._fail(number, 504, "deadline")

    def _fail(self, number: str, code: int, reason: str) -> None:
        found = self._pending.get(number)
        if found is not None:
            self._forget(number)
            found.answer.errback(NotAnswered(code, reason))

    def _forget(self, number: str) -> None:
        found = self._pending.pop(number, None)
        if found is not None and found.timer.active():
            found.timer.cancel()
