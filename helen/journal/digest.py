"""Reads durable records a few at a time, and puts them into the rows of their segment. Runs in the caller's thread.

Each call is one step: a few records, one column of rows, or the marks of some agents for a WAL that is closed. Steps
take half a millisecond where documents are as agents make them, and 6 ms for the slowest that a hostile one can make.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from helen.journal.intake import Intake, Queued
from helen.journal.limits import Limits
from helen.journal.rows import Rows
from helen.journal.sealer import Sealer
from helen.journal.sealing import ClosedWal, ClosingWal
from helen.journal.series import Series
from helen.journal.stored import stored_result
from helen.journal.values import Batch, Change, Entry, StoredChange, StoredResult, Trouble

BYTES_OF_A_STEP = 32 * 1024  # of records that are read in one step
MARKS_OF_A_STEP = 200  # agents whose marks are copied: some 0.2 ms


class Digest:
    """Takes durable records in the order of `at`, and gives each closed WAL with its rows to the sealer.

    `number` is that of the first WAL. After a fault nothing is sealed any more, and Helen has to end: the WALs keep
    what is durable, and the next start reads them.
    """

    def __init__(
        self,
        intake: Intake,
        series: Series,
        limits: Limits,
        sealer: Sealer,
        on_durable: Callable[[Batch], None],
        close_wal: Callable[[int], object],
        number: int,
        trouble: Callable[[Trouble], None],
    ) -> None:
        self._intake = intake
        self._series = series
        self._limits = limits
        self._sealer = sealer
        self._on_durable = on_durable
        self._close_wal = close_wal
        self._trouble = trouble
        self._rows = Rows(series)
        self._number = number  # of the WAL whose rows these are
        self._is_broken = False  # rows are missing

    def take(self, waiting: deque[Queued]) -> None:
        """Do one step with what is left in the deque, and take out what is done with."""
        if self._is_broken:
            self._intake.done(waiting.popleft())
            return
        try:
            records = self._step(waiting)
        except Exception as error:
            self._is_broken = True
            sentence = (
                f"The journal can't read what is durable: {error!r}. Nothing is lost: it is in the WAL, and the next"
                " start reads it."
            )
            self._trouble(Trouble(sentence, fatal=True))
            raise
        if records or not self._intake.backlog_bytes:  # without any, too: a connection that is held may read on
            self._on_durable(Batch(records=records))

    def _step(self, waiting: deque[Queued]) -> tuple[StoredResult | StoredChange, ...]:
        """Convert a column of rows, close a WAL, or read some records; return those that were read."""
        if self._rows.convert_some():
            if self._rows.held_bytes >= self._limits.segment_bytes:  # metrics may take several times what blobs do
                self._close_wal(self._number)
        elif isinstance(closing := waiting[0].record, ClosingWal):
            if closing.marks.copy_some(MARKS_OF_A_STEP) and not self._rows.convert_some(1):
                self._seal(closing)
                self._intake.done(waiting.popleft())
        else:
            return self._read(waiting)
        return ()

    def _read(self, waiting: deque[Queued]) -> tuple[StoredResult | StoredChange, ...]:
        """Read the next records of one WAL, as many as one step may."""
        taken = self._next_step(waiting)
        try:
            records = tuple([found for queued in taken if (found := _stored(queued)) is not None])
            self._rows.extend(records)
        finally:
            for queued in taken:
                self._intake.done(queued)
        return records

    def _next_step(self, waiting: deque[Queued]) -> list[Queued]:
        """Take so many records of one WAL as one step may read; a great one alone, for its columns are copies of it."""
        taken: list[Queued] = []
        size, most = 0, self._limits.batch_records
        while waiting and len(taken) < most and size < BYTES_OF_A_STEP and type(waiting[0].record) is not ClosingWal:
            taken.append(waiting.popleft())
            size += taken[-1].size
        return taken

    def _seal(self, closing: ClosingWal) -> None:
        rows, self._rows, self._number = self._rows, Rows(self._series), closing.number + 1
        closed = ClosedWal(closing.number, closing.at, closing.marks.rows, self._series.take_changes(), rows)
        self._sealer.put(closed)


def _stored(queued: Queued) -> StoredResult | StoredChange | None:
    """Return the durable record; None for a floor, and for one that was there already."""
    record = queued.record
    if not queued.at:
        return None
    if type(record) is Entry:
        return queued.stored or stored_result(queued.at, record)
    return StoredChange(queued.at, record) if isinstance(record, Change) else None
