"""Build DNS questions and parse answers, which may be hostile. Pure.

Every offset is checked, a compression pointer may only lead backwards, and a name has at most 255 octets, so that no
answer makes the parser loop or grow.

It is written by hand because it needs little: eight record types, one question and its answer. A library such as
dnspython brings a resolver, zones and all record types, which no check can use, into the process that performs host
calls; and here every bound on a hostile answer is in sight.
"""

import ipaddress
import struct
from typing import Any

from attrs import frozen

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28}
_TYPE_NAMES = {number: name for name, number in TYPES.items()}
STATUSES = {
    0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED",
    6: "YXDOMAIN", 7: "YXRRSET", 8: "NXRRSET", 9: "NOTAUTH", 10: "NOTZONE",
}  # fmt: skip
_HEADER = struct.Struct("!HHHHHH")
_RECORD = struct.Struct("!HHIH")
_IN = 1
NAME_OCTETS = 255
LABEL_OCTETS = 63
# A UDP answer of 64 KiB holds at most some 5,000 records, more than any check looks at.
MOST_ANSWERS = 1000


class BadMessage(ValueError):
    """Reports bytes that are no answer to the question; the text says why."""


@frozen
class Answer:
    """Holds an answer that belongs to the question."""

    status: str
    authoritative: bool
    truncated: bool
    answers: tuple[dict[str, Any], ...]


def reverse_name(address: str) -> str:
    """Return the name that the PTR record of an address is filed under."""
    return ipaddress.ip_address(address).reverse_pointer


def encode_name(name: str) -> bytes:
    """Return a name as labels with their lengths. Raises ValueError if a label or the name is too long."""
    labels = [label.encode("ascii") for label in name.removesuffix(".").split(".")] if name != "." else []
    if any(not 0 < len(label) <= LABEL_OCTETS for label in labels):
        raise ValueError("a label of the name is empty or longer than 63 characters")
    encoded = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    if len(encoded) > NAME_OCTETS:
        raise ValueError("the name is longer than 255 octets")
    return encoded


def question(identifier: int, name: str, kind: str) -> bytes:
    """Return a standard query that asks for recursion."""
    return _HEADER.pack(identifier, 0x0100, 1, 0, 0, 0) + encode_name(name) + struct.pack("!HH", TYPES[kind], _IN)


def parse_answer(data: bytes, identifier: int, name: str, kind: str) -> Answer:
    """Parse an answer to `question(identifier, name, kind)`. Raises BadMessage if it is anything else."""
    try:
        return _parse(data, identifier, name, kind)
    except (struct.error, IndexError):
        raise BadMessage("it is cut short") from None


def _parse(data: bytes, identifier: int, name: str, kind: str) -> Answer:
    found, flags, questions, answers, _, _ = _HEADER.unpack_from(data)
    if found != identifier or not flags & 0x8000:
        raise BadMessage("it is no answer to the question")
    status = STATUSES.get(flags & 15, f"RCODE{flags & 15}")
    offset = _HEADER.size
    if questions == 1:
        asked, offset = read_name(data, offset)
        asked_type, asked_class = struct.unpack_from("!HH", data, offset)
        offset += 4
        if (asked.lower(), asked_type, asked_class) != (name.removesuffix(".").lower(), TYPES[kind], _IN):
            raise BadMessage("it answers another question")
    elif questions or status == "NOERROR":
        raise BadMessage("it repeats no question")
    records = []
    for _ in range(min(answers, MOST_ANSWERS)):
        record, offset = _record(data, offset)
        if record is not None:
            records.append(record)
    return Answer(status, bool(flags & 0x0400), bool(flags & 0x0200), tuple(records))


def read_name(data: bytes, offset: int) -> tuple[str, int]:
    """Return a name and the offset behind it. Raises BadMessage if it is malformed.

    Pointers lead strictly backwards, so that each byte is read at most once.
    """
    labels: list[str] = []
    octets, after, barrier = 1, None, offset
    while True:
        length = data[offset]
        if length & 0xC0 == 0xC0:
            target = (length & 0x3F) << 8 | data[offset + 1]
            after = offset + 2 if after is None else after
            if target >= barrier:
                raise BadMessage("a compression pointer leads forwards")
            offset = barrier = target
            continue
        if length & 0xC0:
            raise BadMessage("a label has an unknown form")
        if length == 0:
            return ".".join(labels), offset + 1 if after is None else after
        octets += length + 1
        if octets > NAME_OCTETS:
            raise BadMessage("a name is longer than 255 octets")
        labels.append(_label(data, offset + 1, length))
        offset += length + 1


def _label(data: bytes, offset: int, length: int) -> str:
    raw = data[offset : offset + length]
    if len(raw) < length:
        raise BadMessage("it is cut short")
    # As in master files: a dot inside a label, or an unprintable byte, must not look like structure.
    return "".join(chr(byte) if 32 < byte < 127 and byte not in b".\\" else f"\\{byte:03d}" for byte in raw)


def _record(data: bytes, offset: int) -> tuple[dict[str, Any] | None, int]:
    """Return one record, or None if its type is not in TYPES, and the offset behind it."""
    owner, offset = read_name(data, offset)
    kind, of_class, ttl, length = _RECORD.unpack_from(data, offset)
    offset += _RECORD.size
    end = offset + length
    if end > len(data):
        raise BadMessage("it is cut short")
    name = _TYPE_NAMES.get(kind)
    if name is None or of_class != _IN:
        return None, end
    # A time to live with the highest bit set counts as 0 (RFC 2181).
    record = {"name": owner, "type": name, "ttl": ttl if ttl < 1 << 31 else 0}
    return record | _value(data, name, offset, end), end


def _value(data: bytes, kind: str, offset: int, end: int) -> dict[str, Any]:
    if kind in ("A", "AAAA"):
        if end - offset != (4 if kind == "A" else 16):
            raise BadMessage(f"a record of type {kind} has the wrong length")
        return {"value": str(ipaddress.ip_address(data[offset:end]))}
    if kind == "TXT":
        return {"value": _texts(data[offset:end])}
    if kind == "MX":
        (preference,) = struct.unpack_from("!H", data, offset)
        return {"value": _whole_name(data, offset + 2, end), "preference": preference}
    if kind == "SOA":
        return _authority(data, offset, end)
    return {"value": _whole_name(data, offset, end)}


def _whole_name(data: bytes, offset: int, end: int) -> str:
    name, after = read_name(data, offset)
    if after != end:
        raise BadMessage("a name does not fill its record")
    return name


def _texts(data: bytes) -> str:
    pieces, offset = [], 0
    while offset < len(data):
        length = data[offset]
        piece = data[offset + 1 : offset + 1 + length]
        if len(piece) < length:
            raise BadMessage("a text is longer than its record")
        pieces.append(piece)
        offset += length + 1
    return b"".join(pieces).decode("utf-8", "replace")


def _authority(data: bytes, offset: int, end: int) -> dict[str, Any]:
    server, offset = read_name(data, offset)
    mailbox, offset = read_name(data, offset)
    if end - offset != 20:
        raise BadMessage("a record of type SOA has the wrong length")
    numbers = struct.unpack_from("!IIIII", data, offset)
    return {"value": " ".join([server, mailbox, *map(str, numbers)]), "serial": numbers[0]}
