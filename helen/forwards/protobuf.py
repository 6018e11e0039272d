"""Writes protobuf messages field by field, and reads the few fields of an answer. Pure.

Two formats need a dozen message types between them, which never change; a run-time with descriptors would cost more to
install and to import than these functions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_DOUBLE = struct.Struct("<d")
_FIXED = struct.Struct("<Q")
_LARGEST = 0xFFFFFFFFFFFFFFFF
_MOST_VARINT = 10  # bytes of 64 bits


def varint(value: int) -> bytes:
    """Return a number of 64 bits; a negative one takes ten bytes, as in protobuf's int64."""
    value &= 0xFFFFFFFFFFFFFFFF
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a field of a whole number, of an enum or of a flag."""
    return varint(field << 3 | VARINT) + varint(value)


def double(field: int, value: float) -> bytes:
    """Return a field of a double."""
    return varint(field << 3 | FIXED64) + _DOUBLE.pack(value)


def fixed(field: int, value: int) -> bytes:
    """Return a field of a fixed64; the nearest number that it can hold."""
    return varint(field << 3 | FIXED64) + _FIXED.pack(min(max(value, 0), _LARGEST))


def message(field: int, *parts: bytes) -> bytes:
    """Return a field of a message that has these parts, or of bytes."""
    content = b"".join(parts)
    return varint(field << 3 | BYTES) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """Return a field of a string."""
    return message(field, value.encode("utf-8", "replace"))


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message. Raises ValueError if it is none."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        value: int | bytes
        if kind == VARINT:
            value, at = _read_varint(data, at)
        elif kind in (FIXED64, FIXED32):
            value, at = _read_bytes(data, at, 8 if kind == FIXED64 else 4)
        elif kind == BYTES:
            size, at = _read_varint(data, at)
            value, at = _read_bytes(data, at, size)
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        yield key >> 3, value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + _MOST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + place + 1
    raise ValueError("a number that does not end")


def _read_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise ValueError("a field that is longer than its message")
    return data[at : at + size], at + size
