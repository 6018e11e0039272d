"""Defines what Helen tells the process that answers questions, and frames it: a length of four bytes, then MessagePack.

Data comes in pieces, so that no piece holds up the reactor of the process that packs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

HEAD = 4  # bytes of a length
MOST_FRAME = 64 * 1024 * 1024
PIECE = 200  # agents or results of one frame


class Metric(Struct, frozen=True, gc=False):
    """Holds one figure of a result, as the segments have it."""

    name: str
    value: float | None
    unit: str
    kind: str
    labels: list[tuple[str, str]]


class Unsealed(Struct, frozen=True, gc=False):
    """Holds a result that may be in no segment yet. Times are unix seconds; a metric as the segments have it."""

    at: int
    agent: str
    check_id: str
    received: float
    started: float | None
    took_ms: float | None
    status: int
    metrics: list[Metric]


class Told(Struct, frozen=True):
    """Holds a piece of what the answer is made from: labels that steer of some agents, and results."""

    agents: list[tuple[str, dict[str, str]]] = []
    results: list[Unsealed] = []


class Asked(Struct, frozen=True):
    """Holds the question, behind all pieces. `now` is unix seconds; `on` are patterns of agents, None for no limit."""

    path: str
    given: dict[str, list[str]]
    now: float
    on: list[str] | None
    state: str
    lake: str


class Answered(Struct, frozen=True):
    """Holds an answer. `fault` is the trace of an error that nothing foresaw; `is_last`: the process ends now."""

    status: int
    body: bytes
    fault: str = ""
    is_last: bool = False


class Frame(Struct, frozen=True):
    """Holds one frame to the process: a piece, or the question."""

    told: Told | None = None
    asked: Asked | None = None


def frames(agents: Iterable[tuple[str, dict[str, str]]], results: Iterable[Unsealed], asked: Asked) -> Iterator[bytes]:
    """Yield the frames of one question, some hundred microseconds each."""
    for piece in _pieces(agents):
        yield packed(Frame(told=Told(agents=piece)))
    for found in _pieces(results):
        yield packed(Frame(told=Told(results=found)))
    yield packed(Frame(asked=asked))


def packed(message: Struct) -> bytes:
    """Return a message as a frame. Half a surrogate pair in a text, which UTF-8 has no form for, becomes `?`."""
    try:
        body = msgspec.msgpack.encode(message)
    except UnicodeEncodeError:
        body = msgspec.msgpack.encode(_sound(msgspec.to_builtins(message)))
    return len(body).to_bytes(HEAD) + body


def read_frame(source: BinaryIO) -> bytes | None:
    """Return the next frame of a pipe; None at its end."""
    head = source.read(HEAD)
    if len(head) < HEAD:
        return None
    length = int.from_bytes(head)
    body = source.read(length) if length <= MOST_FRAME else b""
    return body if len(body) == length else None


def _pieces(things: Iterable[Any]) -> Iterator[list[Any]]:
    source = iter(things)
    while piece := list(islice(source, PIECE)):
        yield piece


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    return [_sound(item) for item in value] if isinstance(value, Sequence) and not isinstance(value, bytes) else value
