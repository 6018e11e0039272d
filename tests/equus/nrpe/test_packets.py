"""Test packets of NRPE: questions as check_nrpe 4.1 sent them, answers, and bytes that are no question."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nrpe_packets import packet

from equus.nrpe.packets import MAX_QUERY, BadPacket, Question, QuestionReader, answer


def read(data: bytes) -> Question | None:
    return QuestionReader().feed(data)


# The heads, checksums included, are those that check_nrpe 4.1.0 of Debian sent for `-c check_load`.
RECORDED = [
    (2, bytes.fromhex("000200014725a2310000"), 10),
    (3, bytes.fromhex("00030001955dd9ff00000000000003f9"), 16),
    (4, bytes.fromhex("00040001de6f9b4e00000000000003fc"), 16),
]


@pytest.mark.parametrize(("version", "head", "size"), RECORDED)
def test_recorded_questions(version: int, head: bytes, size: int) -> None:
    assert len(head) == size
    # The buffer of version 2 is filled with chance, so its checksum is its own.
    data = packet(2, b"check_load") if version == 2 else head + b"check_load".ljust(1_036 - size, b"\0")
    assert len(data) == 1_036
    assert read(data) == Question(version, "check_load")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_byte_by_byte_with_arguments(version: int) -> None:
    reader, data = QuestionReader(), packet(version, b"check_x!10!a b")
    for byte in data[:-1]:
        assert reader.feed(bytes([byte])) is None
    assert reader.feed(data[-1:]) == Question(version, "check_x", ("10", "a b"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (packet(1, b"x"), "version 1 and type 1"),
        (packet(5, b"x"), "version 5 and type 1"),
        (packet(4, b"x", kind=2), "version 4 and type 2"),
        (packet(4, b"x", crc=7), "the checksum is wrong"),
        (packet(2, b"x", crc=7), "the checksum is wrong"),
        (packet(3, b"", length=0), "a text of 0 bytes"),
        (struct.pack("!hhIhhi", 4, 1, 0, 0, 0, -5), "a text of -5 bytes"),
        (struct.pack("!hhIhhi", 4, 1, 0, 0, 0, 2**31 - 1), "a text of 2147483647 bytes"),
        (packet(4, b"x" * 9, length=9), "the text has no end"),
        (packet(4, b"\xff\xfe"), "no UTF-8"),
        (packet(4, b""), "no name of a command"),
        (packet(4, b"a\nb"), "no name of a command"),
        (packet(4, b"x") + b"y", "bytes after the question"),
        (b"GET / HTTP/1.1\r\n\r\n", "is no question"),
    ],
)
def test_what_is_no_question(data: bytes, why: str) -> None:
    with pytest.raises(BadPacket) as fault:
        read(data)
    assert why in str(fault.value)


@given(st.binary(max_size=3_000))
def test_any_bytes(data: bytes) -> None:
    """Any bytes raise nothing but BadPacket, and no more is kept than one packet has."""
    reader = QuestionReader()
    for _ in range(8):
        try:
            reader.feed(data)
        except BadPacket:
            return
    assert len(reader._data) <= MAX_QUERY + 32


@pytest.mark.parametrize("version", [2, 3, 4])
def test_answers(version: int) -> None:
    """An answer has the checksum of the whole packet, and a text that ends with a zero byte and is cut between
    characters.
    """
    for text in ("OK: fine | a=1", "ü" * 9_000, "a\0b", ""):
        data = answer(version, 2, text)
        got_version, kind, crc, status = struct.unpack("!hhIh", data[:10])
        assert (got_version, kind, status) == (version, 2, 2)
        assert zlib.crc32(data[:4] + bytes(4) + data[8:]) == crc
        body = data[10:] if version == 2 else data[16:]
        said = body.partition(b"\0")[0].decode()
        assert text.replace("\0", "?").startswith(said)
        assert len(said) == len(text) or len(said.encode()) >= (1_022 if version == 2 else 8_190)
        if version == 2:
            assert len(data) == 1_036
        else:
            assert struct.unpack("!i", data[12:16])[0] == len(said.encode()) + 1
            assert len(data) == 16 + len(said.encode()) + 1 + (3 if version == 3 else 0)
