"""Read and write BER (X.690) as SNMP uses it: tags of one byte, lengths that are given. Pure."""

from __future__ import annotations

from attrs import define

INTEGER, TEXT, NULL, OID, SEQUENCE = 0x02, 0x04, 0x05, 0x06, 0x30
MOST_LENGTH_BYTES = 4
MOST_PARTS = 128  # of an object identifier (RFC 2578, 3.5)
LARGEST_PART = 2**32 - 1
MOST_NUMBER_BYTES = 9  # 64 bits without a sign, behind a zero


class BrokenBer(ValueError):
    """Says that the bytes break the rules of BER; the text says how."""


@define
class Reader:
    """Reads elements that stand one behind the other in `data`, from `at` to before `end`. Raises BrokenBer."""

    data: bytes
    at: int
    end: int

    @classmethod
    def of(cls, data: bytes) -> Reader:
        return cls(data, 0, len(data))

    @property
    def is_done(self) -> bool:
        return self.at >= self.end

    def element(self) -> tuple[int, int, int]:
        """Return tag, begin and end of the contents of the next element, and step over it."""
        if self.at + 2 > self.end:
            raise BrokenBer("an element ends too early")
        tag, length, at = self.data[self.at], self.data[self.at + 1], self.at + 2
        if tag & 0x1F == 0x1F:
            raise BrokenBer("a tag has more than one byte")
        if length & 0x80:
            count = length & 0x7F
            if not 0 < count <= MOST_LENGTH_BYTES or at + count > self.end:
                raise BrokenBer("a length is not given, or has too many bytes")
            length, at = int.from_bytes(self.data[at : at + count], "big"), at + count
        if at + length > self.end:
            raise BrokenBer("an element is longer than what is around it")
        self.at = at + length
        return tag, at, self.at

    def place(self, wanted: int) -> tuple[int, int]:
        """Return begin and end of the contents of the next element, which must have this tag."""
        tag, begin, end = self.element()
        if tag != wanted:
            raise BrokenBer(f"tag {tag:02x} stands where {wanted:02x} should")
        return begin, end

    def take(self, wanted: int) -> bytes:
        """Return the contents of the next element, which must have this tag."""
        begin, end = self.place(wanted)
        return self.data[begin:end]

    def inside(self, wanted: int = SEQUENCE) -> Reader:
        """Return the next element as a reader of its own."""
        return Reader(self.data, *self.place(wanted))

    def integer(self) -> int:
        return signed(self.take(INTEGER))


def signed(contents: bytes) -> int:
    """Return a whole number."""
    if not 0 < len(contents) <= MOST_NUMBER_BYTES:
        raise BrokenBer(f"a number has {len(contents)} bytes")
    return int.from_bytes(contents, "big", signed=True)


def unsigned(contents: bytes) -> int:
    """Return a whole number that has no sign, whether or not a zero stands before it."""
    if not 0 < len(contents) <= MOST_NUMBER_BYTES:
        raise BrokenBer(f"a number has {len(contents)} bytes")
    return int.from_bytes(contents, "big")


def identifier(contents: bytes) -> str:
    """Return an object identifier in numbers, as 1.3.6.1."""
    if not contents:
        return "0.0"
    parts: list[int] = []
    part, begun = 0, False
    for byte in contents:
        if byte == 0x80 and not begun:
            raise BrokenBer("an object identifier has an empty part")
        part, begun = part << 7 | byte & 0x7F, byte >= 0x80
        if part > LARGEST_PART or len(parts) > MOST_PARTS:
            raise BrokenBer("an object identifier is too long")
        if not begun:
            if not parts:
                parts.append(min(part // 40, 2))
                part -= 40 * parts[0]
            parts.append(part)
            part = 0
    if begun:
        raise BrokenBer("an object identifier ends too early")
    return ".".join(map(str, parts))


def element(tag: int, *contents: bytes) -> bytes:
    """Return an element of contents that may come in pieces."""
    whole = b"".join(contents)
    if len(whole) < 0x80:
        return bytes((tag, len(whole))) + whole
    length = len(whole).to_bytes((len(whole).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + whole


def integer(value: int, tag: int = INTEGER) -> bytes:
    """Return a whole number in as few bytes as hold it."""
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return element(tag, value.to_bytes(size, "big", signed=True))


def text(value: bytes) -> bytes:
    return element(TEXT, value)


def oid(value: str) -> bytes:
    """Return the element of an object identifier such as 1.3.6.1."""
    first, second, *rest = map(int, value.split("."))
    return element(OID, *(_base128(part) for part in (first * 40 + second, *rest)))


def _base128(part: int) -> bytes:
    encoded = bytes((part & 0x7F,))
    while part := part >> 7:
        encoded = bytes((0x80 | part & 0x7F,)) + encoded
    return encoded
