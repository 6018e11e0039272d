"""Reads and writes the frames of each dialect that a broker's sockets take. Pure.

Which command is allowed when is decided elsewhere (scale0/broker); here a message only has a form.

| Next frame after the routing id | Dialect |                                      |
|---------------------------------|---------|--------------------------------------|
| empty + MDPC01 / MDPW01         | D1      | RFC 7                                |
| MDPC02 / MDPW02                 | D2      | RFC 18                               |
| empty + MDPC02 / MDPW02         | D2E     | RFC 18 as majortomo's worker has it  |
| SCALE0, empty + SCALE0          | S0, S0E | ours; options are JSON (options.py)  |

Anything else is a MalformedMessage. Replies go out in the form received, with the leading empty frame or without.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs

MAX_SERVICE_NAME = 255  # bytes; the length of a ZeroMQ routing id and of a DNS name, long enough for any agent's name

EMPTY = b""
SCALE0 = b"SCALE0"
VERSION = b"\x01"
CLIENT1, WORKER1 = b"MDPC01", b"MDPW01"
CLIENT2, WORKER2 = b"MDPC02", b"MDPW02"


class Dialect(enum.Enum):
    """Names one row of the table above; a session answers in the dialect that the other side began with."""

    D1 = "MDP/0.1"
    D2 = "MDP/0.2"
    D2E = "MDP/0.2 with a leading empty frame"
    S0 = "SCALE0"
    S0E = "SCALE0 with a leading empty frame"


D1, D2, D2E, S0, S0E = Dialect
PLAIN = frozenset({D1, D2, D2E})


class Side(enum.Enum):
    """Names the sender's side, as Majordomo's headers tell it; Scale0's own header says EITHER."""

    CLIENT = "client"
    WORKER = "worker"
    EITHER = "scale0"


CLIENT, WORKER, EITHER = Side


class MalformedMessage(Exception):
    """Reports frames that no dialect has; the text says what is wrong with them."""


@attrs.frozen
class Message:
    """Holds one message of any dialect, its options not decoded yet."""

    dialect: Dialect
    side: Side
    command: str
    service: str = ""  # REQUEST and READY of Majordomo
    token: bytes = b""  # the address frame of a Majordomo worker's reply
    version: int = 1  # of Scale0
    options: bytes = b""  # of Scale0, not yet decoded
    body: Sequence[bytes] = ()


_WORKER1 = {b"\1": "READY", b"\3": "FINAL", b"\4": "HEARTBEAT", b"\5": "DISCONNECT"}
_WORKER2 = {b"\1": "READY", b"\3": "PARTIAL", b"\4": "FINAL", b"\5": "HEARTBEAT", b"\6": "DISCONNECT"}
_TO_WORKER1 = {"REQUEST": b"\2", "HEARTBEAT": b"\4", "DISCONNECT": b"\5"}
_TO_WORKER2 = {"REQUEST": b"\2", "HEARTBEAT": b"\5", "DISCONNECT": b"\6"}


# ------------------------------------------------------------------------------------------ reading


def parse(frames: Sequence[bytes]) -> Message:
    """Return the message in these frames, from which the routing id is already taken off.

    Raises MalformedMessage if no dialect has such frames.
    """
    leads = bool(frames) and not frames[0]
    at = 1 if leads else 0
    if len(frames) <= at:
        raise MalformedMessage("no header")
    header = frames[at]
    if header == SCALE0:
        return _parse_scale0(frames, at + 1, S0E if leads else S0)
    if header == CLIENT2:
        return _parse_client2(frames, at + 1, D2E if leads else D2)
    if header == WORKER2:
        return _parse_worker(frames, at + 1, D2E if leads else D2, _WORKER2)
    if not leads:
        raise MalformedMessage(f"unsupported dialect: {header[:16]!r}")
    if header == CLIENT1:
        return _parse_request(frames, 2, D1)
    if header == WORKER1:
        return _parse_worker(frames, 2, D1, _WORKER1)
    raise MalformedMessage(f"unsupported dialect: {header[:16]!r}")


