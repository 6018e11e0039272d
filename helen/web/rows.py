"""Long answers in pieces, a few a turn and as fast as they are read: a fleet of 10,000 must not hold the reactor up.

What a reader has not taken yet is not made yet, but for a piece: a slow one costs no memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import CooperativeTask, cooperate
from zope.interface import implementer

from helen.web.tags import answer_known, tag_of

ROWS_A_TURN = 50  # some 20 us each

Write = Callable[[bytes], object]
Pieces = Callable[[Write, Callable[[], bool]], Iterator[None]]


@implementer(IPushProducer)
class Pace:
    """Lets a task go on while the connection takes what it writes."""

    def __init__(self, task: CooperativeTask) -> None:
        self._task = task
        self._is_paused = False

    def pauseProducing(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._task.pause()

    def resumeProducing(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._task.resume()

    def stopProducing(self) -> None:
        """The connection is gone: the task looks for itself, and ends."""
        self.resumeProducing()


def write_rows(
    request: Any, key: str, things: Iterable[Any], show: Callable[[Any], Any], more: dict[str, Any] | None = None,
    whole: bool = False,
) -> Deferred[bytes]:  # fmt: skip
    """Answer with {key: [show(thing), ...], **more}. With `whole` it is collected first, and has a tag."""

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        return _write(write, key, list(things), show, more or {}, is_gone)

    return write_pieces(request, pieces, whole)


def write_pieces(request: Any, pieces: Pieces, whole: bool) -> Deferred[bytes]:
    """Answer with the JSON that `pieces(write, is_gone)` writes, a step of it a turn."""
    request.setHeader("content-type", "application/json")
    gone: list[Any] = []
    request.notifyFinish().addErrback(gone.append)
    kept: list[bytes] = []
    task = cooperate(pieces(kept.append if whole else request.write, lambda: bool(gone)))
    if not whole:
        request.registerProducer(Pace(task), True)

    def finish(_: Any) -> bytes:
        if not whole and not gone:
            request.unregisterProducer()
        body = b"".join(kept)
        return b"" if whole and not gone and answer_known(request, tag_of(body)) else body

    done: Deferred[bytes] = Deferred()
    task.whenDone().addCallback(finish).addCallbacks(done.callback, done.errback)
    return done


def _write(
    write: Write, key: str, things: list[Any], show: Callable[[Any], Any], more: dict[str, Any],
    is_gone: Callable[[], bool],
) -> Iterator[None]:  # fmt: skip
    write(f'{{"{key}": ['.encode())
    for at in range(0, len(things), ROWS_A_TURN):
        if is_gone():
            return
        rows = ",\n".join(json.dumps(show(thing), ensure_ascii=False) for thing in things[at : at + ROWS_A_TURN])
        write((",\n" if at else "").encode() + rows.encode("utf-8", "replace"))
        yield
    if not is_gone():
        rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
        write(f"]{rest}}}\n".encode())
