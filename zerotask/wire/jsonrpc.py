"""Reads and writes the texts of JSON-RPC 2.0: requests, notifications, batches and responses.

Pure; it knows no method of ZeroTask. A text is decoded whole before any part of it counts, so the JSON that a broker
stores and passes on can be read by every reader: no NaN, no lone surrogate, no number beyond a double, nothing nested
deeper than MAX_DEPTH. An id is kept as its text and goes back unchanged.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from attrs import frozen
from msgspec import UNSET, Raw, Struct, UnsetType

from zerotask.errors import INVALID_REQUEST, PARSE, RpcError

# One frame: the sockets' own limit (MAXMSGSIZE), kept here too because links inside a process have no socket.
MAX_TEXT = 8 * 1024 * 1024
# Elements of one batch. A frame of the maximal size could hold 200,000; each may cost a row and a reply.
MAX_BATCH = 1_000
# Nesting of arrays and objects; the number is the product's limit for JSON and far below any decoder's stack.
MAX_DEPTH = 64
# Arrays and objects of one text: each costs a hundred bytes and a microsecond of the reactor. Without a limit 8 MiB of
# [] would stop a broker for seconds.
MAX_PARTS = 100_000

NULL = b"null"


class Call(Struct, frozen=True):
    """Holds a request, or a notification if `id` is None. `id` is JSON text."""

    method: str
    params: list[Any] | dict[str, Any]
    id: bytes | None


@frozen
class Fault:
    """Holds the error for a text, or a part of a batch, that is no request."""

    id: bytes
    error: RpcError


class Incoming(Struct, frozen=True):
    """Holds the calls and faults of one text. A text that is no JSON is one Fault and no batch."""

    entries: tuple[Call | Fault, ...]
    batch: bool


@frozen
class Response:
    """Holds an answer as a client reads it: `error` is None exactly if there is a result."""

    id: Any
    result: Any
    error: RpcError | None


class _Request(msgspec.Struct):
    jsonrpc: str
    method: str
    params: list[Any] | dict[str, Any] | UnsetType = UNSET
    id: Raw | UnsetType = UNSET


class _Identified(msgspec.Struct):
    id: Raw | UnsetType = UNSET


class _Result(msgspec.Struct):
    jsonrpc: str
    result: Any
    id: Raw


class _Error(msgspec.Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class _Failure(msgspec.Struct):
    jsonrpc: str
    error: _Error
    id: Raw


class _Outgoing(msgspec.Struct, omit_defaults=True):
    """Lays out requests and notifications. The order of the fields is that on the wire: subscribers rely on it."""

    jsonrpc: str
    method: str
    params: Any
    id: Raw | UnsetType = UNSET


_requests = msgspec.json.Decoder(_Request)
_request_lists = msgspec.json.Decoder(list[_Request])
_identified = msgspec.json.Decoder(_Identified)
_elements = msgspec.json.Decoder(list[Raw])
_encoder = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="deterministic")


# ------------------------------------------------------------------------------------------------- values and texts


def encode(value: Any) -> bytes:
    """Return the JSON text of a plain value; a Raw goes in as it is.

    Raises ValueError if it has NaN or infinity, which the encoder would write as null; TypeError or RecursionError if
    it is no JSON for another reason.
    """
    text = _encoder.encode(value)
    if b"null" in text and _has_no_number(value):
        raise ValueError("NaN and infinity are no JSON")
    return text


def _has_no_number(value: Any) -> bool:
    """Return True if NaN or infinity is somewhere in a value that can be encoded."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, float):
            if not math.isfinite(one):
                return True
        elif isinstance(one, dict):
            rest.extend(one.values())
        elif isinstance(one, list | tuple | set | frozenset):
            rest.extend(one)
        elif not isinstance(one, str | int | bytes | Raw | None):
            rest.append(msgspec.to_builtins(one))  # a dataclass, a Struct, a time
    return False


