"""What a backend asks of others on its own connection: requests without a second socket, a preference or a retry.

Whoever asks much is a frontend (client.py). Here a request is sent at once or fails, and fails when its broker is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, fail

WAITING = 1_000  # requests without an answer
GRACE = 2.0  # seconds after a request's timeout in which the broker should have said 504 itself


class NotAnswered(Exception):
    """The coded end of a request; codes are those of HTTP."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


@frozen(eq=False)
class _Open:
    answer: Deferred[Sequence[bytes]]
    timer: Any
    parts: list[bytes]


class Asking:
    """`tell(options, body)` sends a REQUEST; False if it found no room."""

    def __init__(self, reactor: Any, tell: Callable[[dict[str, Any], Sequence[bytes]], bool]) -> None:
        self._reactor, self._tell = reactor, tell
        self._numbers = itertools.count(1)
        self._open: dict[str, _Open] = {}

    def ask(self, service: str, body: Sequence[bytes], timeout: float, can: bool) -> Deferred[Sequence[bytes]]:
        """The body of the answer, parts first."""
        if not can or len(self._open) >= WAITING:
            return fail(NotAnswered(503, "no_broker") if not can else NotAnswered(429, "too_many"))
        number = f"a{next(self._numbers)}"
        timer = self._reactor.callLater(timeout + GRACE, self._fail, number, 504, "deadline")
        answer: Deferred[Sequence[bytes]] = Deferred(lambda _: self._forget(number))
        self._open[number] = _Open(answer, timer, [])
        if not self._tell({"id": number, "service": service, "timeout_ms": int(1000 * timeout)}, body):
            self._fail(number, 429, "too_many")
        return answer

    def answered(self, command: str, o: Any, body: Sequence[bytes]) -> None:
        """PARTIAL or FINAL."""
        found = self._open.get(o.id)
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
        """There is no broker any more."""
        for number in list(self._open):
            self._fail(number, 503, reason)

    def _fail(self, number: str, code: int, reason: str) -> None:
        found = self._open.get(number)
        if found is not None:
            self._forget(number)
            found.answer.errback(NotAnswered(code, reason))

    def _forget(self, number: str) -> None:
        found = self._open.pop(number, None)
        if found is not None and found.timer.active():
            found.timer.cancel()
