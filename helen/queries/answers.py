"""Reads answers of agents for the queries that wait for them, great ones in a thread.

To read and to write a result of 1 MiB takes up to some 100 ms. The reactor does neither: a thread makes all that is to
be said of the outcome. Great answers are read one after the other, because threads that compete for the interpreter
make the reactor wait for each of them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from equus_protocol.long_text import PIECE
from equus_protocol.result_fields import ResultDocument
from equus_protocol.results import parse
from helen.queries.job_outcomes import ANSWER_MOST, fit
from helen.queries.live_queries import LiveQueries, PendingAnswer, Target, answered

READ_AT_ONCE = 16_384  # bytes of an answer: mostly a fifth of a millisecond; greater ones are read in a thread
WAITING_MOST = 64 * 1024 * 1024  # bytes of answers that wait to be read, as many as may wait for the client
TOO_MUCH = "Helen had too many great answers to read at once: ask fewer agents, or for less"

_encode = json.JSONEncoder(ensure_ascii=False).encode
Read = Callable[[bytes], ResultDocument]


@define(eq=False)
class Answers:
    """Reads answers, and settles them. A query that ends meanwhile is told nothing, and an answer to it is not read."""

    _queries: LiveQueries
    _great: deque[tuple[PendingAnswer, bytes, Read]] = field(factory=deque, init=False)  # those that wait, in order
    _is_reading: bool = field(default=False, init=False)
    _waiting: int = field(default=0, init=False)  # bytes, with those of the one that is read

    def settle(self, answer: PendingAnswer, blob: bytes, read: Read = parse) -> None:
        """Give a query the outcome of an answer. `read` is called with the blob, in a thread if it is a great one."""
        if len(blob) <= READ_AT_ONCE:
            self._queries.settle(answer, answered(answer.agent, read(blob), blob))
        elif self._waiting + len(blob) > WAITING_MOST:
            self._queries.settle(answer, Target(answer.agent, "failed", why=TOO_MUCH))
        else:
            self._waiting += len(blob)
            self._great.append((answer, blob, read))
            if not self._is_reading:
                Deferred.fromCoroutine(self._read_great())

    async def _read_great(self) -> None:
        """Read one after the other until none waits. Thousands may be passed over in a row: so it is a loop."""
        self._is_reading = True
        try:
            while self._great:
                answer, blob, read = self._great.popleft()
                try:
                    if self._queries.awaits(answer):
                        target = await deferToThread(_made, answer.agent, blob, read)
                        self._queries.settle(answer, target)
                except Exception:
                    self._queries.spoilt(answer)
                finally:
                    self._waiting -= len(blob)
        finally:
            self._is_reading = False


def _made(agent: str, blob: bytes, read: Read) -> Target:
    """Return an outcome with all that is said of it. It blocks; call it in a thread."""
    target = answered(agent, read(blob), blob)
    shown = target.to_json()
    line = json_in_pieces(shown).encode("utf-8", "replace") + b"\n"
    return evolve(target, line=line, short=fit(shown, ANSWER_MOST, _brief_line))


def json_in_pieces(value: Any, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Return what `json.dumps` makes of a value, by a call for each part: one for all holds all threads."""
    comma, colon = separators
    if isinstance(value, dict):
        parts = [_encode(key) + colon + json_in_pieces(inner, separators) for key, inner in value.items()]
        return "{" + comma.join(parts) + "}"
    if isinstance(value, list):
        return "[" + comma.join([json_in_pieces(inner, separators) for inner in value]) + "]"
    if isinstance(value, str) and len(value) > PIECE:
        starts = range(0, len(value), PIECE)
        return '"' + "".join([_encode(value[start : start + PIECE])[1:-1] for start in starts]) + '"'
    return _encode(value)


def _brief_line(document: dict[str, Any]) -> bytes:
    return json_in_pieces(document, (",", ":")).encode("utf-8", "replace") + b"\n"
