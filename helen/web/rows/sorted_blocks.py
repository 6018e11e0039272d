"""Keeps many rows sorted by their places in blocks of some hundred, so that one comes or goes without moving all. Pure.

In one list of 200,000 rows a change moved a megabyte and more, four times: 50 changes held the reactor for 10 to 30 ms.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from typing import Any

from helen.web.rows.row import Row

MOST_OF_BLOCK = 1_000  # rows; a block that has more becomes two

Place = tuple[Any, ...]


class SortedBlocks:
    """Holds one row at each place."""

    def __init__(self) -> None:
        self._firsts: list[Place] = []  # a place for each block: no row of it stands before, unless it is the first
        self._places: list[list[Place]] = []
        self._rows: list[list[Row]] = []

    def rows(self) -> list[Row]:
        """Return all rows, in order; 10,000 take 0.1 ms."""
        return list(chain.from_iterable(self._rows))

    def put(self, place: Place, row: Row) -> Row | None:
        """Put a row to its place; return the one that stood there."""
        if not self._firsts:
            self._firsts, self._places, self._rows = [place], [[]], [[]]
        block = self._block_of(place)
        places, rows = self._places[block], self._rows[block]
        at = bisect_left(places, place)
        if at < len(places) and places[at] == place:
            before, rows[at] = rows[at], row
            return before
        places.insert(at, place)
        rows.insert(at, row)
        if len(places) > MOST_OF_BLOCK:
            self._split(block)
        return None

    def drop(self, place: Place) -> Row | None:
        """Take away the row of a place; return it, or None if there is none."""
        if not self._firsts:
            return None
        block = self._block_of(place)
        places, rows = self._places[block], self._rows[block]
        at = bisect_left(places, place)
        if at == len(places) or places[at] != place:
            return None
        del places[at]
        gone = rows.pop(at)
        if not places:
            del self._firsts[block], self._places[block], self._rows[block]
        return gone

    def _block_of(self, place: Place) -> int:
        return max(0, bisect_right(self._firsts, place) - 1)

    def _split(self, block: int) -> None:
        places, rows = self._places[block], self._rows[block]
        half = len(places) // 2
        self._firsts.insert(block + 1, places[half])
        self._places[block : block + 1] = [places[:half], places[half:]]
        self._rows[block : block + 1] = [rows[:half], rows[half:]]
