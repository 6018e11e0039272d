"""Keeps pieces of series that were read from files of the lake, within a bound of bytes. Files never change. No I/O.

A dashboard asks the same questions again each minute, and all files but those of the newest days are the same then.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

MOST_KEPT = 96 * 1024 * 1024  # bytes of pieces: hours of a day of 10,000 series, or five minutes of a month of 100
OBJECTS = 1_024  # bytes that a piece takes beside its figures, and a lot that has none
Columns = dict[str, Any]  # of numpy, by their names


@frozen(eq=False)
class Piece:
    """Holds buckets of one series in the order of time, with the metric as rollups write it."""

    series: int
    metric: str
    unit: str
    kind: str
    columns: Columns

    @property
    def size(self) -> int:
        """Return the bytes that it takes."""
        return OBJECTS + sum(int(each.nbytes) for each in self.columns.values())


@define
class KeptPieces:
    """Keeps the pieces of lots of files; those that were not used for longest go first."""

    most: int = MOST_KEPT
    size: int = field(init=False, default=0)
    _lots: OrderedDict[bytes, tuple[int, Sequence[Piece]]] = field(init=False, factory=OrderedDict)

    def of(self, parts: Iterable[bytes], read: Callable[[], Iterable[Piece]]) -> Iterator[Piece]:
        """Yield the pieces of a lot: those that are kept, else those that are read now.

        `parts` name all that the pieces follow from. A lot is kept once all of it was taken; one that is larger than
        the bound is not, and no more of it than the bound is in memory.
        """
        key = _digest(parts)
        if key in self._lots:
            self._lots.move_to_end(key)
            yield from self._lots[key][1]
            return
        pieces, size = list[Piece](), OBJECTS
        for piece in read():
            size += piece.size
            if size <= self.most:
                pieces.append(piece)
            else:
                pieces.clear()
            yield piece
        if size <= self.most:
            self._keep(key, size, pieces)

    def clear(self) -> bool:
        """Drop all that is kept. Return True if that was anything."""
        had_any, self.size = bool(self._lots), 0
        self._lots.clear()
        return had_any

    def _keep(self, key: bytes, size: int, pieces: Sequence[Piece]) -> None:
        self._lots[key] = size, pieces
        self.size += size
        while self.size > self.most:
            self.size -= self._lots.popitem(last=False)[1][0]


def _digest(parts: Iterable[bytes]) -> bytes:
    found = hashlib.blake2b(digest_size=32)
    for part in parts:
        found.update(len(part).to_bytes(8) + part)
    return found.digest()