def canonical(value: Any) -> bytes:
    """Return a JSON text that is the same for equal values, because keys are sorted."""
    return _sorted.encode(value)


def decode(text: bytes, depth: int = MAX_DEPTH) -> Any:
    """Return the value of a JSON text. Raises RpcError PARSE if it is malformed, too long or nested too deep."""
    refuse_too_much(text)
    return _decode(text, depth)


def refuse_too_much(text: bytes) -> None:
    """Check the size of a text before it is decoded. Raises RpcError PARSE if it is too long or has too many parts."""
    if len(text) > MAX_TEXT:
        raise RpcError(PARSE, f"a text of more than {MAX_TEXT} bytes; send less at once")
    if has_too_many_parts(text):
        raise RpcError(PARSE, f"a text of more than {MAX_PARTS} arrays and objects; send less at once")


def _decode(text: bytes, depth: int) -> Any:
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RpcError(PARSE, f"not JSON: {error}") from None
    if parts_at_most(text) > depth and _depth_exceeds(value, depth):
        raise _too_deep()
    return value


def _too_deep() -> RpcError:
    return RpcError(PARSE, f"nested deeper than {MAX_DEPTH} levels; send a flatter value")


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Return True if a value is nested deeper than `limit`. It goes level by level, so that depth costs no stack."""
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(limit):
        if not level:
            return False
        below: list[Any] = []
        for parent in level:
            values = parent if isinstance(parent, list) else parent.values()
            # Decoded values have just these classes, and comparing is faster than isinstance.
            below += [child for child in values if child.__class__ is list or child.__class__ is dict]
        level = below
    return bool(level)


def has_too_many_parts(text: bytes) -> bool:
    """Return True if a text has more than MAX_PARTS arrays and objects.

    Brackets within strings don't count, but only a text with many brackets is examined for that.
    """
    if len(text) <= MAX_PARTS or parts_at_most(text) <= MAX_PARTS:
        return False
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return parts_at_most(b"".join(bare.split(b'"')[::2])) > MAX_PARTS


def parts_at_most(text: bytes) -> int:
    """Return how many arrays and objects a text may have: it counts brackets, also those in strings."""
    return text.count(b"[") + text.count(b"{")


# --------------------------------------------------------------------------------------------------- what comes in


def parse(text: bytes) -> Incoming:
    """Return the calls and faults of a received text, in order. It raises nothing: a bad text is a Fault."""
    try:
        refuse_too_much(text)
    except RpcError as error:
        return Incoming((Fault(NULL, error),), batch=False)
    return _parse_well_formed(text) or _parse_any(text)


def _parse_well_formed(text: bytes) -> Incoming | None:
    """Return the calls of a text without a fault, as nearly all are, or None. It is several times faster."""
    many = text[:1] == b"["
    try:
        requests = _request_lists.decode(text) if many else [_requests.decode(text)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not 0 < len(requests) <= MAX_BATCH:
        return None
    calls = tuple(call for request in requests if (call := _call(request)) is not None)
    if len(calls) < len(requests) or _are_deep(text, calls, MAX_DEPTH - many):
        return None
    return Incoming(calls, many)


def _are_deep(text: bytes, calls: tuple[Call, ...], limit: int) -> bool:
    """Return True if a call is nested too deep; the list stands for the request object around its parameters."""
    if parts_at_most(text) <= limit:
        return False
    return _depth_exceeds([call.params for call in calls], limit)


def _call(request: _Request) -> Call | None:
    number = None if request.id is UNSET else bytes(request.id)
    if request.jsonrpc != "2.0" or not (number is None or _is_id(number)):
        return None
    return Call(request.method, [] if request.params is UNSET else request.params, number)


def _parse_any(text: bytes) -> Incoming:
    try:
        value = _decode(text, MAX_DEPTH)
    except RpcError as error:
        return Incoming((Fault(NULL, error),), batch=False)
    if not isinstance(value, list):
        return Incoming((_entry(text, value),), batch=False)
    if not value or len(value) > MAX_BATCH:
        message = "an empty batch" if not value else f"a batch of more than {MAX_BATCH} elements; send several"
        return Incoming((Fault(NULL, RpcError(INVALID_REQUEST, message)),), batch=False)
    texts = _elements.decode(text)
    return Incoming(tuple(_entry(bytes(one), element) for one, element in zip(texts, value, strict=True)), batch=True)


def _entry(text: bytes, value: Any) -> Call | Fault:
    try:
        request = _requests.decode(text)
    except msgspec.DecodeError as error:
        return Fault(_id_of(text, value), RpcError(INVALID_REQUEST, f"not a request: {error}"))
    call = _call(request)
    if call is not None:
        return call
    message = 'jsonrpc has to be "2.0", and an id a string, a number or null'
    return Fault(_id_of(text, value), RpcError(INVALID_REQUEST, message))


def _id_of(text: bytes, value: Any) -> bytes:
    """Return the id of a malformed request, so that its sender can tell which one it was."""
    if not isinstance(value, dict):
        return NULL
    number = _identified.decode(text).id
    return NULL if number is UNSET or not _is_id(bytes(number)) else bytes(number)


def _is_id(text: bytes) -> bool:
    return text[:1] in b'"-0123456789n'


# -------------------------------------------------------------------------------------------------- what goes out


def result(id: bytes, value: Any) -> bytes:
    """Return the text of a response with a result."""
    return _encoder.encode(_Result("2.0", value, Raw(id)))


def failure(id: bytes, error: RpcError) -> bytes:
    """Return the text of a response with an error."""
    return _encoder.encode(_Failure("2.0", _Error(error.code, error.message, error.data), Raw(id)))


def batch(responses: list[bytes]) -> bytes:
    """Return the text of a batch of responses."""
    return b"[" + b",".join(responses) + b"]"


def bundle(texts: list[bytes]) -> bytes:
    """Return one text for several messages; a single one stays as it is."""
    return texts[0] if len(texts) == 1 else batch(texts)


def request(method: str, params: Any, id: int | str) -> bytes:
    """Return the text of a request."""
    return _encoder.encode(_Outgoing("2.0", method, params, Raw(_encoder.encode(id))))


def notification(method: str, params: Any) -> bytes:
    """Return the text of a notification."""
    return _encoder.encode(_Outgoing("2.0", method, params))


def prefix(method: str, first: str | None = None) -> bytes:
    """Return the beginning of all notifications of a method, for a subscription; with `first` only those with it."""
    text = _encoder.encode(_Outgoing("2.0", method, [] if first is None else [first]))
    return text[: text.rindex(b"]")]


# --------------------------------------------------------------------------------------------- what a client reads


def read(text: bytes) -> list[Response | Call | Fault]:
    """Return the messages of a text that a broker sent: responses, alone or in a batch, and notifications.

    Raises RpcError PARSE if it is anything else. MAX_PARTS does not hold here: a batch of answers may have more parts
    than any text that the broker takes.
    """
    if len(text) > MAX_TEXT:
        raise RpcError(PARSE, f"a text of more than {MAX_TEXT} bytes")
    value = _decode(text, MAX_DEPTH)
    return [_received(element) for element in (value if isinstance(value, list) else [value])]


def _received(value: Any) -> Response | Call | Fault:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(PARSE, "neither a response nor a notification of JSON-RPC 2.0")
    if isinstance(method := value.get("method"), str):
        return Call(method, value.get("params", []), None)
    if "error" not in value:
        return Response(value.get("id"), value.get("result"), None)
    return Response(value.get("id"), None, _error(value["error"]))


def _error(value: Any) -> RpcError:
    if not (isinstance(value, dict) and type(value.get("code")) is int and isinstance(value.get("message"), str)):
        raise RpcError(PARSE, "an error object without code and message")
    return RpcError(value["code"], value["message"], value.get("data"))
