"""Read what `zabbix_sender` sends, and write what it expects as an answer. Pure.

A packet is `ZBXD`, a byte of flags, two lengths of four bytes, the smaller end first, and JSON:

    {"request": "sender data", "data": [{"host": "nas", "key": "raid.state[md0]", "value": "clean", "clock": 12}]}
"""

from __future__ import annotations

import json
import struct
from typing import Any

from attrs import frozen

HEADER = struct.Struct("<4sBII")  # the mark, flags, bytes that follow, and what they are without compression
MARK, PROTOCOL, COMPRESSED, LARGE = b"ZBXD", 0x01, 0x02, 0x04
MOST_BYTES = 1_048_576  # of the JSON of a packet: zabbix_sender sends 250 values in one
MOST_VALUES = 1_000
MOST_NAME, MOST_VALUE = 255, 65_536  # characters of a host, and of a value; a key has at most 2,048
MOST_KEY = 2_048
LATEST = 4e9  # unix seconds


class BadPacket(ValueError):
    """Says that the bytes are no packet that is taken; the text says why."""


@frozen
class Value:
    """Holds one value of a host's item. `clock`: unix seconds when it was found, None for now."""

    host: str
    key: str
    value: str
    clock: float | None = None


def length_of(header: bytes) -> int:
    """Return how many bytes of JSON follow a header. Raises BadPacket."""
    mark, flags, length, _ = HEADER.unpack(header)
    if mark != MARK:
        raise BadPacket("it does not begin with ZBXD: this is no zabbix_sender")
    if flags & COMPRESSED:
        raise BadPacket("it is compressed, as proxies and servers of Zabbix send; zabbix_sender is what is understood")
    if flags != PROTOCOL:
        raise BadPacket(f"it has the flags {flags:#04x}, of which 0x01 is understood")
    if not 0 < length <= MOST_BYTES:
        raise BadPacket(f"it says to have {length} bytes: 1 to {MOST_BYTES} are taken")
    return int(length)


def values_of(body: bytes) -> list[Value | str]:
    """Return the values of a packet; where one can't be read, a sentence is in its place. Raises BadPacket."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadPacket("its JSON can't be read") from error
    if not isinstance(document, dict) or document.get("request") != "sender data":
        raise BadPacket("it is no `sender data`: agents that ask for their checks get none here")
    data = document.get("data")
    if not isinstance(data, list) or len(data) > MOST_VALUES:
        raise BadPacket(f"`data` is a list of at most {MOST_VALUES} values")
    return [_value_of(each) for each in data]


def _value_of(given: Any) -> Value | str:
    if not isinstance(given, dict):
        return "a value is an object"
    for name, most in (("host", MOST_NAME), ("key", MOST_KEY)):
        text = given.get(name)
        if not isinstance(text, str) or not 0 < len(text) <= most:
            return f"`{name}` is a text of 1 to {most} characters"
    value = given.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or len(value) > MOST_VALUE:
        return f"`value` is a text of at most {MOST_VALUE} characters, or a number"
    clock, parts = given.get("clock"), given.get("ns", 0)
    if clock is None:
        return Value(given["host"], given["key"], value)
    if not _is_number(clock, LATEST) or not _is_number(parts, 1e9):
        return "`clock` is a time in unix seconds, and `ns` what is beyond in nanoseconds"
    return Value(given["host"], given["key"], value, clock + parts / 1e9)


def _is_number(value: Any, end: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < end


def answer(processed: int, failed: int, seconds: float) -> bytes:
    """Return the packet that tells a sender how many of its values were taken."""
    said = f"processed: {processed}; failed: {failed}; total: {processed + failed}; seconds spent: {seconds:.6f}"
    return packet({"response": "success", "info": said})


def refusal(why: str) -> bytes:
    """Return the packet that tells a sender that nothing was taken, and why."""
    return packet({"response": "failed", "info": why})


def packet(document: Any) -> bytes:
    body = json.dumps(document).encode()
    return HEADER.pack(MARK, PROTOCOL, len(body), 0) + body
