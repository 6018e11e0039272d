"""Read and write packets of NRPE, versions 2, 3 and 4: a question, and its answer. Pure.

All numbers are in network order. A packet of version 2 has 1,036 bytes: version, type, CRC, result, 1,024 bytes of text
and 2 of padding. Versions 3 and 4 say how long the text is, which ends with a zero byte; version 3 has 3 bytes of
padding.
"""

from __future__ import annotations

import struct
import zlib

from attrs import define, field, frozen

QUERY, RESPONSE = 1, 2
MAX_QUERY = 8_192  # bytes of the text of a question; check_nrpe sends 1,020
MAX_ANSWER = 8_192  # bytes of the text of an answer, in versions 3 and 4
_HEAD = struct.Struct("!hhIh")
_LONG_HEAD = struct.Struct("!hhIhhi")
_TEXT_2, _PADDING_2 = 1_024, 2
_PADDING = {3: 3, 4: 0}
VERSIONS = (2, *_PADDING)


class BadPacket(Exception):
    """Says that bytes are no question of NRPE; the text says why."""


@frozen
class Question:
    """Holds a question of a client: the version of its packet, the name of a command, and arguments for it."""

    version: int
    command: str
    arguments: tuple[str, ...] = ()


@define
class QuestionReader:
    """Takes bytes until one question is whole. It keeps no more than one packet of MAX_QUERY bytes."""

    _data: bytearray = field(factory=bytearray)

    def feed(self, data: bytes) -> Question | None:
        """Take bytes; return the question once it is whole. Raises BadPacket as soon as it can be none."""
        room = _LONG_HEAD.size + MAX_QUERY + max(_PADDING.values()) + 1
        self._data += data[: room - len(self._data)]
        if len(self._data) < _LONG_HEAD.size:
            return None
        version, kind, crc, _ = _HEAD.unpack_from(self._data)
        if version not in VERSIONS or kind != QUERY:
            raise BadPacket(f"a packet of version {version} and type {kind} is no question")
        size, start = _size(self._data, version)
        if len(self._data) < size:
            return None
        if len(self._data) > size:
            raise BadPacket("there are bytes after the question")
        if zlib.crc32(bytes(self._data[:4]) + bytes(4) + bytes(self._data[8:size])) != crc:
            raise BadPacket("the checksum is wrong")
        return _question(version, bytes(self._data[start:size]))


def _size(data: bytearray, version: int) -> tuple[int, int]:
    """Return how many bytes a packet has, and where its text begins. Raises BadPacket for a text that is too long."""
    if version == 2:
        return _HEAD.size + _TEXT_2 + _PADDING_2, _HEAD.size
    length: int = _LONG_HEAD.unpack_from(data)[5]
    if not 0 < length <= MAX_QUERY:
        raise BadPacket(f"a text of {length} bytes is none that a question has")
    return _LONG_HEAD.size + length + _PADDING[version], _LONG_HEAD.size


def _question(version: int, data: bytes) -> Question:
    text, end, _ = data.partition(b"\0")
    if not end:
        raise BadPacket("the text has no end")
    try:
        command, *arguments = text.decode("utf-8").split("!")
    except UnicodeDecodeError:
        raise BadPacket("the text is no UTF-8") from None
    if not command or not text.decode("utf-8").isprintable():
        raise BadPacket("the text is no name of a command")
    return Question(version, command, tuple(arguments))


def answer(version: int, status: int, text: str) -> bytes:
    """Return a packet of this version with a result (0 to 3) and its text, cut to what the packet holds."""
    if version == 2:
        data = _cut(text, _TEXT_2 - 1).ljust(_TEXT_2 + _PADDING_2, b"\0")
        head = _HEAD.pack(version, RESPONSE, 0, status)
    else:
        data = _cut(text, MAX_ANSWER - 1) + b"\0"
        head = _LONG_HEAD.pack(version, RESPONSE, 0, status, 0, len(data))
        data += bytes(_PADDING[version])
    crc = zlib.crc32(head + data)
    return head[:4] + struct.pack("!I", crc) + head[8:] + data


def _cut(text: str, most: int) -> bytes:
    """Return a text as UTF-8 of at most so many bytes, with no half of a character and no zero byte."""
    data = text.replace("\0", "?").encode("utf-8", "replace")
    return data if len(data) <= most else data[:most].decode("utf-8", "ignore").encode()
