"""Keeps pieces of series that were read from files of the lake, within a bound of bytes. Files never change. No I/O.

A dashboard asks the same questions again each minute, and all files but those of the newest days are the same then. A
result that comes late has one day of a lot replaced: that day alone is read again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from helen.promql.gathering import TIME

MOST_KEPT = 96 * 1024 * 1024  # bytes of pieces: hours of a day of 10,000 series, or five minutes of a month of 100
OBJECTS = 1_024  # bytes that a piece takes beside its figures, and a lot that has none
DAY = 128  # bytes that the state of a day takes
Array = Any  # of numpy
PieceKey = tuple[int, str, str, str]  # series, metric, unit, kind
Columns = dict[str, Array]  # of numpy, by their names


@frozen(eq=False)
class Piece:
    """Holds buckets of one series in the order of time, with the metric as rollups write it."""

    series: int
    metric: str
    unit: str
    kind: str
    columns: Columns

    @property
    def key(self) -> PieceKey:
        """Return what tells its series from all others."""
        return self.series, self.metric, self.unit, self.kind

    def joined(self, other: Piece) -> Piece:
        """Return both in the order of time; they are of different days."""
        order = np.argsort(np.concatenate([self.columns[TIME], other.columns[TIME]]), kind="stable")
        both = {name: np.concatenate([each, other.columns[name]])[order] for name, each in self.columns.items()}
        return evolve(self, columns=both)

    @property
    def size(self) -> int:
        """Return the bytes that it takes."""
        return OBJECTS + sum(int(each.nbytes) for each in self.columns.values())


@frozen(eq=False)
class Lot:
    """Names days that are read together: the files of each of them between `first` and `last`, both included.

    Days are numbers, those of `date.toordinal`. `day_of` says from times of samples on which days their buckets begin.
    """

    name: str
    files: Mapping[int, Sequence[str]]
    first: int
    last: int
    day_of: Callable[[Array], Array]

    def paths(self, days: Iterable[int]) -> list[str]:
        """Return the files of some of the days, in their order."""
        return [path for day in sorted(days) for path in self.files[day]]

    def states(self) -> dict[int, bytes]:
        """Return for each day a value that is another one once its files are others: the log adds and removes them."""
        return {day: _digest(path.encode() for path in paths) for day, paths in self.files.items()}


@frozen(eq=False)
class _Kept:
    """Holds the pieces of a lot, and the state of each day that is in them."""

    size: int
    pieces: Sequence[Piece]
    states: Mapping[int, bytes]


@define
class KeptPieces:
    """Keeps the pieces of lots of files; those that were not used for longest go first."""

    most: int = MOST_KEPT
    size: int = field(init=False, default=0)
    _lots: OrderedDict[bytes, _Kept] = field(init=False, factory=OrderedDict)

    def of(self, parts: Iterable[bytes], lot: Lot, read: Callable[[Sequence[str]], Iterable[Piece]]) -> Iterator[Piece]:
        """Yield the pieces of a lot: those that are kept, else those that are read now.

        `parts` name all that the pieces follow from, besides the files. Only days whose files are others by now are
        read again; samples of kept days outside of the lot's span may come, too. A lot is kept once all of it was
        taken; one that is larger than the bound is not, and no more of it than the bound is in memory.
        """
        key, states = _digest([*parts, lot.name.encode()]), lot.states()
        known = self._lots.get(key)
        had = {} if known is None else known.states
        missing = {day for day, state in states.items() if had.get(day) != state}
        gone = {day for day in had if lot.first <= day <= lot.last and had[day] != states.get(day)}
        if known is not None and not missing and not gone:
            self._lots.move_to_end(key)
            yield from known.pieces
            return
        made = iter(read(lot.paths(missing)) if missing else ())
        if known is not None:
            fresh = {piece.key: piece for piece in made}
            self._drop(key)  # its pieces go below, one by one, as they are handed on
            made = _joined(deque(known.pieces), gone, lot, fresh)
            del known
        pieces, kept_days = list[Piece](), {day: state for day, state in had.items() if day not in gone} | states
        size = OBJECTS + DAY * len(kept_days)
        for piece in made:
            size += piece.size
            if size <= self.most:
                pieces.append(piece)
            else:
                pieces.clear()
            yield piece
        if size <= self.most:
            self._keep(key, _Kept(size, pieces, kept_days))

    def clear(self) -> bool:
        """Drop all that is kept. Return True if that was anything."""
        had_any, self.size = bool(self._lots), 0
        self._lots.clear()
        return had_any

    def _keep(self, key: bytes, kept: _Kept) -> None:
        self._drop(key)
        self._lots[key] = kept
        self.size += kept.size
        while self.size > self.most:
            self.size -= self._lots.popitem(last=False)[1].size

    def _drop(self, key: bytes) -> None:
        known = self._lots.pop(key, None)
        self.size -= 0 if known is None else known.size


def _joined(kept: deque[Piece], gone: set[int], lot: Lot, fresh: dict[PieceKey, Piece]) -> Iterator[Piece]:
    """Yield kept pieces without the days that are gone, each together with what was read for it, then all others."""
    while kept:
        piece = kept.popleft()
        rest, new = _without(piece, gone, lot), fresh.pop(piece.key, None)
        if new is not None:
            rest = new if rest is None else rest.joined(new)
        if rest is not None:
            yield rest
    yield from fresh.values()


def _without(piece: Piece, gone: set[int], lot: Lot) -> Piece | None:
    """Return the samples of a piece that are of no day of these; None if there are none."""
    days = lot.day_of(piece.columns[TIME])
    stays = ~np.isin(days, [*gone]) if gone else np.ones(len(days), bool)
    if stays.all():
        return piece
    columns = {name: each[stays] for name, each in piece.columns.items()}
    return evolve(piece, columns=columns) if stays.any() else None


def _digest(parts: Iterable[bytes]) -> bytes:
    found = hashlib.blake2b(digest_size=32)
    for part in parts:
        found.update(len(part).to_bytes(8) + part)
    return found.digest()
