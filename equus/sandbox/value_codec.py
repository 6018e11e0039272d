"""Encode plain data as bytes and decode it, as lua/codec.lua does on the Lua side.

Nothing else passes between Lua and Python: a live Lua table in Python runs Lua code when it is read, and a Python
object in Lua gives access to its module. Text is UTF-8; other bytes become surrogates (PEP 383) and bytes again.
"""

from __future__ import annotations

import struct
from typing import Any

_INTEGER, _DOUBLE, _LENGTH = struct.Struct("<cq"), struct.Struct("<cd"), struct.Struct("<cI")
# As in codec.lua, and one level more for the list of arguments.
MOST_DEPTH = 33


class NotPlain(ValueError):
    """Reports bytes that are no encoded value, or a value that can't be encoded."""


def encode(value: Any) -> bytes:
    """Return a value as bytes for Lua's decode; integers beyond 64 bits become doubles. Raises NotPlain."""
    parts: list[bytes] = []
    _encode(value, parts, 0)
    return b"".join(parts)


def _encode(value: Any, parts: list[bytes], depth: int) -> None:
    if depth > MOST_DEPTH:
        raise NotPlain(f"nested more than {MOST_DEPTH} deep")
    if value is None:
        parts.append(b"n")
    elif isinstance(value, bool):
        parts.append(b"t" if value else b"f")
    elif isinstance(value, str):
        _encode_text(text_bytes(value), parts)
    elif isinstance(value, bytes):
        _encode_text(value, parts)
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        parts.append(_INTEGER.pack(b"i", value))
    elif isinstance(value, int | float):
        parts.append(_DOUBLE.pack(b"d", _as_double(value)))
    elif isinstance(value, list | tuple):
        parts.append(_LENGTH.pack(b"a", len(value)))
        for item in value:
            _encode(item, parts, depth + 1)
    elif isinstance(value, dict):
        parts.append(_LENGTH.pack(b"o", len(value)))
        for key, item in value.items():
            _encode(str(key), parts, depth + 1)
            _encode(item, parts, depth + 1)
    else:
        raise NotPlain(f"a {type(value).__name__} is no plain data")


def text_bytes(text: str) -> bytes:
    """Return the text as UTF-8. Surrogates of PEP 383 become their bytes again, others a question mark.

    JSON can escape half a surrogate pair, so others do occur.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _encode_text(text: bytes, parts: list[bytes]) -> None:
    parts.append(_LENGTH.pack(b"s", len(text)))
    parts.append(text)


def _as_double(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def decode(data: bytes) -> Any:
    """Return the value that Lua's encode wrote.

    Raises NotPlain if the bytes are anything else: a worker may have been taken over.
    """
    try:
        value, end = _decode(data, 0, 0)
    except (struct.error, IndexError, RecursionError):
        raise NotPlain("cut short") from None
    if end != len(data):
        raise NotPlain("bytes left over")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise NotPlain(f"nested more than {MOST_DEPTH} deep")
    tag = data[at : at + 1]
    if tag == b"s":
        (_, length), start = _LENGTH.unpack_from(data, at), at + 5
        if start + length > len(data):
            raise NotPlain("a text longer than what holds it")
        return data[start : start + length].decode("utf-8", "surrogateescape"), start + length
    if tag in (b"i", b"d"):
        return (_INTEGER if tag == b"i" else _DOUBLE).unpack_from(data, at)[1], at + 9
    if tag in (b"n", b"t", b"f"):
        return {b"n": None, b"t": True, b"f": False}[tag], at + 1
    if tag not in (b"a", b"o"):
        raise NotPlain(f"unknown tag {tag!r}")
    (_, count), at = _LENGTH.unpack_from(data, at), at + 5
    if count > len(data) - at:
        raise NotPlain("a count larger than what holds it")
    items = []
    for _ in range(count * (2 if tag == b"o" else 1)):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    if tag == b"a":
        return items, at
    if not all(isinstance(key, str) for key in items[::2]):
        # Not made text: that of tables as keys of tables doubles with each level, 200 bytes become 4 GiB.
        raise NotPlain("a key that is no text")
    return dict(zip(items[::2], items[1::2], strict=True)), at
