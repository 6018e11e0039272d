"""Reads the bodies of clients: a JSON body becomes a typed value. Each fault is a Problem with status 400 or 413.

A route declares its body as a class of `Body`. The types of its fields, of helen/web/body_fields.py, say how each is
read and, for OpenAPI, what it may hold, so that a field is named in one place.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, ParamSpec, TypeVar, get_type_hints

import msgspec
from twisted.internet.threads import deferToThread

from equus_protocol.long_text import has_more_parts
from helen.web.body_fields import AS_IT_IS, Flag, Json, Reads, read_flag
from helen.web.problems import Problem, bad_request
from helen.web.request import MAX_BODY, ApiRequest

AT_ONCE = 65_536  # bytes of JSON: about a millisecond; greater ones are read in a thread
# Commas, [ and { outside of strings, of JSON: 10,000 checks as [AGENT, CHECK] have 30,000.
MAX_BODY_PARTS = 40_960


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Declares the fields that a write takes; each write takes a dry run."""

    dry_run: Flag = False

    def touched_agents(self) -> tuple[str, ...]:
        """Return the names of agents that are touched; a caller with a limit that leaves one out is refused."""
        agent = getattr(self, "agent", None)
        return (agent,) if isinstance(agent, str) else ()


B = TypeVar("B", bound=Body)
P = ParamSpec("P")
R = TypeVar("R")


async def read_body(request: ApiRequest, kind: type[B]) -> B:
    """Return the body of a request as its class; `dry_run` may come in the query as well. Raises Problem."""
    raw = await read_json(request)
    body = read_as(kind, raw)
    return msgspec.structs.replace(body, dry_run=wants_dry_run(request, raw))


def read_as(kind: type[B], raw: Json) -> B:
    """Return a JSON object as a class of Body. Raises Problem for the first field that can't be read.

    A field without a default is read even if it is missing, so that its reader says so.
    """
    values = {}
    for field, reads in declared_fields(kind):
        if field.required or field.encode_name in raw:
            values[field.name] = reads.reader(raw, field.encode_name)
    return kind(**values)


@cache
def declared_fields(kind: type[Body]) -> list[tuple[msgspec.structs.FieldInfo, Reads]]:
    """Return each field of a body, and how it is read: as it is, unless its type says more."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        (field, next((each for each in _marks(hints[field.name]) if isinstance(each, Reads)), AS_IT_IS))
        for field in msgspec.structs.fields(kind)
    ]


def _marks(hint: Any) -> tuple[object, ...]:
    return getattr(hint, "__metadata__", ())


async def read_json(request: ApiRequest) -> dict[str, Any]:
    """Return the JSON object of a request; an empty body is an empty object. Raises Problem for anything else."""
    raw = request.content.read(MAX_BODY + 1) if request.content is not None else b""
    if len(raw) > MAX_BODY:
        raise Problem(413, "too large", f"a request holds at most {MAX_BODY} bytes")
    return _read_object(raw) if len(raw) <= AT_ONCE else await deferToThread(_read_object, raw)


def _read_object(raw: bytes) -> dict[str, Any]:
    body = json_value(raw or b"{}")
    if not isinstance(body, dict):
        raise bad_request("the body is no JSON object")
    return body


async def read_in_time(request: ApiRequest, read: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    """Return the value that `read` makes of a body, which it reads in a thread if that was a great one."""
    is_great = request.content is not None and request.content.tell() > AT_ONCE
    return await deferToThread(read, *given, **named) if is_great else read(*given, **named)


def json_value(raw: bytes) -> Any:
    """Return the JSON of a body. Raises Problem for one of more than MAX_BODY_PARTS, and for anything else.

    One call of the parser holds all other threads until it returns: 169 ms for 8 MiB of long numbers. Great ones are
    UTF-8: in other encodings their parts are not those that were counted.
    """
    if len(raw) > MAX_BODY_PARTS and has_more_parts(raw, MAX_BODY_PARTS):  # a part takes a byte at least
        said = f"the body has more than {MAX_BODY_PARTS} commas, [ and {{ outside of its strings"
        raise Problem(413, "too large", f"{said}: send several smaller ones")
    try:
        return json.loads(raw) if len(raw) <= AT_ONCE else _GREAT.decode(raw.decode())
    except (ValueError, RecursionError) as error:
        raise bad_request(f"the body is no JSON: {error}") from error


def _whole(digits: str) -> int:
    return int(digits)


def _fraction(digits: str) -> float:
    return float(digits)


# Calls a function of ours for each number, and threads take turns at such calls.
_GREAT = json.JSONDecoder(parse_int=_whole, parse_float=_fraction)


def wants_dry_run(request: ApiRequest, body: Json) -> bool:
    """Return True for `"dry_run": true` in the body or `?dry_run=true`, and tell the request. Raises Problem."""
    given = read_flag(body, "dry_run")
    asked = request.args.get(b"dry_run", [b"false"])[-1].lower()
    if asked not in (b"true", b"false", b"1", b"0", b""):
        raise bad_request("`dry_run` is true or false")
    request.is_dry_run = given or asked in (b"true", b"1", b"")
    return request.is_dry_run
