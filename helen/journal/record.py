"""Encodes and decodes the bytes of a write-ahead log (WAL), and finds the sound records of a damaged one. Pure.

A WAL is a header and records, little-endian:

    header   magic 8 bytes, version u16, unused u16, salt u32, number u64, crc u32 of the 24 bytes before it
    record   mark 4 bytes, length u32 of the body, crc u32 of the body, body
    body     type u8, at u64, then the fields of that type

The CRC of a body starts from the salt of its file. So neither a block that the file system gives back from a deleted
WAL nor a record that an agent put into its blob passes for a record of this file when the reader looks for the next
sound one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from zlib import crc32

from attrs import field, frozen

from helen.journal.values import Change, Entry, Floor, Origin

MAGIC = b"HELENWAL"
VERSION = 1
MARK = b"\xf5hj\x01"  # 0xf5 never occurs in UTF-8, so text in a blob seldom looks like the start of a record
MOST_BODY = 2 * 1024 * 1024  # a blob (1 MiB at most), four names, and room for a change's document

_HEADER = struct.Struct("<8sHHIQ")
_CRC = struct.Struct("<I")
_FRAME = struct.Struct("<4sII")
_RESULT = struct.Struct("<BQdqBBHHH")
_OFFSET = struct.Struct("<q")
_CHANGE = struct.Struct("<BQdBBH")
_FLOOR = struct.Struct("<BQqBH")
_TYPE_AND_AT = struct.Struct("<BQ")
HEADER_SIZE = _HEADER.size + _CRC.size
FRAME_SIZE = _FRAME.size

_RESULT_TYPE, _CHANGE_TYPE, _FLOOR_TYPE, _OFFSET_RESULT_TYPE = 1, 2, 3, 4  # the last: of a clock that is wrong
_ABSENT = 0xFFFF  # a length that no name has: the field is None
_ABSENT_BYTE = 0xFF  # agents' names have 63 bytes at most


class BadRecord(ValueError):
    """Says that a body with a right CRC has a wrong content: another program wrote it, or a later version."""


def header(number: int, salt: int) -> bytes:
    """Return the first bytes of WAL `number`."""
    fixed = _HEADER.pack(MAGIC, VERSION, 0, salt, number)
    return fixed + _CRC.pack(crc32(fixed))


def read_header(data: bytes) -> tuple[int, int]:
    """Return (number, salt) of a WAL that begins with `data`. Raises BadRecord if it has no sound header."""
    if len(data) < HEADER_SIZE:
        raise BadRecord("it ends within its header")
    fixed = data[: _HEADER.size]
    magic, version, _, salt, number = _HEADER.unpack(fixed)
    if magic != MAGIC or crc32(fixed) != _CRC.unpack_from(data, _HEADER.size)[0]:
        raise BadRecord("its header is damaged")
    if version != VERSION:
        raise BadRecord(f"it is of version {version}; this Helen reads version {VERSION}")
    return number, salt


def encode_entry(entry: Entry, at: int, salt: int | None) -> bytes:
    """Return the record of one result up to its blob, which follows it, so that a blob that waits is held once.

    Without a `salt` the frame is missing, too: `encode_frame` makes it.
    """
    agent, check_id, spool = entry.agent.encode(), entry.check_id.encode(), entry.spool.encode()
    check = b"" if entry.check is None else entry.check.encode()
    offset = b"" if entry.clock_offset_ms is None else _OFFSET.pack(entry.clock_offset_ms)
    blob = entry.blob
    head = _RESULT.pack(
        _OFFSET_RESULT_TYPE if offset else _RESULT_TYPE, at, entry.received, entry.sequence, entry.origin,
        len(agent), len(spool), len(check_id), _ABSENT if entry.check is None else len(check),
    ) + offset + agent + spool + check_id + check  # fmt: skip
    if salt is None:
        return head
    return _FRAME.pack(MARK, len(head) + len(blob), crc32(blob, crc32(head, salt))) + head


def encode_frame(head: bytes, blob: bytes, salt: int) -> bytes:
    """Return the frame of a result, which goes before its head; with a mebibyte that takes half a millisecond."""
    return _FRAME.pack(MARK, len(head) + len(blob), crc32(blob, crc32(head, salt)))


def encode_change(change: Change, at: int, salt: int) -> bytes:
    """Return a whole record for one change."""
    kind = change.kind.encode()
    agent = b"" if change.agent is None else change.agent.encode()
    check_id = b"" if change.check_id is None else change.check_id.encode()
    body = _CHANGE.pack(
        _CHANGE_TYPE, at, change.received, len(kind),
        _ABSENT_BYTE if change.agent is None else len(agent), _ABSENT if change.check_id is None else len(check_id),
    ) + kind + agent + check_id + change.document  # fmt: skip
    return _frame(body, salt)


def encode_floor(floor: Floor, at: int, salt: int) -> bytes:
    """Return a whole record for `loaded`'s spool.first."""
    agent, spool = floor.agent.encode(), floor.spool.encode()
    body = _FLOOR.pack(_FLOOR_TYPE, at, floor.first, len(agent), len(spool)) + agent + spool
    return _frame(body, salt)


