"""Keep the newest reports in memory, so that a report that has just been written is sent without reading it again.

Only reports that are durable, and that Helen has not acknowledged, are here: as long as Helen follows, that is what is
in flight. A report that does not fit is on the disk, and is read from there: after a start, and once Helen has been
away.
"""

from __future__ import annotations

from collections.abc import Iterable

from equus.spool.segment import HEADER_SIZE, Record

MOST = 2 * 1024 * 1024  # bytes: eight windows of a ReportSender, or the largest report


class RecentReports:
    """Holds reports of one spool whose sequences follow each other without a hole. `most`: bytes.

    All methods are for the reactor's thread.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._spool = ""
        self._records: dict[int, Record] = {}
        self._first = 1  # sequence of the oldest one that is held, or of the next one
        self._next = 1
        self._size = 0  # bytes

    def add(self, spool: str, records: Iterable[Record], whole_from: int) -> None:
        """Take reports that have become durable, in order.

        Sequences below `whole_from` are dropped, because the spool has lost some of them: what is sent in their place
        is the spool's to say.
        """
        if spool != self._spool:
            self._spool = spool
            self._begin_at(1)
        for record in records:
            if record.sequence != self._next:
                self._begin_at(record.sequence)
            self._records[record.sequence] = record
            self._next = record.sequence + 1
            self._size += _size(record)
        self.forget(spool, whole_from - 1)
        while self._size > self._most:
            self.forget(spool, self._first)

    def forget(self, spool: str, sequence: int) -> None:
        """Drop the reports of a spool up to this sequence."""
        if spool != self._spool:
            return
        while self._first <= sequence and self._first < self._next:
            self._size -= _size(self._records.pop(self._first))
            self._first += 1

    def after(self, spool: str, sequence: int, limit: int) -> list[Record]:
        """Return reports after a sequence, at most `limit` bytes but one if there is any; none if the next is not here.

        They are those that Spool.read returns.
        """
        found: list[Record] = []
        if spool != self._spool:
            return found
        size = 0
        while (record := self._records.get(sequence + 1)) is not None:
            size += _size(record)
            if found and size > limit:
                break
            found.append(record)
            sequence += 1
        return found

    def _begin_at(self, sequence: int) -> None:
        self._records.clear()
        self._first = self._next = sequence
        self._size = 0


def _size(record: Record) -> int:
    return len(record.blob) + HEADER_SIZE
