"""Runs the writer thread: a group of records becomes durable by one write and one fdatasync, is acked, then parsed.

This thread alone touches the dedupe marks, the `at` counter and the series while the journal is open. A group that the
disk has no space for, or that no file can be opened for, is tried again each second, unchanged; a failed fdatasync ends
the thread, because the kernel may have dropped the pages and a second call would lie.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence

from attrs import define, field

from helen.journal.columns import Rows
from helen.journal.counting import count
from helen.journal.disk import NO_DESCRIPTOR, PASSING, report_passing
from helen.journal.folder import Folder
from helen.journal.intake import Intake
from helen.journal.limits import Limits
from helen.journal.marks import Verdict
from helen.journal.record import encode_change, encode_entry, encode_floor
from helen.journal.recovery import State
from helen.journal.sealer import Sealer
from helen.journal.sealing import ClosedWal
from helen.journal.stored import stored_result
from helen.journal.values import (
    OWN_SPOOL,
    REFUSING,
    Ack,
    Batch,
    Change,
    Entry,
    Floor,
    StoredChange,
    StoredResult,
    Trouble,
)
from helen.journal.wal import OpenWal

Record = Entry | Change | Floor
NEVER: frozenset[int] = frozenset()  # passes an error of fdatasync: a second call would lie
WRITE_FAILED = "Writing {path} failed ({error}). Check the disk."
SYNC_FAILED = (
    "fsync of {path} failed ({error}): what the disk holds is unknown, so nothing more is acknowledged. Check the disk,"
    " then start Helen again; agents send again what was not acknowledged."
)
_NEW = Verdict.NEW


class _Broken(Exception):
    """Says that the disk failed for good; the text is for the operator."""


@define
class _Group:
    """Holds the bytes of one commit, its new records, and the spools that it concerns."""

    data: list[bytes] = field(factory=list)
    new: list[tuple[int, Entry | Change]] = field(factory=list)
    spools: dict[tuple[str, str], None] = field(factory=dict)


class Writer:
    """Writes the records of an intake, from `start` until the intake is `closing`."""

    def __init__(
        self,
        folder: Folder,
        intake: Intake,
        state: State,
        limits: Limits,
        sealer: Sealer,
        deliver: Callable[[Batch], None],
        trouble: Callable[[Trouble], None],
    ) -> None:
        self.refused = 0
        self._folder = folder
        self._intake = intake
        self._marks = state.marks
        self._series = state.series
        self._at = state.at
        self._limits = limits
        self._sealer = sealer
        self._deliver = deliver
        self._trouble = trouble
        self._wal = OpenWal(folder, state.wal)
        self._rows = Rows(state.series)
        self._first_at: float | None = None
        self._last_commit = 0.0
        self._in_trouble = False  # a passing error was told, and not yet that it is over
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Give up waiting for space; what is queued and fits is still written."""
        self._stopping.set()

    def join(self, seconds: float) -> bool:
        """Wait so many seconds for the end of the thread. Returns False if it is still there."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------------------------------- the loop

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except _Broken as error:
            self._trouble(Trouble(str(error), fatal=True))
        except Exception as error:  # a thread that dies in silence would look like a slow disk
            sentence = f"The journal's writer failed: {error!r}. Nothing is acknowledged any more."
            self._trouble(Trouble(sentence, fatal=True))
            raise
        finally:
            self._wal.close()

    def _turn(self) -> bool:
        """Write one group, or wait for one. Returns False at the end."""
        if self._intake.wait(self._seconds_left()):
            self._let_a_group_grow()
            room = self._limits.results_per_segment - self._rows.results
            records, size = self._intake.take(self._limits.group_bytes, min(self._limits.group_records, room))
            try:
                if not self._commit(records):
                    return False
            finally:
                self._intake.done(size)
        elif self._intake.closing:
            return False
        if self._is_due():
            self._close_wal()
        return True

    def _let_a_group_grow(self) -> None:
        """Wait a moment for more records: an idle journal writes at once, a busy one every `group_seconds`.

        A calm one waits until `calm_seconds` after the last group, or until a record comes that somebody waits for.
        """
        intake, limits = self._intake, self._limits
        wait = self._last_commit + limits.group_seconds - time.monotonic()
        if wait > 0 and not intake.closing and intake.backlog_bytes < limits.group_bytes:
            self._stopping.wait(wait)
        is_calm = limits.calm_least <= len(intake) < limits.calm_records and intake.backlog_bytes < limits.calm_bytes
        if is_calm and not intake.is_urgent:
            until = self._last_commit + limits.calm_seconds
            intake.wait_for_urgent(until - time.monotonic(), limits.calm_bytes)
        self._last_commit = time.monotonic()

    # ------------------------------------------------------------------------------------------- one group

    def _commit(self, records: list[Record]) -> bool:
        """Make a group durable, ack it, then parse it. Returns False if the journal closes and there is no space."""
        group = self._assemble(records)
        if group.data:
            if not self._make_durable(b"".join(group.data)):
                return False
            if self._first_at is None:
                self._first_at = time.monotonic()
        acks = self._acks(group)
        if acks:
            self._deliver(Batch(acks=acks))
        for first in range(0, len(group.new), self._limits.batch_records):
            self._deliver(Batch(records=self._parse(group.new[first : first + self._limits.batch_records])))
        return True

    def _assemble(self, records: list[Record]) -> _Group:
        group, salt, marks, at = _Group(), self._wal.salt, self._marks, self._at
        spools, data, new = group.spools, group.data, group.new
        for record in records:
            if type(record) is Entry:
                spools[record.agent, record.spool] = None
                verdict = count(marks, record, at + 1)
                if verdict is _NEW:
                    at += 1
                    data.append(encode_entry(record, at, salt))
                    new.append((at, record))
                elif verdict is Verdict.REFUSED:
                    self._refuse(record)
            elif isinstance(record, Change):
                at += 1
                data.append(encode_change(record, at, salt))
                new.append((at, record))
            elif isinstance(record, Floor) and marks.high(record.agent, record.spool) < record.first - 1:
                at += 1
                count(marks, record, at)
                data.append(encode_floor(record, at, salt))
                spools[record.agent, record.spool] = None
        self._at = at
        return group

    def _refuse(self, entry: Entry) -> None:
        """Count a result whose sequence can't be counted; the first one is told."""
        self.refused += 1
        if self.refused == 1:
            what = f"{entry.agent}'s spool {entry.spool}"
            sentence = f"A sequence of {what} can't be counted: dropped, and not acknowledged."
            self._trouble(Trouble(sentence, part=REFUSING))

    def _acks(self, group: _Group) -> tuple[Ack, ...]:
        acks = []
        for agent, spool in group.spools:
            high = self._marks.high(agent, spool)
            if high and spool != OWN_SPOOL:
                acks.append(Ack(agent, spool[1:] if spool.lstrip("~") == OWN_SPOOL else spool, high))
        return tuple(acks)

    def _parse(self, new: Sequence[tuple[int, Entry | Change]]) -> tuple[StoredResult | StoredChange, ...]:
        stored = tuple([
            stored_result(at, record) if type(record) is Entry
            else StoredChange(at, record)  # type: ignore[arg-type]  # there is no third kind
            for at, record in new
        ])  # fmt: skip
        self._rows.extend(stored)
        return stored

    # ------------------------------------------------------------------------------------------- the disk

    def _make_durable(self, data: bytes) -> bool:
        """Write it and sync it. Returns False if the journal closes while a passing error lasts."""
        if not self._until_possible(lambda: self._wal.append(data), PASSING, WRITE_FAILED):
            return False
        self._folder.disk.reached("wal-written")
        self._until_possible(self._wal.sync_content, NEVER, SYNC_FAILED)
        if not self._until_possible(self._wal.sync_name, NO_DESCRIPTOR, SYNC_FAILED):
            return False
        self._folder.disk.reached("wal-synced")
        if self._in_trouble:
            self._in_trouble = False
            self._trouble(Trouble("The disk takes results again: they are durable and acknowledged.", over=True))
        return True

    def _until_possible(self, act: Callable[[], None], passing: Collection[int], failed: str) -> bool:
        """Do it, again and again while its error is a passing one. Returns False if the journal closes meanwhile.

        Raises _Broken after any other error, with the sentence `failed`.
        """
        while True:
            try:
                act()
                return True
            except OSError as error:
                if error.errno not in passing:
                    raise _Broken(failed.format(path=self._wal.path, error=error)) from error
                if not self._in_trouble:
                    self._in_trouble = True
                    meanwhile = "results are taken but not acknowledged; agents keep them"
                    self._trouble(Trouble(report_passing(error, str(self._wal.path), meanwhile)))
            if self._stopping.wait(self._limits.retry_seconds):
                return False

    # ------------------------------------------------------------------------------------------- closing a WAL

    def _seconds_left(self) -> float | None:
        if self._first_at is None:
            return None
        return max(0.0, self._first_at + self._limits.segment_seconds - time.monotonic())

    def _is_due(self) -> bool:
        return self._first_at is not None and (
            self._rows.results >= self._limits.results_per_segment
            or self._rows.changes >= self._limits.changes_per_segment
            or max(self._wal.size, self._rows.held_bytes) >= self._limits.segment_bytes
            or self._seconds_left() == 0
        )

    def _close_wal(self) -> None:
        """Hand the WAL to the sealing thread and begin the next one (its file is made with its first group)."""
        self._wal.close()
        self._rows.finish()
        self._sealer.put(
            ClosedWal(self._wal.number, self._at, self._marks.rows(), self._series.take_changes(), self._rows)
        )
        self._wal = OpenWal(self._folder, self._wal.number + 1)
        self._rows = Rows(self._series)
        self._first_at = None
