"""Counts each record in the dedupe marks, gives it its number `at`, encodes it for the WAL, and queues it.

All of it happens in the caller's thread, as each record comes: a second thread that computed would take the interpreter
from the reactor once for each system call. The writer thread gets bytes, and does nothing but write and sync them.
"""

from __future__ import annotations

from collections.abc import Callable

from equus_protocol.result_fields import GAP_CHECK_ID
from helen.journal.counting import count
from helen.journal.folder import Folder
from helen.journal.intake import Intake, Queued
from helen.journal.limits import Limits
from helen.journal.marks import Marks, Verdict
from helen.journal.record import encode_change, encode_entry, encode_floor
from helen.journal.recovery import State
from helen.journal.sealing import ClosingWal
from helen.journal.values import REFUSING, Change, Entry, Floor, Trouble
from helen.journal.wal import OpenWal

NOTHING = b""  # to be written of a record that is there already: it passes the writer for its ack
_NEW = Verdict.NEW


class Numbering:
    """Holds the marks, the `at` counter and the open WAL. One thread calls it, in which records come."""

    def __init__(
        self, folder: Folder, state: State, limits: Limits, intake: Intake, trouble: Callable[[Trouble], None]
    ) -> None:
        self.marks: Marks = state.marks
        self.at = state.at
        self.refused = 0
        self.wal = OpenWal(folder, state.wal)
        self._folder = folder
        self._limits = limits
        self._intake = intake
        self._trouble = trouble
        self._results = self._changes = self._bytes = 0  # of the open WAL

    def entry(self, entry: Entry, size: int, *, is_urgent: bool = False) -> None:
        """Queue one result with a blob of `size` bytes; one that is there already for its ack alone."""
        at, marks, salt = self.at + 1, self.marks, None
        if entry.check_id == GAP_CHECK_ID:
            verdict = count(marks, entry, at)
        else:
            verdict = marks.add(entry.agent, entry.spool, entry.sequence, at)
        if verdict is _NEW:
            self.at = at
            try:
                is_great = size > self._limits.great_bytes
                salt = self.wal.salt if is_great else None  # the writer thread makes the frame of such a one
                data = encode_entry(entry, at, None if is_great else self.wal.salt)
            except Exception as error:
                self._give_up(entry, error)
                raise
            self._results += 1
        elif verdict is Verdict.SEEN:
            data, at = NOTHING, 0
        else:
            self._refuse(entry)
            return
        self._intake.push(Queued(data, size, at, entry, marks.last.high, None, salt), is_urgent=is_urgent)
        if data:
            self._bytes += len(data) + len(entry.blob)
        if self._results >= self._limits.results_per_segment or self._bytes >= self._limits.segment_bytes:
            self.close_wal()

    def change(self, change: Change) -> None:
        """Queue one change as an urgent record: a caller waits for it."""
        self.at += 1
        data = encode_change(change, self.at, self.wal.salt)
        self._intake.push(Queued(data, len(change.document), self.at, change, 0), is_urgent=True)
        self._changes += 1
        self._bytes += len(data)
        if self._changes >= self._limits.changes_per_segment or self._bytes >= self._limits.segment_bytes:
            self.close_wal()

    def floor(self, floor: Floor) -> None:
        """Queue the beginning of a spool, unless all below it is counted already."""
        if self.marks.high(floor.agent, floor.spool) >= floor.first - 1:
            return
        self.at += 1
        count(self.marks, floor, self.at)
        data = encode_floor(floor, self.at, self.wal.salt)
        self._bytes += len(data)
        self._intake.push(Queued(data, 0, self.at, floor, self.marks.high(floor.agent, floor.spool)))

    def close_wal(self, number: int | None = None) -> None:
        """Close the open WAL behind what is queued, and begin the next one. A number that is closed already: nothing.

        The marks are copied as they are now, in steps: a record that comes before its agent is copied has it copied.
        """
        if number in (None, self.wal.number) and self._bytes:
            following = OpenWal(self._folder, self.wal.number + 1)
            closing = ClosingWal(self.wal.number, self.at, self.marks.begin_copy(), following)
            self.wal = following
            self._results = self._changes = self._bytes = 0
            self._intake.push(Queued(NOTHING, 0, 0, closing, 0))

    def _give_up(self, entry: Entry, error: Exception) -> None:
        """Take nothing more: a result is counted and can't be written, so the next ack of its spool would cover it."""
        self._intake.close()
        self._trouble(Trouble(f"The journal can't encode a result of {entry.agent}: {error!r}.", fatal=True))

    def _refuse(self, entry: Entry) -> None:
        """Count a result whose sequence can't be counted; the first one is told."""
        self.refused += 1
        if self.refused == 1:
            what = f"{entry.agent}'s spool {entry.spool}"
            sentence = f"A sequence of {what} can't be counted: dropped, and not acknowledged."
            self._trouble(Trouble(sentence, part=REFUSING))