def _parse_scale0(frames: Sequence[bytes], at: int, dialect: Dialect) -> Message:
    rest = frames[at:]
    if len(rest) < 3 or len(rest[0]) != 1:
        raise MalformedMessage("SCALE0 is followed by a version of one byte, a command and options")
    return Message(
        dialect,
        EITHER,
        rest[1][:64].decode("ascii", "replace"),
        version=rest[0][0],
        options=rest[2],
        body=rest[3:],
    )


def _parse_client2(frames: Sequence[bytes], at: int, dialect: Dialect) -> Message:
    if len(frames) <= at or frames[at] != b"\1":
        raise MalformedMessage("a client of MDP/0.2 sends REQUEST and nothing else")
    return _parse_request(frames, at + 1, dialect)


def _parse_request(frames: Sequence[bytes], at: int, dialect: Dialect) -> Message:
    if len(frames) < at + 2:
        raise MalformedMessage("a request has a service and at least one frame of body")
    return Message(dialect, CLIENT, "REQUEST", service=_service(frames[at]), body=frames[at + 1 :])


def _parse_worker(frames: Sequence[bytes], at: int, dialect: Dialect, commands: dict[bytes, str]) -> Message:
    command = commands.get(frames[at]) if len(frames) > at else None
    rest = frames[at + 1 :]
    if command in ("FINAL", "PARTIAL"):
        if len(rest) < 3 or rest[1]:
            raise MalformedMessage("a reply has an address, an empty frame and at least one frame of body")
        return Message(dialect, WORKER, command, token=rest[0], body=rest[2:])
    if command == "READY":
        if len(rest) != 1:
            raise MalformedMessage("READY has one service")
        return Message(dialect, WORKER, command, service=_service(rest[0]))
    if command is None or rest:
        raise MalformedMessage("no command of a worker")
    return Message(dialect, WORKER, command)


def _service(raw: bytes) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedMessage("a service name is UTF-8") from None
    if not is_service_name(name):
        raise MalformedMessage(f"a service name has 1 to {MAX_SERVICE_NAME} bytes and no control characters")
    return name


def is_service_name(name: str) -> bool:
    """Return True for a name that may be offered or asked for: it has to be printable on a terminal and in a log."""
    return 0 < len(name.encode("utf-8", "replace")) <= MAX_SERVICE_NAME and name.isprintable()


# ------------------------------------------------------------------------------------------ writing


def scale0(dialect: Dialect, command: str, options: bytes, body: Sequence[bytes] = ()) -> list[bytes]:
    """Return the frames of a Scale0 message; `options` are encoded already."""
    lead = [EMPTY, SCALE0] if dialect is S0E else [SCALE0]
    return [*lead, VERSION, command.encode("ascii"), options, *body]


def to_client(dialect: Dialect, final: bool, service: str, body: Sequence[bytes]) -> list[bytes]:
    """Return the frames of PARTIAL or FINAL for a Majordomo client; MDP/0.1 knows only FINAL.

    An empty body becomes one empty frame, since the RFCs require a body.
    """
    name, body = service.encode("utf-8"), body or (EMPTY,)
    if dialect is D1:
        return [EMPTY, CLIENT1, name, *body]
    mark = b"\3" if final else b"\2"
    return [EMPTY, CLIENT2, mark, name, *body] if dialect is D2E else [CLIENT2, mark, name, *body]


def to_worker(dialect: Dialect, command: str, token: bytes = b"", body: Sequence[bytes] = ()) -> list[bytes]:
    """Return the frames of REQUEST, HEARTBEAT or DISCONNECT for a Majordomo worker."""
    if dialect is D1:
        start = [EMPTY, WORKER1, _TO_WORKER1[command]]
    elif dialect is D2E:
        start = [EMPTY, WORKER2, _TO_WORKER2[command]]
    else:
        start = [WORKER2, _TO_WORKER2[command]]
    return [*start, token, EMPTY, *(body or (EMPTY,))] if command == "REQUEST" else start
