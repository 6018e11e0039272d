"""Bring Helen's answers to those who asked: by message id, and within a time if they want one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from equus_protocol import messages as m

ANSWER_WITHIN = 30.0  # seconds for the answer to a question, without a byte of it; docs/protocol.rst section 5
MAX_ID = 2**31 - 1


class Unanswered(Exception):
    """Report that Helen has not answered a question within ANSWER_WITHIN, though the connection lives."""


class Questions:
    """Holds the unanswered questions of one connection, and gives out its message ids.

    `later` and `cancel` set and end a timer by its name; `has_begun` returns True while part of an answer has come.
    """

    def __init__(
        self,
        clock: Any,
        later: Callable[[str, float, Callable[[], Any]], None],
        cancel: Callable[[str], None],
        has_begun: Callable[[], bool],
    ) -> None:
        self._clock, self._later, self._cancel, self._has_begun = clock, later, cancel, has_begun
        self._asked: dict[int, Deferred[Any]] = {}
        self._overdue: set[int] = set()  # ids of questions that were given up; their answers may still come
        self._answered_at = clock.seconds()  # when the last answer came
        self._last_id = 0

    def next_id(self) -> int:
        """Return a message id that was not used for a long time: they run from 1 to MAX_ID, and round again."""
        self._last_id = self._last_id % MAX_ID + 1
        return self._last_id

    def ask(
        self, make: Callable[[int], m.Message], send: Callable[[m.Message], None], within: float | None
    ) -> Deferred[Any]:
        """Send a request, made with the next id, and return its answer.

        With `within` seconds of the reactor's clock it fails with Unanswered if none comes in time, and at once while
        an older one is overdue.
        """
        if within is not None and self._overdue:  # each question takes up an id until it is answered, and there are 64
            return fail(Unanswered())
        message_id = self.next_id()
        answer: Deferred[Any] = Deferred()
        self._asked[message_id] = answer
        send(make(message_id))
        if within is not None:
            self._later(f"question {message_id}", within, lambda: self._give_up(message_id, within))
        return answer

    def answered(self, message_id: int, message: m.Message) -> None:
        """Give an answer to who asked, if it was not given up."""
        self._answered_at = self._clock.seconds()
        self._overdue.discard(message_id)
        self._cancel(f"question {message_id}")
        if (waiting := self._asked.pop(message_id, None)) is not None:
            waiting.callback(message)

    def fail_all(self, reason: Failure) -> None:
        """Fail all questions that are unanswered, because the connection is lost."""
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            waiting.errback(reason)

    def forgive(self) -> None:
        """Give all questions their full time again, because this agent slept."""
        self._answered_at = self._clock.seconds()

    def _give_up(self, message_id: int, within: float) -> None:
        """End a question, unless an answer to another one has come since, or a blob is on its way."""
        left = self._answered_at + within - self._clock.seconds()
        if self._has_begun():
            left = max(left, 1.0)
        if left > 0:
            self._later(f"question {message_id}", left, lambda: self._give_up(message_id, within))
            return
        self._overdue.add(message_id)
        self._asked.pop(message_id).errback(Unanswered())
