"""Writes long answers in pieces, in short turns and as fast as the client reads.

A fleet of 10,000 must not hold the reactor up, and rows that a client has not read yet are not made yet, but for a
piece: a slow client costs no memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.internet.task import CooperativeTask
from twisted.python.failure import Failure
from zope.interface import implementer

from helen.web.answers import Document
from helen.web.connections.packed import begin_packed
from helen.web.connections.short_turns import ROWS_A_STEP, cooperate
from helen.web.etags import answer_known, tag_of
from helen.web.request import ApiRequest

T = TypeVar("T")
Write = Callable[[bytes], object]
Pieces = Callable[[Write, Callable[[], bool]], Iterator[None]]


TAKE_SECONDS = 60.0  # that a client may take for a piece, some 64 KiB: it has one of the connections of all


@implementer(IPushProducer)
class Pace:
    """Lets a task go on while the connection takes what it writes, and cuts one that takes no piece in TAKE_SECONDS."""

    def __init__(self, task: CooperativeTask[Iterator[None]], request: ApiRequest) -> None:
        self._task, self._request = task, request
        self._is_paused = self._is_over = False
        self._cut: Any = None

    def pauseProducing(self) -> None:
        """Pause the task: the connection takes no more."""
        if not self._is_paused and not self._is_over:
            self._is_paused = True
            self._cut = self._request.later(TAKE_SECONDS, self._request.cut)
            self._task.pause()

    def resumeProducing(self) -> None:
        """Let the task go on."""
        if self._is_paused:
            self._stop_waiting()
            self._task.resume()

    def stopProducing(self) -> None:
        """Let the task go on: it finds by itself that the connection is gone, and ends."""
        self.resumeProducing()

    def end(self) -> None:
        """Cut nothing any more: the task is done, and what the connection brings next is another request's."""
        self._is_over = True
        if self._is_paused:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._is_paused = False
        if self._cut.active():
            self._cut.cancel()


def write_rows(
    request: ApiRequest, key: str, things: Iterable[T], show: Callable[[T], Document], more: Document | None = None,
    whole: bool = False,
) -> Deferred[bytes]:  # fmt: skip
    """Answer with {key: [show(thing), ...], **more}. With `whole` it is collected first, and has a tag."""

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        return _write(write, key, list(things), show, more or {}, is_gone)

    return write_pieces(request, pieces, whole)


def write_pieces(
    request: ApiRequest, pieces: Pieces, whole: bool, kind: str = "application/json", may_pack: bool = False
) -> Deferred[bytes]:
    """Answer with the text that `pieces(write, is_gone)` writes, a step of it a turn. With `whole` it gets a tag.

    With `may_pack` it is sent as gzip to a client that takes that. Nothing that is secret may be in such an answer: who
    sees its length, and can put text of theirs beside the secret, could find it out letter by letter.
    """
    request.setHeader("content-type", kind)
    gone: list[object] = []
    request.notifyFinish().addErrback(gone.append)
    kept: list[bytes] = []
    send: Write = kept.append if whole else request.write
    packing = begin_packed(request) if may_pack else None
    write = send if packing is None else lambda piece: send(packing.block(piece))
    task = cooperate(pieces(write, lambda: bool(gone)))
    pace = Pace(task, request)
    if not whole:
        request.registerProducer(pace, True)

    def leave(result: T) -> T:
        """Let go of the connection, also after a failure: nothing cuts it later."""
        pace.end()
        if packing is not None and not gone and not isinstance(result, Failure):
            send(packing.end())
        if not whole and not gone:
            request.unregisterProducer()
        return result

    def finish(_: object) -> bytes:
        body = b"".join(kept)
        return b"" if whole and not gone and answer_known(request, tag_of(body)) else body

    done: Deferred[bytes] = Deferred()
    task.whenDone().addBoth(leave).addCallback(finish).addCallbacks(done.callback, done.errback)
    return done


def _write(
    write: Write, key: str, things: list[T], show: Callable[[T], Document], more: Document,
    is_gone: Callable[[], bool],
) -> Iterator[None]:  # fmt: skip
    write(f'{{"{key}": ['.encode())
    for at in range(0, len(things), ROWS_A_STEP):
        if is_gone():
            return
        rows = ",\n".join(json.dumps(show(thing), ensure_ascii=False) for thing in things[at : at + ROWS_A_STEP])
        write((",\n" if at else "").encode() + rows.encode("utf-8", "replace"))
        yield
    if not is_gone():
        rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
        write(f"]{rest}}}\n".encode())