def _frame(body: bytes, salt: int) -> bytes:
    return _FRAME.pack(MARK, len(body), crc32(body, salt)) + body


def decode(body: bytes) -> tuple[int, Entry | Change | Floor]:
    """Return (at, value) of a body with a right CRC. Raises BadRecord if its content is of no known form."""
    try:
        kind, at = _TYPE_AND_AT.unpack_from(body)
        return at, _DECODERS[kind](body)
    except (struct.error, KeyError, ValueError) as error:
        raise BadRecord(f"a record of unknown form: {error}") from error


def _decode_entry(body: bytes) -> Entry:
    kind, _, received, sequence, origin, agent, spool, check_id, check = _RESULT.unpack_from(body)
    start, offset = _RESULT.size, None
    if kind == _OFFSET_RESULT_TYPE:
        offset = _OFFSET.unpack_from(body, start)[0]
        start += _OFFSET.size
    names = _names(body, start, agent, spool, check_id, 0 if check == _ABSENT else check)
    blob = body[start + sum(len(name) for name in names) :]
    agent_name, spool_name, check_id_name, check_name = (name.decode() for name in names)
    return Entry(
        agent_name, check_id_name, None if check == _ABSENT else check_name, spool_name, sequence, Origin(origin),
        received, blob, offset,
    )  # fmt: skip


def _decode_change(body: bytes) -> Change:
    _, _, received, kind, agent, check_id = _CHANGE.unpack_from(body)
    names = _names(
        body, _CHANGE.size, kind, 0 if agent == _ABSENT_BYTE else agent, 0 if check_id == _ABSENT else check_id
    )
    document = body[_CHANGE.size + sum(len(name) for name in names) :]
    return Change(
        names[0].decode(), received, None if agent == _ABSENT_BYTE else names[1].decode(),
        None if check_id == _ABSENT else names[2].decode(), document,
    )  # fmt: skip


def _decode_floor(body: bytes) -> Floor:
    _, _, first, agent, spool = _FLOOR.unpack_from(body)
    agent_name, spool_name = _names(body, _FLOOR.size, agent, spool)
    return Floor(agent_name.decode(), spool_name.decode(), first)


def _names(body: bytes, start: int, *lengths: int) -> list[bytes]:
    if start + sum(lengths) > len(body):
        raise ValueError("names longer than the record")
    names = []
    for length in lengths:
        names.append(body[start : start + length])
        start += length
    return names


_DECODERS: dict[int, Callable[[bytes], Entry | Change | Floor]] = {
    _RESULT_TYPE: _decode_entry,
    _OFFSET_RESULT_TYPE: _decode_entry,
    _CHANGE_TYPE: _decode_change,
    _FLOOR_TYPE: _decode_floor,
}


@frozen
class Sound:
    """Holds a record to be trusted, and where its frame begins."""

    offset: int
    at: int
    value: Entry | Change | Floor = field(repr=False)


@frozen
class Bad:
    """Marks bytes from `start` to `end` that are no sound record, with sound ones after them: to be quarantined."""

    start: int
    end: int


@frozen
class Tail:
    """Marks bytes from `start` to the end of the file with no sound record after them.

    `torn` is a last record that stops early, or nothing but zeros, as an interrupted write leaves it. Such a record was
    never acknowledged. A tail that isn't torn may have been, and is quarantined before it is cut.
    """

    start: int
    end: int
    torn: bool


def scan(data: bytes) -> Iterator[Sound | Bad | Tail]:
    """Yield everything after the header of a WAL, in order. Raises BadRecord if the header can't be read."""
    _, salt = read_header(data)
    offset, size = HEADER_SIZE, len(data)
    while offset < size:
        found = _sound_at(data, offset, salt)
        if found is not None:
            yield found[0]
            offset = found[1]
            continue
        following = _next_sound(data, offset + 1, salt)
        if following is None:
            yield Tail(offset, size, _is_torn(data, offset))
            return
        yield Bad(offset, following)
        offset = following


def _sound_at(data: bytes, offset: int, salt: int) -> tuple[Sound, int] | None:
    if offset + FRAME_SIZE > len(data):
        return None
    mark, length, crc = _FRAME.unpack_from(data, offset)
    end = offset + FRAME_SIZE + length
    if mark != MARK or length > MOST_BODY or end > len(data):
        return None
    body = data[offset + FRAME_SIZE : end]
    if crc32(body, salt) != crc:
        return None
    try:
        at, value = decode(body)
    except BadRecord:
        return None
    return Sound(offset, at, value), end


def _next_sound(data: bytes, offset: int, salt: int) -> int | None:
    while (offset := data.find(MARK, offset)) >= 0:
        if _sound_at(data, offset, salt) is not None:
            return offset
        offset += 1
    return None


def _is_torn(data: bytes, offset: int) -> bool:
    rest = data[offset:]
    if not rest.strip(b"\0"):
        return True
    head = rest[: len(MARK)]
    if head != MARK[: len(head)]:
        return False
    if len(rest) < FRAME_SIZE:
        return True
    length: int = _FRAME.unpack_from(rest)[1]
    written = rest.rstrip(b"\0")  # the size of a file may become durable before its last pages: then they are zeros
    return length <= MOST_BODY and FRAME_SIZE + length > len(written)
