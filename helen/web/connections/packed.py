"""Packs answers by gzip in pieces, each of which can be read as soon as it is there.

gzip is a head, blocks, and a sum. A block that ends at a whole byte, and looks back at nothing before it, may follow
any other one: so a piece that many clients get is packed once, and each of their answers takes it as it is.
"""

from __future__ import annotations

import struct
import zlib

from helen.web.request import ApiRequest

HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"  # no name, no time, packed fast
LAST_BLOCK = b"\x03\x00"
LEVEL = 1  # the others take several times as long for a tenth of the size
MOST_PACKED = 65_536  # bytes of a piece that is made smaller, within a millisecond; a longer one goes as it is


def takes_packed(request: ApiRequest) -> bool:
    """Return True if the client says that it can read gzip."""
    given = (request.getHeader(b"accept-encoding") or b"").decode("latin-1").lower()
    wanted = [[part.strip() for part in each.split(";")] for each in given.split(",")]
    return any(name in ("gzip", "x-gzip") and not _is_zero(weight) for name, *weight in wanted)


def _is_zero(weight: list[str]) -> bool:
    return any(each.startswith("q=") and not each[2:].strip("0.") for each in weight)


def block_of(piece: bytes) -> bytes:
    """Return a piece as blocks that can follow any others."""
    level = LEVEL if len(piece) <= MOST_PACKED else 0
    made = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return made.compress(piece) + made.flush(zlib.Z_SYNC_FLUSH)


class Packing:
    """Makes the gzip of one answer: `block` of each piece in turn, and `end` at the end."""

    def __init__(self) -> None:
        self._sum, self._size = 0, 0

    def block(self, piece: bytes, packed: bytes | None = None) -> bytes:
        """Return the bytes to be sent for a piece. `packed`: its blocks, if they have been made already."""
        head = b"" if self._size else HEAD
        self._sum, self._size = zlib.crc32(piece, self._sum), self._size + len(piece)
        return head + (block_of(piece) if packed is None else packed)

    def end(self) -> bytes:
        """Return the bytes to be sent at the end: with the length and the sum the client knows that it has all of
        it."""
        head = b"" if self._size else HEAD
        return head + LAST_BLOCK + struct.pack("<II", self._sum, self._size & 0xFFFFFFFF)


def begin_packed(request: ApiRequest) -> Packing | None:
    """Say in the head of an answer that it is packed, if its client can read that; None: it goes as it is."""
    request.setHeader("vary", "accept-encoding")
    if not takes_packed(request):
        return None
    request.setHeader("content-encoding", "gzip")
    return Packing()
