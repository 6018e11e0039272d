"""Long lists as one JSON document, written a few rows a turn: a fleet of 10,000 agents must not hold the reactor up."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import cooperate

from helen.web.tags import answer_known, tag_of

ROWS_A_TURN = 50  # some 20 us each


def write_rows(
    request: Any, key: str, things: Iterable[Any], show: Callable[[Any], Any], more: dict[str, Any] | None = None,
    whole: bool = False,
) -> Deferred[bytes]:  # fmt: skip
    """Answer with {key: [show(thing), ...], **more}. With `whole` it is collected first, and has a tag."""
    request.setHeader("content-type", "application/json")
    gone: list[Any] = []
    request.notifyFinish().addErrback(gone.append)
    done: Deferred[bytes] = Deferred()
    kept: list[bytes] = []
    write = kept.append if whole else request.write
    writing = cooperate(_write(write, key, list(things), show, more or {}, gone)).whenDone()

    def finish(_: Any) -> None:
        body = b"".join(kept)
        done.callback(b"" if whole and not gone and answer_known(request, tag_of(body)) else body)

    writing.addCallbacks(finish, done.errback)
    return done


def _write(
    write: Callable[[bytes], Any], key: str, things: list[Any], show: Callable[[Any], Any], more: dict[str, Any],
    gone: list[Any],
) -> Iterator[None]:  # fmt: skip
    write(f'{{"{key}": ['.encode())
    for at in range(0, len(things), ROWS_A_TURN):
        if gone:
            return
        rows = ",\n".join(json.dumps(show(thing), ensure_ascii=False) for thing in things[at : at + ROWS_A_TURN])
        write((",\n" if at else "").encode() + rows.encode("utf-8", "replace"))
        yield
    if not gone:
        rest = "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in more.items())
        write(f"]{rest}}}\n".encode())
