"""Keeps rows in the orders of boards as they come, change and go, so that no answer has to sort them. Pure.

A change costs two searches and two moves in a short list (helen/web/rows/sorted_blocks.py); to sort them all for each
page held the reactor for many milliseconds, in a thread as well, since threads share one interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from equus_protocol.results import STATUS_WORDS
from helen.web.rows.row import SORT_KEYS, Key, Row, is_unwell
from helen.web.rows.sorted_blocks import SortedBlocks

ALWAYS = "problems"  # the order that is kept from the start; others from when they are asked for
UNUSED_SECONDS = 600.0  # after which another order is kept no more
ROWS_A_STEP = 50  # that a step of building adds


class Order:
    """Holds rows sorted by one key; a narrow one only those that are not well.

    One that is made while there are rows already is whole after its `build` has been run to the end.
    """

    def __init__(self, sort: str, is_narrow: bool, is_whole: bool) -> None:
        self.counts = dict.fromkeys(STATUS_WORDS, 0)
        self.is_whole = is_whole
        self.used_at = 0.0  # monotonic seconds
        self._sorted = SortedBlocks()
        self._place_of = SORT_KEYS[sort]
        self._is_narrow = is_narrow

    @property
    def rows(self) -> list[Row]:
        """Return the rows in their order, as they are at this moment."""
        return self._sorted.rows()

    def build(self, rows: Mapping[Key, Row]) -> Iterator[None]:
        """Add all rows, some a step. Rows may change between two steps, and another build may be on its way."""
        for number, key in enumerate(list(rows), 1):
            row = rows.get(key)
            if row is not None:
                self.renew(None, row)
            if number % ROWS_A_STEP == 0:
                yield
        self.is_whole = True

    def renew(self, before: Row | None, row: Row | None) -> None:
        """Put a row in the place of what it was before; None: it was not there, or is there no more."""
        if before is not None and self._holds(before):
            self._drop(before)
        if row is not None and self._holds(row):
            self._add(row)

    def _holds(self, row: Row) -> bool:
        return not self._is_narrow or is_unwell(row)

    def _add(self, row: Row) -> None:
        before = self._sorted.put(self._place_of(row), row)
        if before is not None:
            self.counts[before.status] -= 1
        self.counts[row.status] += 1

    def _drop(self, row: Row) -> None:
        gone = self._sorted.drop(self._place_of(row))
        if gone is not None:
            self.counts[gone.status] -= 1


class Orders:
    """Holds the orders that boards ask for."""

    def __init__(self) -> None:
        self._orders = {(ALWAYS, is_narrow): Order(ALWAYS, is_narrow, is_whole=True) for is_narrow in (True, False)}

    def of(self, sort: str, is_narrow: bool, now: float) -> Order:
        """Return an order, which may have to be built first. `now`: monotonic seconds."""
        key = sort, is_narrow
        if key not in self._orders:
            self._orders[key] = Order(sort, is_narrow, is_whole=False)
        self._orders[key].used_at = now
        return self._orders[key]

    def renew(self, before: Row | None, row: Row | None) -> None:
        """Put a row in the place of what it was before, in all orders; None: it was, or is, not there."""
        for order in self._orders.values():
            order.renew(before, row)

    def drop_unused(self, now: float) -> None:
        """Drop orders that no request has asked for in UNUSED_SECONDS. `now`: monotonic seconds."""
        for key, order in list(self._orders.items()):
            if key[0] != ALWAYS and now - order.used_at > UNUSED_SECONDS:
                del self._orders[key]
