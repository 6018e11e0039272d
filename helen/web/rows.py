"""Long lists as one JSON document, written a few rows a turn: a fleet of 10,000 agents must not hold the reactor up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import cooperate

from helen.web.tags import answer_known, tag_of

ROWS_A_TURN = 50  # some 20 us each


Write = Callable[[bytes], object]


def write_rows(
    request: Any, key: str, things: Iterable[Any], show: Callable[[Any], Any], more: dict[str, Any] | None = None,
    whole: bool = False,
) -> Deferred[bytes]:  # fmt: skip
    """Answer with {key: [show(thing), ...], **more}. With `whole` it is collected first, and has a tag."""

    def pieces(write: Write, is_gone: Callable[[], bool]) -> Iterator[None]:
        return _write(write, key, list(things), show, more or {}, is_gone)

    return write_pieces(request, pieces, whole)


def write_pieces(
    request: Any, pieces: Callable[[Write, Callable[[], bool]], Iterator[None]], whole: bool
) -> Deferred[bytes]:  # fmt: skip
    """Answer with the JSON that `pieces(write, is_gone)` writes, a step of it a turn."""
    request.setHeader("content-type", "application/json")
    gone: list[Any] = []
    request.notifyFinish().addErrback(gone.append)
    kept: list[bytes] = []
    writing = cooperate(pieces(kept.append if whole else request.write, lambda: bool(gone))).whenDone()

    def finish(_: Any) -> bytes:
        body = b"".join(kept)
        return b"" if whole and not gone and answer_known(request, tag_of(body)) else body

    done: Deferred[bytes] = Deferred()
    writing.addCallback(finish).addCallbacks(done.callback, done.errback)
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
