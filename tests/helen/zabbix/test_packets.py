"""Tests packets of zabbix_sender: what is read, what is refused before it is read, and keys with parameters."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import pytest

from helen.cli.zabbix import packets
from helen.cli.zabbix.keys import parts_of
from helen.cli.zabbix.packets import HEADER, BadPacket, Value, answer, length_of, refusal, values_of


def header(flags: int = 1, length: int = 10, mark: bytes = b"ZBXD", plain: int = 0) -> bytes:
    return struct.pack("<4sBII", mark, flags, length, plain)


def body(*data: Any, **more: Any) -> bytes:
    return json.dumps({"request": "sender data", "data": list(data), **more}).encode()


def test_the_length_of_what_follows() -> None:
    """The length is read with the smaller end first."""
    assert (HEADER.size, length_of(b"ZBXD\x01\x4c\x01\x00\x00\x00\x00\x00\x00")) == (13, 0x14C)
    assert length_of(header(length=packets.MOST_BYTES)) == packets.MOST_BYTES


@pytest.mark.parametrize(("given", "said"), [
    (header(mark=b"GET "), "does not begin with ZBXD"), (bytes(13), "does not begin with ZBXD"),
    (header(flags=3, plain=2**31), "it is compressed"), (header(flags=7), "it is compressed"),
    (header(flags=5), "the flags 0x05"), (header(flags=0), "the flags 0x00"), (header(flags=0xF1), "the flags 0xf1"),
    (header(length=0), "0 bytes"), (header(length=packets.MOST_BYTES + 1), "1048577 bytes: 1 to 1048576"),
    (header(length=2**32 - 1), "4294967295 bytes"),
])  # fmt: skip
def test_a_header_that_is_refused(given: bytes, said: str) -> None:
    """A bad header is refused before a byte behind it is read: nothing is ever unpacked."""
    with pytest.raises(BadPacket, match=said):
        length_of(given)


@pytest.mark.parametrize(("given", "said"), [
    (b"", "can't be read"), (b"\xff\xfe", "can't be read"), (b"{", "can't be read"),
    (b"[" * 200_000, "can't be read"), (b"1" * 5_000, "can't be read"), (zlib.compress(body()), "can't be read"),
    (b"[]", "no `sender data`"), (b'{"request": "active checks", "host": "x"}', "no `sender data`"),
    (b'{"request": ["sender data"]}', "no `sender data`"), (b'{"request": "sender data"}', "is a list of at most"),
    (b'{"request": "sender data", "data": {}}', "is a list of at most"), (body(*range(1_001)), "at most 1000 values"),
])  # fmt: skip
def test_json_that_is_refused(given: bytes, said: str) -> None:
    """Bad JSON is refused as a whole."""
    with pytest.raises(BadPacket, match=said):
        values_of(given)


ONE = {"host": "nas", "key": "raid.state[md0]", "value": "clean"}


@pytest.mark.parametrize(("given", "value"), [
    (ONE, Value("nas", "raid.state[md0]", "clean")), (ONE | {"value": 5}, Value("nas", "raid.state[md0]", "5")),
    (ONE | {"clock": 1_700_000_000, "ns": 500_000_000}, Value("nas", "raid.state[md0]", "clean", 1_700_000_000.5)),
    (ONE | {"clock": 12}, Value("nas", "raid.state[md0]", "clean", 12.0)), (5, "a value is an object"),
    (ONE | {"host": ""}, "`host` is a text of 1 to 255 characters"), (ONE | {"host": "h" * 256}, "`host` is a text"),
    (ONE | {"key": None}, "`key` is a text of 1 to 2048"), (ONE | {"value": True}, "`value` is a text of at most"),
    (ONE | {"value": "v" * 65_537}, "`value` is a text"), (ONE | {"value": ["x"]}, "`value` is a text"),
    (ONE | {"clock": "now"}, "`clock` is a time"), (ONE | {"clock": -1}, "`clock` is a time"),
    (ONE | {"clock": 10**40}, "`clock` is a time"), (ONE | {"clock": 1, "ns": 10**9}, "`clock` is a time"),
    (ONE | {"clock": float("nan")}, "`clock` is a time"),
])  # fmt: skip
def test_values(given: Any, value: Value | str) -> None:
    """A value that can't be read is a sentence, and the others are read all the same."""
    first, second = values_of(body(given, ONE))
    assert second == Value("nas", "raid.state[md0]", "clean")
    assert first == value or (isinstance(value, str) and str(first).startswith(value))


def test_answers() -> None:
    """An answer has the words of a server of Zabbix."""
    said = answer(2, 1, 0.25)
    assert said[:13] == header(length=len(said) - 13)
    info = "processed: 2; failed: 1; total: 3; seconds spent: 0.250000"
    assert json.loads(said[13:]) == {"response": "success", "info": info}
    assert json.loads(refusal("no")[13:]) == {"response": "failed", "info": "no"}


@pytest.mark.parametrize(("key", "parts"), [
    ("load", ["load"]), ("a[]", ["a", ""]), ("a[b]", ["a", "b"]), ("a[b,,c]", ["a", "b", "", "c"]),
    ('a["b,c",d]', ["a", "b,c", "d"]), ('a["say \\"x\\""]', ["a", 'say "x"']), ("a[b", ["a", "b"]), ("[", ["", ""]),
    ('a["b', ["a", "b"]), ("a[" + "," * 500, ["a", *[""] * 20]), ('a[b"c]', ["a", 'b"c']),
])  # fmt: skip
def test_keys(key: str, parts: list[str]) -> None:
    """A key has a name, and parameters in brackets behind it."""
    assert parts_of(key) == parts
