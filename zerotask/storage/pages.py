"""Reads pages and rows of a damaged SQLite database without SQLite, which gives up at the first bad page.

A page that cannot be read costs the rows that lie on it. The pages that a bad inner page led to are found among those
that nothing else leads to. The format: https://sqlite.org/fileformat2.html. Pages in the write-ahead log count as in
the database that is made of both, whatever their checksums say.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from attrs import define, field, frozen

Value = int | float | str | bytes | None

INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13  # the first byte of a page
MAGIC = b"SQLite format 3\0"
LOG_MAGIC = {b"\x37\x7f\x06\x82": "<", b"\x37\x7f\x06\x83": ">"}  # with the byte order of the checksums
PAGE_SIZE = 4_096  # of a database that does not say it any more
HEADER, LOG_HEADER, FRAME_HEADER = 100, 32, 24  # bytes
MOST_PAYLOAD = 64 * 2**20  # bytes of one row; what claims more is no row
_SIZES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}  # serial type -> bytes


class Unreadable(Exception):
    """Tells that a page, or a row on it, cannot be read."""


@frozen
class Frame:
    """Describes a frame of the write-ahead log: its page, where that lies, and if a transaction ends with it."""

    page: int
    offset: int
    commits: bool


def is_sound_log(header: bytes) -> bool:
    """Return True if the header of a write-ahead log has its checksum."""
    order = LOG_MAGIC.get(header[:4])
    if order is None or len(header) < LOG_HEADER:
        return False
    first = second = 0
    for one, two in struct.iter_unpack(f"{order}II", header[:24]):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return struct.unpack(">II", header[24:32]) == (first, second)


def frames(log: Path) -> list[Frame]:
    """Return the frames of a write-ahead log since it was last begun, up to its last commit; none if it is missing.

    Their checksums are not looked at: SQLite itself reads nothing behind the first wrong one.
    """
    found: list[Frame] = []
    if not log.exists():
        return found
    with open(log, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        header = file.read(LOG_HEADER)
        sound = is_sound_log(header)
        size = int.from_bytes(header[8:12], "big") if sound else PAGE_SIZE
        salt = header[16:24] if sound else None
        while len(head := file.read(FRAME_HEADER)) == FRAME_HEADER:
            page, pages = struct.unpack(">II", head[:8])
            salt = salt or head[8:16]
            whole = file.tell() + size <= end
            if head[8:16] == salt and page and whole:
                found.append(Frame(page, file.tell(), pages > 0))
            file.seek(size, os.SEEK_CUR)
    last = max((number for number, frame in enumerate(found, 1) if frame.commits), default=0)
    return found[:last]


class Pages:
    """Returns the pages of a database file, as its write-ahead log has changed them. Close it at the end."""

    def __init__(self, path: Path, log: Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - read until `close`
        header = os.pread(self._file.fileno(), HEADER, 0)
        self.size = PAGE_SIZE
        if header[:16] == MAGIC and len(header) == HEADER:
            self.size = {1: 65_536}.get(said := int.from_bytes(header[16:18], "big"), said)
        if self.size < 512 or self.size & (self.size - 1):
            self.size = PAGE_SIZE
        self._changed = {frame.page: frame.offset for frame in frames(log)}
        self._log = open(log, "rb") if self._changed else None  # noqa: SIM115
        in_file = -(-os.fstat(self._file.fileno()).st_size // self.size)
        most = in_file + len(self._changed)  # a page number beyond is damage itself
        self.count = max([in_file, *(page for page in self._changed if page <= most)])

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._log is not None:
            self._log.close()

    def read(self, number: int) -> bytes:
        """Return a page. Raises Unreadable if the files do not have it whole."""
        if not 1 <= number <= self.count:
            raise Unreadable(f"there is no page {number}")
        if self._log is not None and number in self._changed:
            data = os.pread(self._log.fileno(), self.size, self._changed[number])
        else:
            data = os.pread(self._file.fileno(), self.size, (number - 1) * self.size)
        if len(data) < self.size:
            raise Unreadable(f"page {number} is cut off")
        return data

    def free(self) -> set[int]:
        """Return the pages of the list of free ones, as far as it can be read: they hold rows that were deleted."""
        found: set[int] = set()
        try:
            (trunk,) = struct.unpack(">I", self.read(1)[32:36])
            while trunk and trunk not in found:
                found.add(trunk)
                page = self.read(trunk)
                trunk, count = struct.unpack(">II", page[:8])
                found.update(struct.unpack_from(f">{min(count, self.size // 4 - 2)}I", page, 8))
        except Unreadable:
            pass
        return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at a place, and the place behind it. Raises IndexError at the end."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def record(payload: bytes) -> list[Value]:
    """Return the columns of a row. Raises Unreadable if its bytes are no row."""
    try:
        end, at = varint(payload, 0)
        place = end
        values: list[Value] = []
        while at < end:
            kind, at = varint(payload, at)
            size = _SIZES[kind] if kind < 12 else (kind - 12) // 2
            raw = payload[place : place + size]
            if len(raw) < size:
                raise Unreadable("a row is cut off")
            values.append(_value(kind, raw))
            place += size
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise Unreadable(f"no row: {error}") from error
    if at != end or place != len(payload):
        raise Unreadable("the parts of a row do not make its size")
    return values


def _value(kind: int, raw: bytes) -> Value:
    if kind == 0:
        return None
    if kind in (8, 9):
        return kind - 8
    if kind == 7:
        return float(struct.unpack(">d", raw)[0])
    if kind < 7:
        return int.from_bytes(raw, "big", signed=True)
    return raw.decode("utf-8") if kind % 2 else raw


@define
class Tree:
    """Walks the pages of one table or index. `seen` are those that it found, `bad` counts those it could not read."""

    pages: Pages
    seen: set[int] = field(factory=set)
    bad: int = 0

    def rows(self, root: int) -> Iterator[tuple[int, list[Value]]]:
        """Yield the rowid and the columns of each row that can be read; of an index 0 and its columns."""
        waiting = [root]
        index: bool | None = None
        while waiting:
            number = waiting.pop()
            try:
                if number in self.seen:
                    raise Unreadable(f"page {number} is in the tree twice")
                page = self.pages.read(number)
                kind = page[_start(number)]
                if kind not in (INNER_INDEX, INNER_TABLE, LEAF_INDEX, LEAF_TABLE) or (
                    index is not None and index != (kind in (INNER_INDEX, LEAF_INDEX))
                ):
                    raise Unreadable(f"page {number} is of another kind")
            except Unreadable:
                self.bad += 1
                continue
            index = kind in (INNER_INDEX, LEAF_INDEX)
            self.seen.add(number)
            yield from self.on_page(number, page, waiting)

    def on_page(self, number: int, page: bytes, below: list[int]) -> Iterator[tuple[int, list[Value]]]:
        """Yield the rows on one page, and add the pages that it leads to to `below`."""
        start = _start(number)
        kind, inner = page[start], page[start] in (INNER_INDEX, INNER_TABLE)
        (count,) = struct.unpack_from(">H", page, start + 3)
        pointers = start + (12 if inner else 8)
        if pointers + 2 * count > len(page):
            self.bad += 1
            return
        for at in struct.unpack_from(f">{count}H", page, pointers):
            try:
                if inner:
                    below.append(int.from_bytes(page[at : at + 4], "big"))
                if kind != INNER_TABLE:
                    yield self._row(page, at + 4 if inner else at, kind)
            except (Unreadable, IndexError):
                self.bad += 1
        if inner:
            below.append(int.from_bytes(page[start + 8 : start + 12], "big"))

    def _row(self, page: bytes, at: int, kind: int) -> tuple[int, list[Value]]:
        rowid = 0
        size, at = varint(page, at)
        if kind == LEAF_TABLE:
            rowid, at = varint(page, at)
        return rowid, record(self._payload(page, at, size, kind == LEAF_TABLE))

    def _payload(self, page: bytes, at: int, size: int, in_table: bool) -> bytes:
        """Return the bytes of a row, the part on overflow pages with it."""
        usable = self.pages.size
        most = usable - 35 if in_table else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return page[at : at + size]
        if size > MOST_PAYLOAD:
            raise Unreadable(f"a row of {size} bytes")
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        parts, missing = [page[at : at + local]], size - local
        (following,) = struct.unpack(">I", page[at + local : at + local + 4].ljust(4, b"\0"))
        while missing > 0:
            more = self.pages.read(following)
            parts.append(more[4 : 4 + missing])
            missing -= usable - 4
            (following,) = struct.unpack(">I", more[:4])
        return b"".join(parts)


def _start(number: int) -> int:
    """Return where the tree's part of a page begins: behind the header of the database on the first one."""
    return HEADER if number == 1 else 0
